"""Questions and contexts of `process`, in the shapes that OpenProvence takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from pullquote import _native
from pullquote.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["Context", "ProcessCall", "SentenceSplitter", "check_process"]

# A text, or its sentences.
Context: TypeAlias = str | Sequence[str]
SentenceSplitter: TypeAlias = Callable[[str], Sequence[str]]


@dataclass(frozen=True)
class ProcessCall:
    """The checked arguments of a call of `process`."""

    # The sentences of each context of each question.
    questions: list[tuple[str, list[list[str]]]]
    shape: Literal["text", "list", "nested"]
    threshold: float | None
    always_select_title: bool
    reorder: bool
    top_k: int | None
    return_sentence_metrics: bool
    return_sentence_texts: bool

    def pairs(self) -> list[tuple[str, list[str]]]:
        """Each question with each of its contexts."""
        return [(question, sentences) for question, contexts in self.questions for sentences in contexts]


def check_process(
    question: str | Sequence[str], context: Context | Sequence[Any], splitter: SentenceSplitter | None, **options: Any
) -> ProcessCall:
    """Check the arguments of `process`, and cut contexts into sentences."""
    threshold, top_k = options["threshold"], options["top_k"]
    if threshold is not None and not (isinstance(threshold, (int, float)) and 0 <= threshold <= 1):
        message = f"threshold must be from 0 to 1, or None for the pruner's, not {threshold!r}"
        raise InvalidArgumentError(message)
    if top_k is not None and (not isinstance(top_k, int) or top_k < 1):
        message = f"top_k must be at least 1, or None for all, not {top_k!r}"
        raise InvalidArgumentError(message)
    questions = [question] if isinstance(question, str) else list(question)
    split = _sentences if splitter is None else splitter

    def sentences(item: Any) -> list[str]:
        return list(split(item)) if isinstance(item, str) else _strings(item)

    if isinstance(context, str):
        shape: Literal["text", "list", "nested"] = "text"
        groups: list[list[Any]] = [[context]]
    elif len(questions) == 1:
        shape, groups = "list", [list(context)]
    else:
        shape, groups = "nested", [[each] if isinstance(each, str) else list(each) for each in context]
    if len(groups) != len(questions):
        counts = f"there are {len(questions)} questions and {len(groups)} lists"
        message = f"context must have a list of texts for each question; {counts}"
        raise InvalidArgumentError(message)
    read = [(asked, [sentences(item) for item in group]) for asked, group in zip(questions, groups, strict=True)]
    return ProcessCall(read, shape, **options)


def _strings(sentences: Any) -> list[str]:
    if not isinstance(sentences, Sequence) or not all(isinstance(sentence, str) for sentence in sentences):
        message = f"context must be texts, or lists of the sentences of each, not {type(sentences).__name__}"
        raise InvalidTypeError(message)
    return list(sentences)


def _sentences(text: str) -> list[str]:
    """The sentences of a text, each with the white space after it: together they are the text."""
    starts = _native.parse_pieces(text, 1, 1, "sentence", False)[1:, 0].tolist()
    edges = [0, *starts, len(text)]
    return [text[start:end] for start, end in pairwise(edges) if start < end]
