"""Options: what may be said of a call, and texts on their way to the core."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypedDict, TypeVar

from pullquote.errors import InvalidArgumentError, InvalidTypeError, TruncationWarning

__all__ = ["Dedupe", "Effort", "Format", "Options", "Order", "Pairing", "Unit"]

Unit = Literal["sentence", "word", "token"]
Order = Literal["score", "position"]
Dedupe = Literal["auto", "page", "answer", "none"]
Pairing = Literal["auto", "each", "all"]
Format = Literal["text", "markdown", "html", "auto"]
Effort = Literal["full", "fast", "auto"]

# The defaults of a call's options; a test compares them with `rust/core/src/options.rs`, where HTTP has them from.
HIGHLIGHT_LENGTH = 3
STEP_SIZE = 1
UNIT: Unit = "sentence"
ORDER: Order = "score"
DEDUPE: Dedupe = "auto"
FORMAT: Format = "text"
EFFORT: Effort = "auto"
# Seconds that a client waits for a server, if not told otherwise.
SERVER_TIMEOUT = 60.0


class Options(TypedDict, total=False):
    """The options of a call, as keywords; `Highlighter.highlights` says what they mean."""

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
    min_score: float | None
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


_Text = TypeVar("_Text")


def checked(
    query: str | Sequence[str], texts: Iterable[str], options: Options
) -> tuple[str | list[str], list[str], list[str | None] | None, dict[str, Any]]:
    """Queries, pages, titles and options as the core takes them."""
    queries = query if isinstance(query, str) else listed(query, "query")
    pages = listed(texts, "texts")
    if not pages:
        message = "texts is empty; pass at least one page"
        raise InvalidArgumentError(message)
    if isinstance(queries, list) and not queries:
        message = "query is an empty list; pass one query, or one for each page, or many for one page"
        raise InvalidArgumentError(message)
    full: dict[str, Any] = {**options}
    titles = full.pop("titles")
    return queries, pages, None if titles is None else listed(titles, "titles"), full


def checked_texts(texts: Iterable[str], role: str) -> list[str]:
    """Texts to embed, and their role."""
    if role not in {"query", "passage"}:
        message = f'role must be "query" or "passage", not {role!r}'
        raise InvalidArgumentError(message)
    given = listed(texts, "texts")
    if not given:
        message = "texts is empty; pass at least one text"
        raise InvalidArgumentError(message)
    return given


def warn_of_cut(truncated: int, texts: int, max_tokens: int) -> None:
    """Say that the ends of texts had no part in their vectors."""
    message = f"{truncated} of {texts} texts were cut at the model's limit of {max_tokens} tokens"
    warnings.warn(message, TruncationWarning, stacklevel=3)


def listed(texts: Iterable[_Text], name: str) -> list[_Text]:
    """The texts as a list: a generator can be walked only once, and offsets need the texts again."""
    if isinstance(texts, (str, bytes, bytearray, dict)):
        message = f"{name} must be a list of strings, not one {type(texts).__name__}; pass [{name}]"
        raise InvalidTypeError(message)
    try:
        return list(texts)
    except TypeError:
        message = f"{name} must be a list of strings, not {type(texts).__name__}"
        raise InvalidTypeError(message) from None
