"""An encoder in this process that blocks until a test opens its gate, and says that it has begun."""

import threading
from typing import Any

import numpy as np


class GatedEncoder:
    """`begun` is set by each batch, which then waits for `gate`; `texts` counts what was encoded. The gate begins open."""

    def __init__(self) -> None:
        self.begun, self.gate = threading.Event(), threading.Event()
        self.texts = 0
        self.gate.set()

    def shut(self) -> None:
        """Close the gate, and forget earlier batches."""
        self.begun.clear()
        self.gate.clear()

    def encode(self, texts: list[str]) -> Any:
        self.begun.set()
        self.gate.wait()
        self.texts += len(texts)
        return np.ones((len(texts), 4), np.float32)
