"""The options of a call, and its checked request."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, TypeVar

from pullquote.errors import InvalidArgumentError, InvalidTypeError, TruncationWarning

__all__ = ["Dedupe", "Effort", "Format", "Options", "Order", "Pairing", "Unit"]

Unit = Literal["sentence", "word", "token"]
Order = Literal["score", "position"]
Dedupe = Literal["auto", "page", "answer", "none"]
Pairing = Literal["auto", "each", "all"]
Format = Literal["text", "markdown", "html", "auto"]
Effort = Literal["full", "fast", "auto"]

# Default seconds of a client's request.
SERVER_TIMEOUT = 60.0


class Options(TypedDict, total=False):
    """The options of a call as keywords; `Highlighter.highlights` documents them."""

    highlight_length: int
    step_size: int
    unit: Unit
    format: Format
    titles: Iterable[str | None] | None
    pairing: Pairing
    fuse: bool
    top_k: int | None
    max_chars: int | None
    max_tokens: int | None
    max_total_chars: int | None
    max_total_tokens: int | None
    min_score: float | Literal["auto"] | None
    order: Order
    dedupe: Dedupe
    context: int
    explain: bool
    allow_gaps: bool
    expand: bool
    lexical_weight: float | Literal["auto"]
    effort: Effort
    timeout: float | None
    priority: int


_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Request:
    """A checked call of `highlights`, as `_native` takes it."""

    query: str | list[str]
    texts: list[str]
    titles: list[str | None] | None
    options: dict[str, Any]


def check_request(query: str | Sequence[str], texts: Iterable[str], options: Mapping[str, Any]) -> Request:
    """Check a call's texts. `_native` checks the other options, and has their defaults."""
    queries = query if isinstance(query, str) else to_list(query, "query")
    pages = to_list(texts, "texts")
    if not pages:
        message = "texts is empty; pass at least one page"
        raise InvalidArgumentError(message)
    if isinstance(queries, list) and not queries:
        message = "query is an empty list; pass one query, one for each page, or many for one page"
        raise InvalidArgumentError(message)
    native = dict(options)
    titles = native.pop("titles", None)
    return Request(queries, pages, None if titles is None else to_list(titles, "titles"), native)


def complete(options: Mapping[str, Any], defaults: Mapping[str, Any], function: str) -> dict[str, Any]:
    """`options`, and `defaults` for the missing ones. Raises `TypeError` for an unknown one, as Python does."""
    if unknown := options.keys() - defaults.keys():
        message = f"{function}() got an unexpected keyword argument {min(unknown)!r}"
        raise TypeError(message)
    return {**defaults, **options}


def check_texts(texts: Iterable[str], role: str) -> list[str]:
    """Check texts to embed, and their role."""
    if role not in {"query", "passage"}:
        message = f'role must be "query" or "passage", not {role!r}'
        raise InvalidArgumentError(message)
    items = to_list(texts, "texts")
    if not items:
        message = "texts is empty; pass at least one text"
        raise InvalidArgumentError(message)
    return items


def warn_of_truncation(truncated: int, texts: int, max_tokens: int) -> None:
    """Issue a `TruncationWarning` for the caller of `embed`."""
    message = f"{truncated} of {texts} texts were cut at the model's limit of {max_tokens} tokens"
    warnings.warn(message, TruncationWarning, stacklevel=3)


def to_list(texts: Iterable[_Item], name: str) -> list[_Item]:
    """The texts as a list. A generator yields them once, but offsets need the texts again."""
    if isinstance(texts, (str, bytes, bytearray, dict)):
        message = f"{name} must be a list of strings, not one {type(texts).__name__}; pass [{name}]"
        raise InvalidTypeError(message)
    try:
        return list(texts)
    except TypeError:
        message = f"{name} must be a list of strings, not {type(texts).__name__}"
        raise InvalidTypeError(message) from None
