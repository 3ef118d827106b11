"""Texts that were ranked for a query."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["RerankResult", "rank"]


@dataclass(frozen=True, slots=True)
class RerankResult:
    """A text of `rerank`: its `index` in the list, and its `score`.

    The score is the probability that a reranker gives it, or with ``raw_scores`` the logit; of a server without a reranker, the
    cosine of its vector with the query's.
    """

    index: int
    score: float
    text: str


def rank(
    logits: NDArray[np.float32], texts: Sequence[str], top_n: int | None, *, raw_scores: bool
) -> list[RerankResult]:
    """The texts by a reranker's logits, the best first."""
    order = np.argsort(-logits, kind="stable")[:top_n].tolist()
    score = float if raw_scores else _sigmoid
    return [RerankResult(index, score(logits[index]), texts[index]) for index in order]


def _sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-float(logit))) if logit > 0 else math.exp(float(logit)) / (1 + math.exp(float(logit)))
