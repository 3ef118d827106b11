"""Tables in Arrow's format: columns of texts in, a table of passages out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from pullquote import _native
from pullquote._request.options import Options, to_list
from pullquote.errors import InvalidArgumentError, InvalidTextError, InvalidTypeError

__all__ = ["ArrowTable", "HighlightTable"]


class _Stream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object: ...


class _Array(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None, /) -> tuple[object, object]: ...


# Objects with Arrow's PyCapsule interface: tables and batches of pyarrow, polars, duckdb, daft and others.
ArrowTable: TypeAlias = _Stream | _Array

# The rows of a table determine what these options say.
_ROW_OPTIONS = {"pairing": "auto", "fuse": False, "titles": None, "ids": None}
# Limits that rows would each have for themselves, and what works instead.
_SHARED_LIMITS = {"max_total_highlights": "top_k", "max_total_chars": "max_chars", "max_total_tokens": "max_tokens"}


class HighlightTable:
    """The answers to the rows of a table, as a table; returned by `Highlighter.highlights_arrow`.

    It has Arrow's PyCapsule interface and no other methods of a table: ``pyarrow.table(found)``, ``polars.DataFrame(found)`` and
    ``duckdb.from_arrow(pyarrow.table(found))`` take it without a copy. Its columns:

    - ``id``: the row's id in its own type; without an id column the row's number, int64.
    - ``query``: large_string; null if the query cannot be read.
    - ``highlights``: list of structs, best first unless `order` says otherwise; null on an error. Each has the
      fields of a `Highlight` without ``page``, ``query`` and ``id``: texts as large_string, positions as int64, scores as
      float32, lists as lists of structs. Fields of options that are off are empty.
    - ``windows``: int64, number of windows of the page; null on an error.
    - ``error``: large_string, for example ``InvalidTextError: the text is null``; null for an answer.

    `errors` counts rows with an error; `work` is the work of all rows.
    """

    __slots__ = ("_native", "errors", "work")

    def __init__(self, native: _native.Table) -> None:
        """Made by `Highlighter.highlights_arrow`."""
        self._native = native
        self.errors = native.errors
        self.work = native.work

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A new stream of all batches, in the table's own schema."""
        return self._native.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The table's schema."""
        return self._native.__arrow_c_schema__()

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return f"<HighlightTable of {len(self)} rows, {self.errors} with an error>"


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """The columns of a table, as `_native` takes them."""

    text: str
    query: str | None
    questions: list[str]
    id: str | None
    title: str | None


def column_names(text: str, query: str | Sequence[str], id: str | None, title: str | None) -> ColumnNames:  # noqa: A002 - as in `highlights_arrow`
    """Check the arguments of `Highlighter.highlights_arrow`."""
    for what, name in (("text", text), ("id", id), ("title", title)):
        if not isinstance(name, str) and (name is not None or what == "text"):
            message = f"{what} must be the name of a column, not {name!r}"
            raise InvalidTypeError(message)
    if isinstance(query, str):
        return ColumnNames(text, query, [], id, title)
    questions = to_list(query, "query")
    if not questions:
        message = "query is an empty list; pass queries for every row, or the name of a column"
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
        message = "title needs a column of queries, because it replaces a query that is null; with a list of queries, leave it out"
        raise InvalidArgumentError(message)
    return ColumnNames(text, None, questions, id, title)


def table_options(options: Options) -> dict[str, Any]:
    """Check that options suit a table."""
    for name, default in _ROW_OPTIONS.items():
        if options.get(name, default) != default:
            message = f"{name} cannot be combined with a table: each of its rows is a page with a query of its own"
            raise InvalidArgumentError(message)
    for name, of_row in _SHARED_LIMITS.items():
        if options.get(name) is not None:
            message = f"{name} is for all pages, and each row of a table is answered alone; {of_row} is for each row"
            raise InvalidArgumentError(message)
    if options.get("dedupe") == "answer":
        message = 'dedupe="answer" is for all pages, and each row of a table is answered alone; call highlights'
        raise InvalidArgumentError(message)
    if options.get("count_tokens") is not None:
        message = "count_tokens cannot be combined with a table, whose rows are read without Python; call highlights"
        raise InvalidArgumentError(message)
    return {
        name: value for name, value in options.items() if name not in {*_ROW_OPTIONS, *_SHARED_LIMITS, "count_tokens"}
    }
