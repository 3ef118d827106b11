"""An encoder of token ids whose vectors say what the ids were."""

from typing import Any

import numpy as np

DIMENSION = 4


def vector(ids: list[int]) -> list[float]:
    """Of the ids alone."""
    return [sum(ids) % 101 + 1.0, len(ids), ids[len(ids) // 2] % 13, ids[0] + 1.0]


class Ids:
    """The same, as a `Highlighter` takes it."""

    def encode_ids(self, ids: Any, lengths: Any) -> Any:
        rows = np.split(ids, np.cumsum(lengths)[:-1])
        return np.array([vector(row.tolist()) for row in rows], np.float32)
