"""Highlights as dictionaries and tables, and for pydantic."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, cast, get_type_hints

from pullquote import _native
from pullquote._results.fields import DTYPES, HighlightDict
from pullquote._results.highlight import Highlight
from pullquote.errors import InvalidTypeError, NotInstalledError

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


def to_arrow(rows: _native.Table, of_pages: dict[str, Any], ids: Sequence[Any]) -> Any:
    """`Highlights.to_arrow`, from the highlights and the columns that say of which page each is.

    The type of the ids is that of all pages' `ids`, so that tables of several results can be joined.
    """
    pyarrow = _module("pyarrow", "to_arrow")
    table = pyarrow.table(rows)
    for place, (name, values) in enumerate(of_pages.items()):
        try:
            typed = [*values, *ids] if name == "id" else values
            table = table.add_column(place, name, pyarrow.array(typed)[: len(values)])
        except (pyarrow.ArrowException, TypeError, OverflowError) as error:
            raise _mixed_ids("Arrow", values, error) from error
    return table


def to_pandas(rows: Sequence[HighlightDict], of_pages: dict[str, Any], ids: Sequence[Any]) -> Any:
    """`Highlights.to_pandas`. Types do not depend on whether there are rows."""
    module = _module("pandas", "to_pandas")
    columns = {**of_pages, "id": of_pages["id"] if rows else module.Series(ids)[:0]}
    for name, kind in get_type_hints(HighlightDict).items():
        values = [cast("dict[str, Any]", row)[name] for row in rows]
        dtype = DTYPES.get(name, str if kind is str else object)
        columns.setdefault(name, module.Series(values, dtype=dtype))
    return module.DataFrame(columns)


def to_polars(rows: _native.Table, of_pages: dict[str, Any], ids: Sequence[Any]) -> polars.DataFrame:
    """`Highlights.to_polars`, with ids as in `to_arrow`."""
    module = _module("polars", "to_polars")
    frame: polars.DataFrame = module.DataFrame(rows)
    for place, (name, values) in enumerate(of_pages.items()):
        try:
            column = module.Series(name, [*values, *ids] if name == "id" else values)
        except (module.exceptions.PolarsError, TypeError, OverflowError) as error:
            raise _mixed_ids("Polars", values, error) from error
        frame.insert_column(place, column.head(len(values)))
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


def _mixed_ids(library: str, ids: Sequence[Any], error: Exception) -> InvalidTypeError:
    kinds = ", ".join(sorted({type(each).__name__ for each in ids}))
    reason = str(error).partition("\n")[0]
    return InvalidTypeError(
        f"ids of the types {kinds} cannot be stored in one {library} column ({reason}); pass ids of one type, such as str"
    )


def _module(name: str, method: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        message = f"{method}() needs {error.name}; run: pip install {name}"
        raise NotInstalledError(message, name=error.name) from None
