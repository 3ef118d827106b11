"""The result of `highlights()`: a list of passages for each page, and the same as numpy columns."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from numbers import Number
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
from numpy.typing import NDArray

from pullquote import _native
from pullquote._request.options import Request
from pullquote._request.signatures import did_you_mean
from pullquote._results import places, prompts, representations, tables
from pullquote._results.cited import Cited
from pullquote._results.fields import make_lists
from pullquote._results.highlight import Highlight, json_id, mark_spans
from pullquote._results.marks import Marks, merged, prose_spans, shown_span, start_of, without_blank_lines
from pullquote._results.selectors import (
    TextPositionSelector,
    TextQuoteSelector,
    text_fragment,
    text_position_selector,
    text_quote_selector,
)
from pullquote._warnings import warn
from pullquote.errors import InvalidArgumentError, InvalidTypeError, LimitExceededError, UsageWarning

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = ["Highlights"]


class OutOfRangeError(InvalidArgumentError, IndexError):
    """A position that a result does not have: an error of this library, and an `IndexError` as of Python's own sequences."""


class Highlights(Sequence[list[Highlight]]):
    """The highlights of a call: ``result[i]`` is page `i`'s list of `Highlight`.

    With many queries for one page, ``result[i]`` belongs to query `i`. With ``pairing="all"``, ``result[q, p]`` belongs to query
    `q` and page `p`, and the lists of the first query come first. ``len(result)`` counts these lists, also empty ones;
    ``bool(result)`` is true if there is any highlight. `best` has the highlights of all lists, best first.

    Instead of a page's index, its id may stand: ``result["moon.txt"]``. If any id is a number, numbers are ids only, and
    ``result[7]`` belongs to the page with the id 7; ``result.at(7)`` counts the lists, whatever the ids are.

    The same as columns, with a row for each highlight in the order of the lists:

    - `spans`: int64 ``[n, 2]``, start and end in characters of the page
    - `contexts`: int64 ``[n, 2]``, the same including `context`
    - `headers`: int64 ``[n, 2]``, the same of each `Highlight.header`; start and end are equal without one
    - `sources`: int64 ``[n, 2]``, start and end in characters of the source
    - `scores`, `cosines`, `bm25_scores`: float32 ``[n]``
    - `pages`, `queries`: int64 ``[n]``, index of the page and of the query

    For each page: `windows` and `windows_scored`, int64 ``[pages]``, the number of its windows, and of those that were scored;
    `texts`, the page as read; `formats`, the format it was read as; and `ids`, `None` without ids. `work` is the work of the
    call.

    `vectors` and `query_vectors` are those of passages and queries, with ``return_vectors=True`` of a `Client`; otherwise `None`.
    Texts of `StoredDocument` pages and of files are ``""``. `errors` says for each page that a server could not read why, by the
    page's position; such a page has no passages.
    """

    __slots__ = (
        "_cite",
        "_columns",
        "_ends",
        "_prompted",
        "_request",
        "bm25_scores",
        "contexts",
        "cosines",
        "errors",
        "formats",
        "headers",
        "ids",
        "pages",
        "queries",
        "query_vectors",
        "scores",
        "sources",
        "spans",
        "texts",
        "vectors",
        "windows",
        "windows_scored",
        "work",
    )

    _ends: NDArray[np.int64]
    # What makes citations of these pages; `None` without a highlighter or client.
    _cite: Callable[..., Cited] | None
    # How many passages the last prompt has; `None` before the first.
    _prompted: int | None
    spans: NDArray[np.int64]
    contexts: NDArray[np.int64]
    headers: NDArray[np.int64]
    sources: NDArray[np.int64]
    scores: NDArray[np.float32]
    cosines: NDArray[np.float32]
    bm25_scores: NDArray[np.float32]
    pages: NDArray[np.int64]
    queries: NDArray[np.int64]
    windows: NDArray[np.int64]
    windows_scored: NDArray[np.int64]
    texts: list[str]
    formats: list[str]
    errors: dict[int, str]
    work: _native.Work
    vectors: NDArray[Any] | None
    query_vectors: NDArray[Any] | None

    def __init__(
        self, request: Request, columns: _native.HighlightColumns, sources: Sequence[str] | None = None
    ) -> None:
        """Made by `Highlighter.highlights`. `sources` are the texts that the caller has, if not those of the request."""
        sources = request.texts if sources is None else sources
        self._request, self._columns, self.ids = request, columns, request.ids
        self._prompted = self._cite = None
        attributes = columns.columns()
        texts = zip(sources, attributes["texts"], strict=True)
        attributes["texts"] = [source if text is None else text for source, text in texts]
        for name, value in attributes.items():
            setattr(self, name, value)
        if request.documents is not None:
            self._columns = places.with_places(columns, request.documents, self.texts)
        # A pickled result is small without documents; most counters cannot be pickled.
        self._request = replace(request, documents=None, count_tokens=None)
        if not self and (message := columns.warning(request.options)) is not None:
            warn(message, UsageWarning)

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: getattr(self, name) for name in self.__slots__}
        return kept | {"_columns": self._columns.json(self.texts), "_cite": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, _native.HighlightColumns(value) if name == "_columns" else value)

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int | str | tuple[int, Any]) -> list[Highlight]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Highlight]]: ...
    @overload
    def __getitem__(self, index: Any) -> list[Highlight]: ...
    def __getitem__(self, index: Any) -> list[Highlight] | list[list[Highlight]]:
        if isinstance(index, slice):
            try:
                positions = range(*index.indices(len(self)))
            except (TypeError, ValueError) as error:
                message = f"a slice of highlights counts lists with whole numbers, not {index!r}: {error}"
                raise InvalidTypeError(message) from None
            return [self._list(i) for i in positions]
        if self._is_id(index):
            page = self._page(index)
            if len(self) != len(self.texts):
                message = (
                    f"there are {len(self.query_texts)} queries; index with one and the page, as result[0, {index!r}]"
                )
                raise InvalidArgumentError(message)
            return self._list(page)
        if isinstance(index, tuple):
            if len(index) != 2:
                message = f"an index of highlights has at most a query and a page, as result[0, 1], not {index!r}"
                raise InvalidTypeError(message)
            return self._list(self._position(*index))
        return self.at(index)

    def at(self, position: int) -> list[Highlight]:
        """The list at a position, from 0, or from -1 at the end: ``result[position]`` unless ids are numbers."""
        return self._list(self._place(position))

    def _place(self, position: object) -> int:
        try:
            place = operator.index(position)  # type: ignore[arg-type]  # which raises a TypeError
        except TypeError:
            message = f"an index of highlights must be a whole number, a slice or a page's id, not {position!r}"
            raise InvalidTypeError(message) from None
        if not -len(self) <= place < len(self):
            message = f"index {position} is out of range for {len(self)} lists of highlights"
            raise OutOfRangeError(message)
        return place % len(self)

    def __contains__(self, item: object) -> bool:
        """Whether an id is that of a page, or a list is one of the lists."""
        return any(each == item for each in (self if isinstance(item, list) else self.ids or ()))

    def __iter__(self) -> Iterator[list[Highlight]]:
        return (self._list(i) for i in range(len(self)))

    def __reversed__(self) -> Iterator[list[Highlight]]:
        return (self._list(i) for i in reversed(range(len(self))))

    def __bool__(self) -> bool:
        return len(self.scores) > 0

    @property
    def answered(self) -> bool:
        """Whether any passage probably answers its query: its score is at least that of ``min_score="auto"``."""
        return bool((self.scores >= _native.ANSWERED).any())

    @property
    def note(self) -> str:
        """Why nothing answers, such as ``"no passage is within max_chars=20"``; ``""`` if `answered`."""
        best = float(self.scores.max()) if len(self.scores) else None
        return _native.note(self._request.options, int(self.windows.sum()), best) or ""

    def note_of(self, position: int) -> str:
        """The same of the list at a position, as `at` counts."""
        found = self.at(position)
        page = self.query_and_page(position)[1]
        best = max((highlight.score for highlight in found), default=None)
        return _native.note(self._request.options, int(self.windows[page]), best) or ""

    def __repr__(self) -> str:
        return representations.as_text(self.best(), self.query_texts, self.formats, self.note)

    def _repr_html_(self) -> str:
        best, queries = self.best(), self.query_texts
        return representations.as_html(best, queries, self.formats, self.note, self.texts, self.text_fragment)

    @property
    def query_texts(self) -> list[str]:
        """The queries of the call: those that `Highlight.query` counts."""
        return self._request.queries

    @property
    def titles(self) -> list[str | None] | None:
        """The titles of the pages, if the call had any."""
        return self._request.titles

    def best(self, n: int | None = None) -> list[Highlight]:
        """The best `n` highlights of all pages and queries, best first; all of them without `n`. Ties are in order of position.

        Raises `InvalidArgumentError` for an `n` below 1.
        """
        if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < 1):
            message = f"n must be a whole number from 1, or None for all, not {n!r}"
            raise InvalidArgumentError(message)
        rows = sorted(range(len(self.scores)), key=lambda row: -self.scores[row])
        return self._highlights(rows[:n])

    @overload
    def marked(
        self,
        page: Any,
        pre: str = ...,
        post: str | None = ...,
        *,
        encoder: Literal["html"] | None = ...,
        fragments: None = ...,
        no_match_size: int = ...,
        words: bool | None = ...,
    ) -> str: ...
    @overload
    def marked(
        self,
        page: Any,
        pre: str = ...,
        post: str | None = ...,
        *,
        encoder: Literal["html"] | None = ...,
        fragments: int,
        no_match_size: int = ...,
        words: bool | None = ...,
    ) -> list[str]: ...
    def marked(
        self,
        page: Any,
        pre: str = "<em>",
        post: str | None = None,
        *,
        encoder: Literal["html"] | None = "html",
        fragments: int | None = None,
        no_match_size: int = 0,
        words: bool | None = None,
    ) -> str | list[str]:
        """A whole page with `pre` and `post` around what answers, or only its passages: what a search engine's highlighter returns.

        - `page`: its index or its id. Its passages are those of all queries.
        - `pre` to `words`: as in `Highlight.marked`, for each passage. In Markdown with ``encoder=None`` marks are around text
          only: never around or within its own marks, addresses of links, or blocks of code.
        - `fragments`: return a list of at most this number of passages, best first, instead of the page.
        - `no_match_size`: with `fragments`, characters of the page's start to return if it has no passage; cut after a word.

        Raises `InvalidArgumentError` for values out of range, for ``words=True`` without ``explain=True``, and for a page whose
        text is on the server.
        """
        marks = Marks(pre, post, encoder)
        page, found = self._to_mark(page, words)
        if fragments is not None:
            for name, value, least in (("fragments", fragments, 1), ("no_match_size", no_match_size, 0)):
                if not isinstance(value, int) or value < least:
                    message = f"{name} must be a whole number from {least}, not {value!r}"
                    raise InvalidArgumentError(message)
            if found:
                return [each.marked(pre, post, encoder=encoder, words=words) for each in found[:fragments]]
            return [marks.escaped(start_of(self.page_text(page), no_match_size))] if no_match_size else []
        text = self.page_text(page)
        spans = merged(span for highlight in found for span in mark_spans(highlight, words))
        spans = without_blank_lines(text, spans)
        if self.formats[page] == "markdown" and not encoder:
            spans = prose_spans(text, spans)
        return marks.around(text, spans)

    def marked_html(self, page: Any, pre: str = "<mark>", *, words: bool | None = None) -> str:
        """The HTML of a page as it was passed, with marks around what answers: valid, and otherwise unchanged.

        A passage has a mark in each text between tags, so that none crosses an element. Scripts, attributes, comments, hidden
        elements and formulas stay as they are.

        - `page`: its index or its id. Its passages are those of all queries.
        - `pre`: the start tag of a mark, with any attributes: ``'<mark class="found">'``.
        - `words`: as in `Highlight.marked`.

        Raises `InvalidArgumentError` for a page that is not HTML, whose marked text `marked` makes, for a page whose HTML is on
        the server, for another tag than ``mark``, and for ``words=True`` without ``explain=True``.
        """
        marks = Marks(pre, None, None)
        if marks.post != "</mark>":
            message = f"pre must be a start tag of mark, such as '<mark class=\"found\">', not {pre!r}"
            raise InvalidArgumentError(message)
        page, found = self._to_mark(page, words)
        if self.formats[page] != "html":
            message = f"page {page} was read as {self.formats[page]}, not as html; marked({page}) marks its text"
            raise InvalidArgumentError(message)
        if self._is_on_server(page):
            message = f"the HTML of page {page} is on the server; marked({page}) marks its text, with return_texts=True"
            raise InvalidArgumentError(message)
        source = self._request.texts[page]
        spans = merged(span for highlight in found for span in mark_spans(highlight, words))
        return marks.around(source, _native.html_runs(source, spans))

    def _to_mark(self, page: Any, words: bool | None) -> tuple[int, list[Highlight]]:
        """The position of a page, and its passages. Raises `InvalidArgumentError` for words that the call did not explain."""
        if words and not self._request.options.get("explain"):
            message = "words=True needs the matching words; call highlights(..., explain=True)"
            raise InvalidArgumentError(message)
        page = self._page(page)
        return page, [highlight for highlight in self.best() if highlight.page == page]

    def prompt(self, max_tokens: int | None = None, *, count_tokens: Callable[[str], int] | None = None) -> str:
        """The passages as text for a language model, best first: each after its number and its page's title, id or index.

        Its breadcrumbs stand before a passage: ``Plans > Student: Support by the forum``.

        - `max_tokens`: omit the worst passages, so that the text has at most this number of tokens. If the best one does not fit,
          the text is empty, with a `UsageWarning`.
        - `count_tokens`: counts a text's tokens, such as ``lambda text: len(encoding.encode(text))``. Without it, a token is three
          bytes of UTF-8, which counts too many rather than too few for the tokenizers of current language models.

        `resolve` finds the passage of a number, and `resolve_all` those of an answer. Raises `InvalidArgumentError` for a
        `max_tokens` below 1, and `InvalidTypeError` if `count_tokens` is no function to whole numbers.
        """
        text, self._prompted = prompts.prompt(self.best(), self.titles, max_tokens, count_tokens)
        return text

    def resolve(self, number: str | int) -> Highlight:
        """The highlight that `prompt` numbered so: ``result.resolve("[3]")`` or ``result.resolve(3)`` is ``result.best()[2]``.

        Reads the number in words around it too, as in "see [3].". Raises `InvalidArgumentError` if there is no such number in the
        last prompt, or if the text has several: `resolve_all` is for those.
        """
        return prompts.resolve(self.best()[: self._prompted], number)

    def resolve_all(self, answer: str) -> prompts.Resolved:
        """The highlights of all numbers in an answer to `prompt`, such as ``"It is far [1][3], and white [2, 4]."``.

        They are by their numbers, in the order of the answer; `Resolved.unknown` are its numbers that the last prompt does not
        have, also those of passages that `max_tokens` left out of it.
        """
        return prompts.resolve_all(self.best()[: self._prompted], answer)

    def cite(self, answer: str, *, timeout: float | None = None) -> Cited:
        """What supports each sentence of an answer in these pages: see `Highlighter.cite`.

        The numbers of its markers are those of the last `prompt`, or else of `best`: ``[1]`` means the page of the first passage.

        Raises `InvalidArgumentError` for a page that only the server has, and for a result that was pickled, streamed or awaited,
        which has no highlighter: pass its `texts` to `cite`.
        """
        if self._cite is None:
            message = "this result has no highlighter any more; call cite(answer, result.texts, ids=result.ids)"
            raise InvalidArgumentError(message)
        for page in range(len(self.texts)):
            self.page_text(page)
        numbers = [highlight.page for highlight in self.best()[: self._prompted]]
        pages, titles = self._request.texts, self._request.titles
        return self._cite(
            answer, pages, ids=self.ids, titles=titles, format=self.formats, numbers=numbers, timeout=timeout
        )

    def citing(self, cite: Callable[..., Cited]) -> Self:
        """Keep what holds an answer against these pages; return this result."""
        self._cite = cite
        return self

    def as_citations(self) -> list[prompts.Citation]:
        """The highlights, best first, as citations of the type ``char_location`` in Anthropic's Messages API."""
        return prompts.citations(self.best(), self.titles)

    def to_dict(self) -> tables.HighlightsDict:
        """The lists as a dictionary for JSON: ``{"answered": True, "results": [{"page": 0, "highlights": [...], ...}, ...]}``."""
        self._check_contexts()
        rows: list[Any] = [
            {**about, "id": json_id(about["id"]), "highlights": [highlight.to_dict() for highlight in found]}
            for about, found in self._lists()
        ]
        return {"answered": self.answered, "results": rows}

    def to_arrow(self) -> pyarrow.Table:
        """A table with a row for each highlight, in the order of the lists. Needs pyarrow.

        Its columns are the fields of a `Highlight`, in the types that `Highlighter.highlights_arrow` has too.
        """
        return tables.to_arrow(self._table(), self._of_pages(), self.ids or [])

    def to_pandas(self) -> pandas.DataFrame:
        """The table of `to_arrow` as a pandas DataFrame. Needs pandas."""
        self._check_contexts()
        rows = [highlight.to_dict() for found in self for highlight in found]
        return tables.to_pandas(rows, self._of_pages(), self.ids or [])

    def to_polars(self) -> polars.DataFrame:
        """The table of `to_arrow` as a Polars DataFrame. Needs Polars."""
        return tables.to_polars(self._table(), self._of_pages(), self.ids or [])

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        def serialize(result: Highlights) -> dict[str, Any]:
            rows = [{**about, "highlights": found} for about, found in result._lists()]
            return {"answered": result.answered, "results": rows}

        return tables.pydantic_schema(cls, handler, serialize)

    def text_fragment(self, highlight: Highlight) -> str:
        """A suffix for the page's URL that makes a browser scroll to the highlight and mark it: ``#:~:text=…``.

        Of Markdown it has the text that a browser shows: without marks, and without addresses of links.

        Raises `InvalidArgumentError` if the highlight is not from these pages.
        """
        text, start, end = self._source_of(highlight)
        if self.formats[highlight.page] == "markdown":
            text, (start, end) = shown_span(text, (start, end))
        return text_fragment(text, start, end)

    def selectors(self, highlight: Highlight) -> tuple[TextQuoteSelector, TextPositionSelector]:
        """Selectors of W3C's Web Annotation Data Model for the highlight: by its words, and by its position.

        Raises `InvalidArgumentError` if the highlight is not from these pages.
        """
        span = self._source_of(highlight)
        return text_quote_selector(*span), text_position_selector(*span)

    def _source_of(self, highlight: Highlight) -> tuple[str, int, int]:
        """The page of a highlight, and its span there."""
        if not isinstance(highlight, Highlight):
            message = f"highlight must be a Highlight of this result, not {highlight!r:.80}"
            raise InvalidTypeError(message)
        text = self.page_text(highlight.page) if highlight.page < len(self.texts) else ""
        if text[highlight.start : highlight.end] != highlight.text:
            message = f"the highlight {highlight.text!r:.80} is not of this result: page {highlight.page} does not have it there"
            raise InvalidArgumentError(message)
        return text, highlight.start, highlight.end

    def page_text(self, page: int) -> str:
        """The text of a page, by its position. Raises `InvalidArgumentError` if only the server has it."""
        text = self.texts[page]
        if not text and self._is_on_server(page):
            message = f"the text of page {page} is on the server; return_texts=True returns it"
            raise InvalidArgumentError(message)
        return text

    def query_and_page(self, index: int) -> tuple[int, int]:
        """The indices of the query and of the page that ``result[index]`` belongs to; query 0 if `fuse` joins them."""
        index, pages = self._place(index), len(self.texts)
        return (index // pages, index % pages) if self._request.options.get("pairing") != "each" else (index, index)

    def _is_id(self, index: Any) -> bool:
        """Whether an index means an id, and not a position: strings always do, numbers if any id is one."""
        if isinstance(index, str):
            return True
        ids = self.ids or ()
        if isinstance(index, Number):
            return any(isinstance(each, Number) for each in ids)
        return index in ids

    def _page(self, page: Any) -> int:
        """The position of a page that is given by its position or its id."""
        count, ids = len(self.texts), self.ids or []
        if not self._is_id(page):
            # Also an integer of numpy, as `pages` has them.
            number: int | None = operator.index(page) if hasattr(page, "__index__") else None
            if number is None or not -count <= number < count:
                message = f"page must be the index of one of {count} pages, or its id, not {page!r}"
                raise InvalidArgumentError(message)
            return int(number) % count
        found = [position for position, known in enumerate(ids) if known == page]
        if len(found) > 1:
            message = f"{len(found)} pages have the id {page!r}; result.at({found[0]}) is the list of the first"
            raise InvalidArgumentError(message)
        if found:
            return found[0]
        if not ids:
            message = (
                f"no page has the id {page!r}: the call had no ids; pass ids=, pairs, or a mapping from ids to texts"
            )
            raise InvalidArgumentError(message)
        known = f"{', '.join(map(repr, ids[:5]))}{', …' if count > 5 else ''}"
        meant = did_you_mean(page, [each for each in ids if isinstance(each, str)]) if isinstance(page, str) else ""
        place = "" if isinstance(page, str) else f"; result.at({page!r}) counts the lists"
        message = f"no page has the id {page!r}; the ids are {known}{meant}{place}"
        raise InvalidArgumentError(message)

    def _position(self, query: int, page: Any) -> int:
        page = self._page(page) if self._is_id(page) else page
        pages = len(self.texts)
        queries = len(self) // pages
        if len(self) % pages or not (0 <= query < queries and 0 <= page < pages):
            message = f"query {query}, page {page} is out of range for {queries} queries and {pages} pages"
            raise OutOfRangeError(message)
        return int(query * pages + page)

    def _lists(self) -> list[tuple[dict[str, Any], list[Highlight]]]:
        """Each list of highlights, with its page and query."""
        rows = []
        for index, found in enumerate(self):
            query, page = self.query_and_page(index)
            about = {
                "page": page,
                "query": query,
                "id": None if self.ids is None else self.ids[page],
                "format": self.formats[page],
                "answered": any(highlight.score >= _native.ANSWERED for highlight in found),
                "windows": int(self.windows[page]),
                "windows_scored": int(self.windows_scored[page]),
            }
            rows.append((about, found))
        return rows

    def _of_pages(self) -> dict[str, Any]:
        """The columns that say of which page each highlight is."""
        ids = [None if self.ids is None else self.ids[page] for page in self.pages]
        return {"page": self.pages, "query": self.queries, "id": ids}

    def _is_on_server(self, page: int) -> bool:
        options = self._request.options
        return bool(options.get("files")) or any(options.get("stored", ())[page : page + 1])

    def _list(self, index: int) -> list[Highlight]:
        first = int(self._ends[index - 1]) if index else 0
        return self._highlights(range(first, int(self._ends[index])))

    def _table(self) -> _native.Table:
        self._check_contexts()
        return self._columns.table(self.texts)

    def _check_contexts(self) -> None:
        """Refuse what a server refuses: each of `n` highlights may have `n` sentences around it, which no memory holds."""
        context = self._request.options.get("context", 0)
        if not context or any(self._is_on_server(page) for page in range(len(self.texts))):
            return
        size, sent = int((self.contexts[:, 1] - self.contexts[:, 0]).sum()), sum(map(len, self.texts))
        if size > _native.ANSWER_MULTIPLE * sent * len(self.query_texts) + _native.LEAST_ANSWER:
            message = (
                f"context={context}: {len(self.scores)} highlights and what is around them have {size:,} characters, and the pages "
                f"{sent:,}; take fewer highlights or a smaller context, or slice texts by `contexts`"
            )
            raise LimitExceededError(message)

    def _highlights(self, rows: Sequence[int]) -> list[Highlight]:
        made = []
        for row, fields in zip(rows, self._columns.fields(list(rows), self.texts), strict=True):
            page = int(self.pages[row])
            about = {"page": page, "query": int(self.queries[row]), "id": None if self.ids is None else self.ids[page]}
            made.append(Highlight(**make_lists(fields | about)))
        return made
