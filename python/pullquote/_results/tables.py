"""Highlights as dictionaries and tables, and for pydantic."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict

from pullquote._results.highlight import Highlight, HighlightDict
from pullquote.errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    import polars

__all__ = ["HighlightsDict", "PageDict", "pydantic_schema", "to_arrow", "to_pandas", "to_polars"]


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


def to_arrow(columns: dict[str, Any]) -> Any:
    """`Highlights.to_arrow`."""
    pyarrow = _module("pyarrow", "to_arrow")
    if "id" in columns:
        try:
            columns = columns | {"id": pyarrow.array(columns["id"])}
        except (pyarrow.ArrowException, TypeError) as error:
            kinds = ", ".join(sorted({type(each).__name__ for each in columns["id"]}))
            message = f"ids of the types {kinds} cannot be stored in one Arrow column ({error}); pass ids of one type, such as str"
            raise InvalidTypeError(message) from error
    return pyarrow.table(columns)


def to_pandas(columns: dict[str, Any]) -> Any:
    """`Highlights.to_pandas`."""
    return _module("pandas", "to_pandas").DataFrame(columns)


def to_polars(columns: dict[str, Any]) -> polars.DataFrame:
    """`Highlights.to_polars`."""
    frame: polars.DataFrame = _module("polars", "to_polars").DataFrame(columns)
    return frame


def pydantic_schema(cls: type[Any], handler: Any, serialize: Callable[[Any], dict[str, Any]]) -> Any:
    """The schema of `Highlights` for pydantic: an instance, written as `to_dict` writes it."""
    from pydantic_core import core_schema as core  # noqa: PLC0415 - pydantic calls this

    def fields(schemas: dict[str, Any]) -> Any:
        return core.typed_dict_schema({name: core.typed_dict_field(schema) for name, schema in schemas.items()})

    whole = core.int_schema()
    page = {"page": whole, "query": whole, "id": core.any_schema(), "format": core.str_schema()}
    page |= {"answered": core.bool_schema(), "windows": whole, "windows_scored": whole}
    page["highlights"] = core.list_schema(handler.generate_schema(Highlight))

    shape = fields({"answered": core.bool_schema(), "results": core.list_schema(fields(page))})
    return core.is_instance_schema(
        cls, serialization=core.plain_serializer_function_ser_schema(serialize, return_schema=shape)
    )


def _module(name: str, method: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        message = f"{method}() needs {error.name}; run: pip install {name}"
        raise InvalidArgumentError(message) from None
