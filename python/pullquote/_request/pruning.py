"""Questions and contexts of `process`, in the shapes that OpenProvence takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict

from pullquote.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["Context", "ProcessCall", "ProcessOptions", "SentenceSplitter", "check_process"]

# A text, or its sentences.
Context: TypeAlias = str | Sequence[str]
SentenceSplitter: TypeAlias = Callable[[str], Sequence[str]]


class ProcessOptions(TypedDict, total=False):
    """The options of `Highlighter.process`, which documents them."""

    threshold: float | None
    always_select_title: bool
    reorder: bool
    top_k: int | None
    sentence_splitter: SentenceSplitter | None
    return_sentence_metrics: bool
    return_sentence_texts: bool
    timeout: float | None
    priority: int


@dataclass(frozen=True, kw_only=True)
class ProcessCall:
    """The checked arguments of a call of `process`."""

    # The contexts of each question: texts, or lists of the sentences of each.
    questions: list[tuple[str, list[str | list[str]]]]
    shape: Literal["text", "list", "nested"]
    threshold: float | None = None
    always_select_title: bool = False
    reorder: bool = False
    top_k: int | None = None
    return_sentence_metrics: bool = False
    return_sentence_texts: bool = False
    timeout: float | None = None
    priority: int = 0

    def pairs(self) -> list[tuple[str, str | list[str]]]:
        """Each question with each of its contexts."""
        return [(question, context) for question, contexts in self.questions for context in contexts]


def check_process(
    question: str | Sequence[str], context: Context | Sequence[Any], options: ProcessOptions
) -> ProcessCall:
    """Check the arguments of `Highlighter.process`."""
    arguments: dict[str, Any] = {**options}
    splitter = arguments.pop("sentence_splitter", None)
    threshold, top_k = options.get("threshold"), options.get("top_k")
    if threshold is not None and not (isinstance(threshold, (int, float)) and 0 <= threshold <= 1):
        message = f"threshold must be from 0 to 1, or None for the pruner's, not {threshold!r}"
        raise InvalidArgumentError(message)
    if top_k is not None and (not isinstance(top_k, int) or top_k < 1):
        message = f"top_k must be at least 1, or None for all, not {top_k!r}"
        raise InvalidArgumentError(message)
    questions = [question] if isinstance(question, str) else list(question)

    def read(item: Any) -> str | list[str]:
        if not isinstance(item, str):
            return _strings(item)
        return item if splitter is None else list(splitter(item))

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
    contexts = [(asked, [read(item) for item in group]) for asked, group in zip(questions, groups, strict=True)]
    return ProcessCall(questions=contexts, shape=shape, **arguments)


def _strings(sentences: Any) -> list[str]:
    if not isinstance(sentences, Sequence) or not all(isinstance(sentence, str) for sentence in sentences):
        message = f"context must be texts, or lists of the sentences of each, not {type(sentences).__name__}"
        raise InvalidTypeError(message)
    return list(sentences)
