"""An encoder whose process or node comes to an end in the middle of a job, when a test has said so beforehand.

What was said is a file in the directory of the environment variable `DOOM`, which is taken away by who acts on it: it happens
once, and on no clock.
"""

import os
import signal
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from support.fake_letter_encoder import letters as plain_letters

DOOM = "PULLQUOTE_TESTS_DOOM"


def letters(texts: list[str]) -> NDArray[np.float32]:
    """The vectors of `lettering`, if this process lives to give them."""
    if any("doom" in text for text in texts):
        if _is_meant("process"):
            os.kill(os.getpid(), signal.SIGKILL)
        if _is_meant("node"):
            _tell("node", os.environ["RAY_RAYLET_PID"])
            # The test ends this process with its node.
            time.sleep(600)
    return plain_letters(texts)


def announce(what: str) -> None:
    """Let the next process that encodes a page of doom be killed, or have it say on which node it is and wait for its end."""
    (_place() / f"{what}.told").unlink(missing_ok=True)
    (_place() / what).touch()


def is_announced(what: str) -> bool:
    """Whether nobody has acted on it."""
    return (_place() / what).exists()


def told() -> int | None:
    """The node that waits for its end, by the process that keeps it."""
    said = _place() / "node.told"
    return int(said.read_text()) if said.exists() else None


def _is_meant(what: str) -> bool:
    try:
        (_place() / what).rename(_place() / f"{what}.{os.getpid()}")
    except FileNotFoundError:
        return False
    return True


def _tell(what: str, said: str) -> None:
    unfinished = _place() / f"{what}.unfinished"
    unfinished.write_text(said)
    unfinished.rename(_place() / f"{what}.told")


def _place() -> Path:
    return Path(os.environ[DOOM])
