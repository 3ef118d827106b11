"""A server whose encoder blocks on the text "blocker" until a test opens its gate, and logs the order of all texts."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.server_process import ServerProcess, running_server

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
def gated_server(folder: Path, *options: str) -> Iterator[ServerProcess]:
    (folder / "gated.py").write_text(ENCODER.format(folder=str(folder)), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        with running_server("--encoder", "gated:encode", *options, device=None) as server:
            yield server


def open_gate(folder: Path) -> None:
    (folder / "gate").touch()


def encoded_texts(folder: Path) -> list[str]:
    """All texts that the encoder got, in order."""
    return (folder / "log").read_text(encoding="utf-8").splitlines()
