"""Tables: columns of texts in Arrow's format go in, a table of passages comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from pullquote import _native
from pullquote._highlights import Work
from pullquote._options import Options, listed
from pullquote.errors import InvalidArgumentError, InvalidTextError, InvalidTypeError

__all__ = ["ArrowTable", "HighlightTable"]


class _Stream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object: ...


class _Array(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None, /) -> tuple[object, object]: ...


# What offers Arrow's PyCapsule interface: tables and batches of pyarrow, polars, duckdb, daft and others.
ArrowTable: TypeAlias = _Stream | _Array

# Options of `highlights()` that say which query goes with which page, which the rows of a table do.
_ROWS_SAY = {"pairing": "auto", "fuse": False, "titles": None}


class HighlightTable:
    """The answers to the rows of a table, as a table: what `Highlighter.highlights_arrow` returns.

    It offers Arrow's PyCapsule interface and nothing else of a table, so no library is needed for it: ``pyarrow.table(found)``,
    ``polars.DataFrame(found)``, ``duckdb.from_arrow(pyarrow.table(found))``. Nothing is copied then. Its columns are:

    - ``id``: that of the row, in the type it had; the number of the row, int64, where no column was named.
    - ``query``: large_string, what was asked; null where that cannot be read.
    - ``highlights``: a list of structs, the best first unless `order` says otherwise; null where there is an error. Of each
      passage its ``text`` (large_string), its place in the page in code points, ``start`` and ``end``, and in bytes of UTF-8,
      ``start_byte`` and ``end_byte`` (int64), and its ``score`` (float32). With `context` also ``before`` and ``after``; with
      `explain` ``matches``, a list of structs ``word``, ``start``, ``end``; with a `format` other than text ``source_start`` and
      ``source_end``, code points of the source.
    - ``windows``: int64, how many windows the page has; null where there is an error.
    - ``error``: large_string, why there is no answer, like ``InvalidTextError: the text is null``; null where there is one.

    `errors` is how many rows have one, `work` what all of it took.
    """

    __slots__ = ("_native", "errors", "work")

    def __init__(self, native: _native.Table) -> None:
        """Take the table as the core wrote it."""
        self._native = native
        self.errors = native.errors
        self.work = Work(**native.work())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A stream of the table's batches, each time from the first; in the table's own schema."""
        return self._native.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The table's schema."""
        return self._native.__arrow_c_schema__()

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return f"<HighlightTable of {len(self)} rows, {self.errors} with an error>"


@dataclass(frozen=True, slots=True)
class Names:
    """Which columns are what; see `rust/python/src/arrow/columns.rs`."""

    text: str
    query: str | None
    questions: list[str]
    id: str | None
    title: str | None


def checked_names(text: str, query: str | Sequence[str], id: str | None, title: str | None) -> Names:  # noqa: A002 - as in `highlights_arrow`
    """What is said of a table's columns, as the core takes it."""
    for what, name in (("text", text), ("id", id), ("title", title)):
        if not isinstance(name, str) and (name is not None or what == "text"):
            message = f"{what} must be the name of a column, not {name!r}"
            raise InvalidTypeError(message)
    if isinstance(query, str):
        return Names(text, query, [], id, title)
    questions = listed(query, "query")
    if not questions:
        message = "query is an empty list; pass the questions to ask of every row, or the name of a column"
        raise InvalidArgumentError(message)
    for number, question in enumerate(questions):
        if not isinstance(question, str):
            message = f"query[{number}] must be a string, not {type(question).__name__}"
            raise InvalidTypeError(message)
        if any("\ud800" <= character <= "\udfff" for character in question):
            message = f"query[{number}] has a lone surrogate, which no Unicode text can hold"
            raise InvalidTextError(message)
        if not question.strip():
            message = f"query[{number}] is empty; a query needs at least one character that is not white space"
            raise InvalidArgumentError(message)
    if title is not None:
        message = (
            "title is what a row is asked whose query is null, so it goes with a column of queries, not with a list"
        )
        raise InvalidArgumentError(message)
    return Names(text, None, questions, id, title)


def checked_options(full: Options) -> dict[str, Any]:
    """Options that are complete, as the core takes them for a table."""
    for name, default in _ROWS_SAY.items():
        if full.get(name) != default:
            message = f"{name} does not go with a table: each of its rows is a page with a query of its own"
            raise InvalidArgumentError(message)
    return {**full}
