"""What a pruner keeps of contexts, in the shape that OpenProvence returns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullquote._request.pruning import ProcessCall

__all__ = ["PrunedText", "process_result"]

# For each sentence its end and its probability; the text's probability if the pruner ranks; and the probability from which
# sentences are kept.
PrunedText = tuple[list[int], NDArray[np.float32], float | None, float]


def process_result(call: ProcessCall, pruned: Sequence[PrunedText], seconds: float) -> dict[str, Any]:
    """The result of `process`: the values of each context, nested as the call's contexts are."""
    left = iter(pruned)
    groups = [[_context(call, context, *next(left)) for context in contexts] for _, contexts in call.questions]
    if call.reorder:
        groups = [sorted(group, key=_score, reverse=True)[: call.top_k] for group in groups]
    columns = {name: [[context[name] for context in group] for group in groups] for name in _names(call)}
    if call.shape != "nested":
        columns = {name: values[0] for name, values in columns.items()}
    if call.shape == "text":
        columns = {name: values[0] for name, values in columns.items()}
    return {**columns, "timing": {"total_seconds": seconds}}


def _names(call: ProcessCall) -> list[str]:
    names = ["pruned_context", "reranking_score", "compression_rate", "title", "kept_spans"]
    texts = ["kept_sentences", "removed_sentences"] if call.return_sentence_texts else []
    return [*names, *texts, *(["sentence_probabilities"] if call.return_sentence_metrics else [])]


def _context(
    call: ProcessCall,
    context: str | list[str],
    ends: list[int],
    probabilities: NDArray[np.float32],
    score: float | None,
    least: float,
) -> dict[str, Any]:
    whole = context if isinstance(context, str) else "".join(context)
    sentences = [whole[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    keeps = [bool(probability >= least) for probability in probabilities]
    if call.always_select_title and any(keeps):
        keeps[0] = True
    kept = [sentence for sentence, keep in zip(sentences, keeps, strict=True) if keep]
    text, length = "".join(kept), sum(map(len, sentences))
    return {
        "pruned_context": text,
        "reranking_score": 0.0 if score is not None and not text.strip() else score,
        "compression_rate": 100 * (length - len(text)) / max(length, 1),
        "title": None,
        "kept_spans": _runs(sentences, keeps),
        "kept_sentences": kept,
        "removed_sentences": [sentence for sentence, keep in zip(sentences, keeps, strict=True) if not keep],
        "sentence_probabilities": probabilities.tolist(),
    }


def _runs(sentences: list[str], keeps: list[bool]) -> list[tuple[int, int]]:
    """The start and end of each run of kept sentences in the context."""
    ends = list(accumulate(map(len, sentences)))
    runs: list[tuple[int, int]] = []
    for sentence, end, keep in zip(sentences, ends, keeps, strict=True):
        start = end - len(sentence)
        if keep and runs and runs[-1][1] == start:
            runs[-1] = (runs[-1][0], end)
        elif keep:
            runs.append((start, end))
    return runs


def _score(context: dict[str, Any]) -> float:
    score = context["reranking_score"]
    return -math.inf if score is None else score
