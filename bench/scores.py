"""Scoring and selection of the rivals: cosines with numpy, then the best windows that do not overlap.

This is the plain rule of `highlights()`: greedy by score, ties to the earlier window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.workload import TOP_K, Page


@dataclass(frozen=True, slots=True)
class Chosen:
    """A page's highlights by one side.

    `spans` is int64 ``[k, 2]`` in characters and `scores` float32 ``[k]``, the best first. `all_scores` is float32
    ``[n]``, of every window in the order of the page, so that sides can be compared; `None` if a side does
    not return them.
    """

    spans: NDArray[np.int64]
    scores: NDArray[np.float32]
    all_scores: NDArray[np.float32] | None


def choose(spans: NDArray[np.int64], vectors: NDArray[np.float32], query: NDArray[np.float32]) -> Chosen:
    """Choose a page's best windows that do not overlap.

    `spans` is ``[n, 2]``, `vectors` ``[n, dimension]`` and `query` ``[dimension]``, both of length one.
    """
    scores = vectors @ query
    taken: list[int] = []
    for window in np.argsort(-scores, kind="stable").tolist():
        if len(taken) == TOP_K:
            break
        start, end = spans[window]
        if all(end <= spans[other, 0] or spans[other, 1] <= start for other in taken):
            taken.append(window)
    return Chosen(spans[taken], scores[taken], scores)


def choose_on_each(pages: list[Page], vectors: NDArray[np.float32], queries: NDArray[np.float32]) -> list[Chosen]:
    """Choose on every page by its own query, or by the only one.

    `vectors` is ``[n, dimension]``, of all pages' windows in order, and `queries` ``[pages or 1, dimension]``.
    """
    chosen = []
    first = 0
    for number, page in enumerate(pages):
        end = first + len(page.spans)
        chosen.append(choose(page.spans, vectors[first:end], queries[number % len(queries)]))
        first = end
    return chosen
