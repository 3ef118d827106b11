"""Texts that were ranked for a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["RerankResult", "rank"]


@dataclass(frozen=True, slots=True)
class RerankResult:
    """A text of `rerank`: its `index` in the list, and its `score`.

    The score is the probability that a reranker gives it, or with ``raw_scores`` the logit; without a reranker MaxSim, if the model
    is one of late interaction, or at a server the cosine of its vector with the query's.
    """

    index: int
    score: float
    text: str


def rank(scores: NDArray[np.float32], texts: Sequence[str], top_n: int | None) -> list[RerankResult]:
    """The texts by their scores, the best first."""
    order = np.argsort(-scores, kind="stable")[:top_n].tolist()
    return [RerankResult(index, float(scores[index]), texts[index]) for index in order]
