"""The fake letter encoder, which kills its own process or waits for its node to be killed, once, when a test schedules that.

A schedule is a file in the directory that the environment variable `FOLDER` names. The first process that acts on it renames
it, so that each crash happens once and does not depend on time.
"""

import os
import signal
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from support.fake_letter_encoder import letters as plain_letters

FOLDER = "PULLQUOTE_TESTS_CRASH_FOLDER"


def letters(texts: list[str]) -> NDArray[np.float32]:
    """Encode, unless a text contains "doom" and a crash is scheduled."""
    if any("doom" in text for text in texts):
        if _takes("process"):
            os.kill(os.getpid(), signal.SIGKILL)
        if _takes("node"):
            _report_node(os.environ["RAY_RAYLET_PID"])
            # The test kills this process with its node.
            signal.pause()
    return plain_letters(texts)


def schedule_crash(kind: str) -> None:
    """Make the next process that encodes "doom" kill itself (`process`), or report its node and wait (`node`)."""
    (_folder() / f"{kind}.reported").unlink(missing_ok=True)
    (_folder() / kind).touch()


def is_crash_pending(kind: str) -> bool:
    return (_folder() / kind).exists()


def node_to_kill() -> int | None:
    """The raylet's process id of the node that waits to be killed."""
    reported = _folder() / "node.reported"
    return int(reported.read_text()) if reported.exists() else None


def _takes(kind: str) -> bool:
    try:
        (_folder() / kind).rename(_folder() / f"{kind}.{os.getpid()}")
    except FileNotFoundError:
        return False
    return True


def _report_node(raylet: str) -> None:
    unfinished = _folder() / "node.unfinished"
    unfinished.write_text(raylet)
    unfinished.rename(_folder() / "node.reported")


def _folder() -> Path:
    return Path(os.environ[FOLDER])
