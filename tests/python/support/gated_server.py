"""A server whose encoder stops at the text "blocker" until its gate is opened, and keeps the order of what it was given."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.server_process import Serving, serving

ENCODER = """
import pathlib, time, numpy
gate, log = pathlib.Path({folder!r}, "gate"), pathlib.Path({folder!r}, "log")

def encode(texts):
    while "blocker" in texts and not gate.exists():
        time.sleep(0.01)
    with log.open("a") as lines:
        lines.writelines(text + "\\n" for text in texts)
    return numpy.ones((len(texts), 2), dtype=numpy.float32)
"""


@contextlib.contextmanager
def serving_gated(folder: Path, *options: str) -> Iterator[Serving]:
    (folder / "gated.py").write_text(ENCODER.format(folder=str(folder)), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        with serving("--encoder", "gated:encode", *options, device=None) as server:
            yield server


def open_gate(folder: Path) -> None:
    (folder / "gate").touch()


def encoded(folder: Path) -> list[str]:
    """What came to the encoder, in its order."""
    return (folder / "log").read_text(encoding="utf-8").splitlines()
