"""A server whose vectors are the numbers in their texts, a batch each, so that its answers come in many parts."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.server_process import Serving, serving

# Texts that end in a number are vectors of it, 12 values long; each batch takes as long as its first word says, and "fail" fails.
ENCODER = """
import time
import numpy as np

def encode(texts):
    vectors = np.zeros((len(texts), 12), np.float32)
    for row, text in enumerate(texts):
        word, _, number = text.partition(" ")
        if word == "fail":
            raise ValueError("cannot encode this")
        if word == "slow":
            time.sleep(0.2)
        vectors[row] = float(number) if number.isdigit() else 0
    return vectors
"""


@contextlib.contextmanager
def serving_numbers(folder: Path, *options: str) -> Iterator[Serving]:
    """Serve `ENCODER`, a text a batch; who does not read is waited for a second, who does not ask for two."""
    (folder / "numbers_encoder.py").write_text(ENCODER, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        own = ["--encoder", "numbers_encoder:encode", "--max-batch-size", "1", "--write-timeout", "1"]
        limits = ["--max-inputs", "200000", "--max-connections", "8", "--header-timeout", "2"]
        with serving(*own, *limits, *options, device=None) as server:
            yield server


def asked(texts: list[str]) -> dict[str, Any]:
    """The body that asks for their numbers."""
    return {"inputs": texts, "normalize": False}
