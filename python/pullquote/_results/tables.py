"""Highlights as dictionaries and tables, and for pydantic."""

from __future__ import annotations

import importlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypedDict

from pullquote import _native
from pullquote.errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    import polars

    from pullquote._results.highlights import Highlight, Highlights

__all__ = ["HighlightDict", "HighlightsDict", "PageDict"]


class MatchDict(TypedDict):
    """The fields of a `Match`."""

    word: str
    start: int
    end: int


class RectangleDict(TypedDict):
    """The fields of a `Rectangle`."""

    page: int
    left: float
    bottom: float
    right: float
    top: float


class HighlightDict(TypedDict):
    """The fields of a `Highlight`."""

    text: str
    start: int
    end: int
    score: float
    cosine: float
    bm25: float
    page: int
    query: int
    before: str
    after: str
    header: str
    matches: list[MatchDict]
    source_start: int
    source_end: int
    id: Any
    page_number: int | None
    rectangles: list[RectangleDict]


class PageDict(TypedDict):
    """One of the lists of `Highlights`, with its page and query."""

    page: int
    query: int
    id: Any
    format: str
    answered: bool
    windows: int
    windows_scored: int
    highlights: list[HighlightDict]


class HighlightsDict(TypedDict):
    """`Highlights` as a dictionary."""

    answered: bool
    results: list[PageDict]


def highlight_to_dict(highlight: Highlight) -> HighlightDict:
    """`Highlight.to_dict`."""
    row: Any = asdict(highlight)
    row["matches"], row["rectangles"] = list(row["matches"]), list(row["rectangles"])
    return row  # type: ignore[no-any-return]  # a test compares its keys


def to_dict(result: Highlights) -> HighlightsDict:
    """`Highlights.to_dict`."""
    rows: list[Any] = []
    for about, found in _lists(result):
        rows.append(about | {"highlights": [highlight_to_dict(highlight) for highlight in found]})
    return {"answered": result.answered, "results": rows}


def to_arrow(result: Highlights) -> Any:
    """`Highlights.to_arrow`."""
    pyarrow, columns = _module("pyarrow", "to_arrow"), _columns(result)
    if "id" in columns:
        try:
            columns["id"] = pyarrow.array(columns["id"])
        except (pyarrow.ArrowException, TypeError) as error:
            kinds = ", ".join(sorted({type(each).__name__ for each in columns["id"]}))
            message = f"ids of the types {kinds} cannot be stored in one Arrow column ({error}); pass ids of one type, such as str"
            raise InvalidTypeError(message) from error
    return pyarrow.table(columns)


def to_pandas(result: Highlights) -> Any:
    """`Highlights.to_pandas`."""
    return _module("pandas", "to_pandas").DataFrame(_columns(result))


def to_polars(result: Highlights) -> polars.DataFrame:
    """`Highlights.to_polars`."""
    frame: polars.DataFrame = _module("polars", "to_polars").DataFrame(_columns(result))
    return frame


def pydantic_schema(cls: type[Highlights], handler: Any) -> Any:
    """The schema of `Highlights` for pydantic: an instance, written as `to_dict` writes it."""
    from pydantic_core import core_schema as core  # noqa: PLC0415 - pydantic calls this

    from pullquote._results.highlights import Highlight  # noqa: PLC0415 - it imports this module

    def fields(schemas: dict[str, Any]) -> Any:
        return core.typed_dict_schema({name: core.typed_dict_field(schema) for name, schema in schemas.items()})

    whole = core.int_schema()
    page = {"page": whole, "query": whole, "id": core.any_schema(), "format": core.str_schema()}
    page |= {"answered": core.bool_schema(), "windows": whole, "windows_scored": whole}
    page["highlights"] = core.list_schema(handler.generate_schema(Highlight))

    def serialize(result: Highlights) -> dict[str, Any]:
        return {
            "answered": result.answered,
            "results": [{**about, "highlights": found} for about, found in _lists(result)],
        }

    shape = fields({"answered": core.bool_schema(), "results": core.list_schema(fields(page))})
    return core.is_instance_schema(
        cls, serialization=core.plain_serializer_function_ser_schema(serialize, return_schema=shape)
    )


def _lists(result: Highlights) -> list[tuple[dict[str, Any], list[Highlight]]]:
    """Each list of highlights, with its page and query."""
    rows = []
    for index, found in enumerate(result):
        query, page = result.query_and_page(index)
        about = {
            "page": page,
            "query": query,
            "id": None if result.ids is None else result.ids[page],
            "format": result.formats[page],
            "answered": any(highlight.score >= _native.ANSWERED for highlight in found),
            "windows": int(result.windows[page]),
            "windows_scored": int(result.windows_scored[page]),
        }
        rows.append((about, found))
    return rows


def _columns(result: Highlights) -> dict[str, Any]:
    """Columns of numbers as they are, and of texts as lists."""
    rows = [highlight for found in result for highlight in found]
    ids = {} if result.ids is None else {"id": [highlight.id for highlight in rows]}
    return {
        "page": result.pages,
        "query": result.queries,
        **ids,
        "text": [highlight.text for highlight in rows],
        "start": result.spans[:, 0].copy(),
        "end": result.spans[:, 1].copy(),
        "score": result.scores,
        "cosine": result.cosines,
        "bm25": result.bm25_scores,
        "before": [highlight.before for highlight in rows],
        "after": [highlight.after for highlight in rows],
        "header": [highlight.header for highlight in rows],
        "source_start": result.sources[:, 0].copy(),
        "source_end": result.sources[:, 1].copy(),
    }


def _module(name: str, method: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        message = f"{method}() needs {error.name}; run: pip install {name}"
        raise InvalidArgumentError(message) from None
