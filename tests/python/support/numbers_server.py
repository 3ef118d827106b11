"""A server whose vectors are the numbers in their texts, one text in a batch, so that answers have many parts."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.server_process import ServerProcess, running_server

# "word 7" becomes 12 values of 7. The word "gated" waits for a gate, and "fail" raises.
ENCODER = """
import pathlib, time
import numpy as np

gate = pathlib.Path({gate!r})

def encode(texts):
    vectors = np.zeros((len(texts), 12), np.float32)
    for row, text in enumerate(texts):
        word, _, number = text.partition(" ")
        if word == "fail":
            raise ValueError("cannot encode this")
        while word == "gated" and not gate.exists():
            time.sleep(0.01)
        vectors[row] = float(number) if number.isdigit() else 0
    return vectors
"""


@contextlib.contextmanager
def numbers_server(folder: Path, *options: str) -> Iterator[ServerProcess]:
    """Serve `ENCODER` with a write timeout and a header timeout of one second."""
    (folder / "numbers_encoder.py").write_text(ENCODER.format(gate=str(folder / "gate")), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        own = ["--encoder", "numbers_encoder:encode", "--max-batch-size", "1", "--write-timeout", "1"]
        limits = ["--max-inputs", "200000", "--max-connections", "8", "--header-timeout", "1"]
        with running_server(*own, *limits, *options, device=None) as server:
            yield server


def embed_body(texts: list[str]) -> dict[str, Any]:
    """The body of `POST /embed`."""
    return {"inputs": texts, "normalize": False}
