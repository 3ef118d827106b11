"""The options of a call, and its checked request."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Protocol, TypeAlias, TypeVar, cast, get_args

from pullquote._document_formats import PARSED
from pullquote._request.settings import CallOptions, Dedupe, Effort, Format, Order, Pairing, Unit
from pullquote._request.signatures import did_you_mean, what_was_meant
from pullquote._request.token_counter import token_counter
from pullquote._warnings import warn
from pullquote.errors import InvalidArgumentError, InvalidTypeError, TruncationWarning, UsageWarning

__all__ = ["Dedupe", "Effort", "Format", "HasPages", "Options", "Order", "Page", "Pages", "Pairing", "Unit", "is_file"]


class HasPages(Protocol):
    """A `documents.Document`, as far as requests and results need it."""

    @property
    def page_starts(self) -> Any:
        """The first character of each page."""
        ...

    def place(self, start: int, end: int, /) -> tuple[int | None, list[Any]]:
        """The number of the page, and the rectangles, of a span of the text."""
        ...


class _Readable(Protocol):
    def read(self) -> Any: ...


# A page: its text, a document, or a file that `documents.read` takes.
Page: TypeAlias = str | PathLike[str] | HasPages | _Readable
# Pages of a call: pages, pairs of an id and a page, or a mapping from ids to pages.
Pages: TypeAlias = Iterable[Page | tuple[Any, Page]] | Mapping[Any, Page]

# A query of more characters is probably a page.
LONG_QUERY = 1000
# A page of more characters is no name.
LONGEST_NAME = 1000
FILE_ENDINGS = tuple(f".{ending}" for ending in (*PARSED, "txt", "md", "html", "htm"))
MISSING = (
    "a missing value; leave such pages out, as with dropna() of pandas or drop_nulls() of polars, "
    'or make them empty, as with fillna("") or fill_null("")'
)


class Options(CallOptions, total=False):
    """The options of a call as keywords; `Highlighter.highlights` documents them."""

    titles: Iterable[str | None] | None
    ids: Iterable[Any] | None
    count_tokens: Callable[[str], int] | None


_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Request:
    """A checked call of `highlights`, as `_native` takes it once `documents.read_request` has read its files.

    `documents` has the document of each page that is one with pages, and `formats` the format of each page if they differ.
    """

    query: str | list[str]
    texts: list[str]
    titles: list[str | None] | None
    options: dict[str, Any]
    ids: list[Any] | None = None
    documents: list[HasPages | None] | None = None
    formats: list[Format] | None = None
    count_tokens: Callable[[str], int] | None = None

    @property
    def queries(self) -> list[str]:
        """The queries as a list."""
        return [self.query] if isinstance(self.query, str) else self.query


def check_request(
    query: str | Sequence[str], texts: Pages, options: Mapping[str, Any], *, are_names: bool = False
) -> Request:
    """Check a call's texts, or their names on a server. `_native` checks the other options, and has their defaults."""
    if isinstance(texts, str):
        swapped = not isinstance(query, str)
        advice = "query comes first: highlights(query, texts)" if swapped else "pass [text] for one page"
        message = f"texts must be a list of pages, not one str; {advice}"
        raise InvalidTypeError(message)
    if not isinstance(query, (str, Iterable)):
        message = f"query must be a string or a list of strings, not {type(query).__name__}"
        raise InvalidTypeError(message)
    queries = query if isinstance(query, str) else to_list(query, "query")
    pages, ids = read_pages(texts, options.get("ids"))
    ids = None if ids is None else [_of_python(each) for each in ids]
    if not pages:
        message = "texts is empty; pass at least one page"
        raise InvalidArgumentError(message)
    if isinstance(queries, list) and not queries:
        message = "query is an empty list; pass one query, or a list with at least one"
        raise InvalidArgumentError(message)
    native = {name: value for name, value in options.items() if name not in {"titles", "ids", "count_tokens"}}
    if unknown := native.keys() - Options.__annotations__.keys():
        name = min(unknown)
        message = f"there is no option {name!r}{what_was_meant(name, ['query', 'texts', *Options.__annotations__])}"
        raise InvalidTypeError(message)
    formats = read_formats(native.get("format"), len(pages))
    if formats is not None:
        native["format"], formats = one_format(formats)
    titles = options.get("titles")
    titles = None if titles is None else to_list(titles, "titles")
    if titles is not None and len(titles) != len(pages):
        message = f"titles: {len(titles)}, but pages: {len(pages)}; pass one for each page, None where it has none"
        raise InvalidArgumentError(message)
    counter = options.get("count_tokens")
    if counter is not None:
        if native.get("max_tokens") is None and native.get("max_total_tokens") is None:
            message = (
                "count_tokens counts for max_tokens and max_total_tokens; pass one of them, or leave count_tokens out"
            )
            raise InvalidArgumentError(message)
        counter = token_counter(counter)
    request = Request(queries, pages, titles, native, ids, formats=formats, count_tokens=counter)
    if not are_names:
        _warn_of_long_queries(request)
        _warn_of_names(pages)
    return request


def _of_python(one: Any) -> Any:
    """A number of NumPy as Python's, which JSON knows; anything else as it is."""
    kind = getattr(getattr(one, "dtype", None), "kind", None)
    return one.item() if kind in {"b", "i", "u", "f"} and one.shape == () else one


def read_pages(pages: Pages, ids: Iterable[Any] | None = None) -> tuple[list[str], list[Any] | None]:
    """The texts of pages, and their ids if there are any: `ids`, the keys of a mapping, or the first of each pair."""
    if isinstance(pages, Mapping):
        texts, own = [*pages.values()], [*pages]
        for key, text in pages.items():
            if not (isinstance(text, str) or is_file(text)):
                kind = MISSING if _is_missing(text) else type(text).__name__
                message = f"texts must be a mapping from ids to texts, but texts[{key!r}] is {kind}"
                raise InvalidTypeError(message)
    else:
        given = to_list(cast("Iterable[Any]", pages), "texts")
        pairs = bool(given) and isinstance(given[0], tuple)
        for number, page in enumerate(given):
            if isinstance(page, list):
                message = (
                    f"texts[{number}] must be a string or a tuple (id, text), not a list; pass tuple(page) for each"
                )
                raise InvalidTypeError(message)
            if isinstance(page, Mapping):
                message = f"texts[{number}] must be a string, not {type(page).__name__}; pass its text, and its id as (id, text)"
                raise InvalidTypeError(message)
            if _is_missing(page[1] if pairs and isinstance(page, tuple) and len(page) == 2 else page):
                message = f"texts[{number}] is {MISSING}"
                raise InvalidTypeError(message)
            if pairs and not (isinstance(page, tuple) and len(page) == 2):
                like = " as texts[0] is" if number else ""
                message = f"texts[{number}] must be a pair (id, text){like}, not {page!r:.80}"
                raise InvalidTypeError(message)
        if not pairs:
            named = None if ids is None else to_list(ids, "ids")
            if named is not None and len(named) != len(given):
                message = f"ids: {len(named)}, but pages: {len(given)}; pass one for each page"
                raise InvalidArgumentError(message)
            return given, named
        own, texts = [page[0] for page in given], [page[1] for page in given]
    if ids is not None:
        message = "ids cannot be combined with texts that have ids of their own: pairs, or a mapping from id to text"
        raise InvalidArgumentError(message)
    return texts, own


def read_formats(given: Any, pages: int) -> list[Format] | None:
    """The format of each page from a list of them; `None` for one format, which `_native` checks."""
    listed = (
        None if given is None or isinstance(given, str) or not isinstance(given, Iterable) else to_list(given, "format")
    )
    for number, name in enumerate([given] if listed is None else listed):
        place = "format" if listed is None else f"format[{number}]"
        if name in PARSED:
            message = f"{place}={name!r} is of a file; pass the file's path, or pullquote.documents.read(path)"
            raise InvalidArgumentError(message)
        if listed is not None and name not in get_args(Format):
            message = f"{place} must be one of {', '.join(get_args(Format))}, not {name!r:.80}"
            raise InvalidArgumentError(message)
    if listed is not None and len(listed) != pages:
        message = f"format: {len(listed)}, but pages: {pages}; pass one for all, or one for each page"
        raise InvalidArgumentError(message)
    return listed


def one_format(formats: list[Format]) -> tuple[Format, list[Format] | None]:
    """The format of all pages, or ``"auto"`` and that of each."""
    return (formats[0], None) if len({*formats}) == 1 else ("auto", formats)


def is_file(page: object) -> bool:
    """Whether a page is a document, a path or an open file, and not a text."""
    return isinstance(page, PathLike) or hasattr(page, "read") or hasattr(page, "page_starts")


def _is_missing(page: object) -> bool:
    """Whether it is what pandas, polars and pyarrow have for a value that is not there."""
    return page is None or (isinstance(page, float) and math.isnan(page)) or type(page).__name__ == "NAType"


def _warn_of_long_queries(request: Request) -> None:
    query, page = (
        max(len(text) for text in texts if isinstance(text, str)) if any(isinstance(text, str) for text in texts) else 0
        for texts in (request.queries, request.texts)
    )
    if query > LONG_QUERY and query > 10 * page:
        message = f"a query has {query:,} characters, and the longest page {page:,}; query comes first: highlights(query, texts)"
        warn(message, UsageWarning)


def _warn_of_names(pages: Sequence[object]) -> None:
    """Warn of the first page that is no text, but the name of a file, or an address."""
    for number, page in enumerate(pages):
        if not isinstance(page, str) or len(page) > LONGEST_NAME or "\n" in page:
            continue
        is_word = len(page.split()) == 1
        if is_word and page.startswith(("http://", "https://")):
            message = (
                f"texts[{number}] is the address {page}, and not the page that is there; fetch it, and pass its text"
            )
        # Path.is_file raises for a text that is too long for a name.
        elif page.lower().endswith(FILE_ENDINGS) and (is_word or os.path.isfile(page)):  # noqa: PTH113
            message = f"texts[{number}] is the name {page!r}, and not the text of the file; pass pathlib.Path({page!r})"
        else:
            continue
        warn(message, UsageWarning)
        return


def complete(options: Mapping[str, Any], defaults: Mapping[str, Any], function: str) -> dict[str, Any]:
    """`options`, and `defaults` for the missing ones. Raises `InvalidTypeError` for an unknown one."""
    if unknown := options.keys() - defaults.keys():
        name = min(unknown)
        message = f"{function}(): got an unexpected keyword argument {name!r}{did_you_mean(name, defaults)}"
        raise InvalidTypeError(message)
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
    warn(message, TruncationWarning)


def to_list(texts: Iterable[_Item], name: str) -> list[_Item]:
    """The texts as a list. A generator yields them once, but offsets need the texts again."""
    kind, wanted = type(texts).__name__, "a list" if name == "ids" else "a list of strings"
    if isinstance(texts, (bytes, bytearray)) and name == "query":
        message = f'query must be a string or a list of strings, not {kind}; pass query.decode("utf-8")'
        raise InvalidTypeError(message)
    if isinstance(texts, (str, bytes, bytearray)):
        decoded = "" if isinstance(texts, str) else '.decode("utf-8")'
        message = f"{name} must be {wanted}, not one {kind}; pass [{name}{decoded}]"
        raise InvalidTypeError(message)
    if hasattr(texts, "columns"):
        message = f'{name} must be {wanted}, not a {kind}; pass one column, as frame["text"], or call highlights_arrow'
        raise InvalidTypeError(message)
    if isinstance(texts, (set, frozenset, Mapping)):
        message = f"{name} must be {wanted}, not a {kind}, whose order says nothing; pass a list"
        raise InvalidTypeError(message)
    if is_file(texts):
        lines = "; list(file) has a page for each line" if hasattr(texts, "readlines") else ""
        message = f"{name} must be {wanted}, not one {kind}; pass [{name}]{lines}"
        raise InvalidTypeError(message)
    if hasattr(texts, "to_pylist"):
        # Of an array of pyarrow, whose own items are not strings.
        return cast("list[_Item]", texts.to_pylist())
    try:
        return list(texts)
    except TypeError:
        message = f"{name} must be {wanted}, not {type(texts).__name__}"
        raise InvalidTypeError(message) from None


def check_rerank(texts: Iterable[str], top_n: int | None) -> list[str]:
    """The checked texts of a call of `rerank`."""
    if top_n is not None and (not isinstance(top_n, int) or top_n < 1):
        message = f"top_n must be at least 1, or None for all, not {top_n!r}"
        raise InvalidArgumentError(message)
    return check_texts(texts, "passage")
