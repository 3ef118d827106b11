"""The result of `highlights()`: a list of passages for each page, and the same as numpy columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from numpy.typing import NDArray

from pullquote import _native
from pullquote._selectors import (
    TextPositionSelector,
    TextQuoteSelector,
    text_fragment,
    text_position_selector,
    text_quote_selector,
)
from pullquote.errors import InvalidArgumentError

__all__ = ["Highlight", "Highlights", "Match"]


@dataclass(frozen=True, slots=True)
class Match:
    """A word of a page that matches a word of a query: ``page[start:end]`` has the same stem as `word`."""

    word: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Highlight:
    """A passage of a page, word for word: ``page[start:end] == text``.

    `start` and `end` count characters (Unicode code points), as Python's slices do.

    `score`, from 0 to 1, is the probability that the passage answers the query. It depends on the query, the passage and the
    language of its page, not on the other pages of the call, so that scores of different calls compare. It comes from `cosine`
    and from the share of the query's words in the passage's best sentence, each weighed by how rare it is in the language.

    `cosine` (-1 to 1) and `bm25` (0 and more) are the best of the windows around that sentence.

    `page` and `query` are the indices of its text and of the query it answers. `before` and `after` are the `context` around it,
    and `matches` the words that match, with `explain`. `source_start` and `source_end` are its position in the source, which
    differs from `start` and `end` for HTML only.
    """

    text: str
    start: int
    end: int
    score: float
    cosine: float
    bm25: float
    page: int = 0
    query: int = 0
    before: str = ""
    after: str = ""
    matches: tuple[Match, ...] = ()
    source_start: int = 0
    source_end: int = 0


class Highlights(Sequence[list[Highlight]]):
    """The highlights of a call: ``result[i]`` is page `i`'s list of `Highlight`.

    With many queries for one page, ``result[i]`` belongs to query `i`. With ``pairing="all"``, ``result[q, p]`` belongs to query
    `q` and page `p`, and the lists of the first query come first.

    The same as columns, with a row for each highlight in the order of the lists:

    - `spans`: int64 ``[n, 2]``, start and end in characters of the page
    - `contexts`: int64 ``[n, 2]``, the same including `context`
    - `sources`: int64 ``[n, 2]``, start and end in characters of the source
    - `scores`, `cosines`, `bm25_scores`: float32 ``[n]``
    - `pages`, `queries`: int64 ``[n]``, index of the page and of the query

    For each page: `windows` and `windows_scored`, int64 ``[pages]``, the number of its windows, and of those that were scored;
    `texts`, the page as read; and `formats`, its format. `work` is the work of the call. Columns own the core's memory, not copies.

    `vectors` and `query_vectors` are those of passages and queries, with ``return_vectors=True`` of a `Client`; otherwise `None`.
    Texts of `StoredDocument` pages are ``""``.
    """

    __slots__ = (
        "_ends",
        "_match_ends",
        "_match_spans",
        "_match_words",
        "_passages",
        "_query_words",
        "bm25_scores",
        "contexts",
        "cosines",
        "formats",
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

    def __init__(self, sources: Sequence[str], columns: _native.HighlightColumns) -> None:
        """Made by `Highlighter.highlights`."""
        self.texts = [source if text is None else text for source, text in zip(sources, columns.texts, strict=True)]
        self.formats, self.work = columns.formats, columns.work
        self.spans, self.contexts, self.sources = columns.spans, columns.contexts, columns.sources
        self.scores, self.cosines, self.bm25_scores = columns.scores, columns.cosines, columns.bm25_scores
        self.pages, self.queries = columns.pages, columns.queries
        self.windows, self.windows_scored = columns.windows, columns.windows_scored
        self.vectors: NDArray[Any] | None = columns.vectors
        self.query_vectors: NDArray[Any] | None = columns.query_vectors
        self._ends, self._match_ends = columns.ends, columns.match_ends
        self._match_spans, self._match_words = columns.match_spans, columns.match_words
        self._query_words = columns.query_words
        # For each row its text, and the text before and after it, if a server has its page.
        self._passages = columns.passages or []

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int | tuple[int, int]) -> list[Highlight]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Highlight]]: ...
    def __getitem__(self, index: int | tuple[int, int] | slice) -> list[Highlight] | list[list[Highlight]]:
        if isinstance(index, slice):
            return [self._list(i) for i in range(*index.indices(len(self)))]
        if isinstance(index, tuple):
            return self._list(self._position(index))
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            message = f"index {index} is out of range for {len(self)} lists of highlights"
            raise IndexError(message)
        return self._list(position)

    def __iter__(self) -> Iterator[list[Highlight]]:
        return (self._list(i) for i in range(len(self)))

    @property
    def answered(self) -> bool:
        """Whether any passage probably answers its query: its score is at least that of ``min_score="auto"``."""
        return bool((self.scores >= _native.ANSWERED).any())

    def __repr__(self) -> str:
        return f"<Highlights: {len(self.scores)} passages in {len(self)} lists>"

    def text_fragment(self, highlight: Highlight) -> str:
        """A suffix for the page's URL that makes a browser scroll to the highlight and mark it: ``#:~:text=…``.

        Raises `InvalidArgumentError` if the highlight is not from these pages.
        """
        return text_fragment(self._page(highlight), highlight.start, highlight.end)

    def selectors(self, highlight: Highlight) -> tuple[TextQuoteSelector, TextPositionSelector]:
        """Selectors of W3C's Web Annotation Data Model for the highlight: by its words, and by its position.

        Raises `InvalidArgumentError` if the highlight is not from these pages.
        """
        span = (self._page(highlight), highlight.start, highlight.end)
        return text_quote_selector(*span), text_position_selector(*span)

    def _page(self, highlight: Highlight) -> str:
        text = self.texts[highlight.page]
        if not text and self._passages:
            message = f"the text of page {highlight.page} is on the server; return_texts=True returns it"
            raise InvalidArgumentError(message)
        return text

    def _position(self, index: tuple[int, int]) -> int:
        query, page = index
        pages = len(self.texts)
        if len(self) % pages or not (0 <= query < len(self) // pages and 0 <= page < pages):
            message = f"query {query}, page {page} is out of range for {len(self)} lists of highlights of {pages} pages"
            raise IndexError(message)
        return query * pages + page

    def _list(self, index: int) -> list[Highlight]:
        first = int(self._ends[index - 1]) if index else 0
        return [self._highlight(row) for row in range(first, int(self._ends[index]))]

    def _highlight(self, row: int) -> Highlight:
        page = int(self.pages[row])
        text = self.texts[page]
        start, end = self.spans[row].tolist()
        first, last = self.contexts[row].tolist()
        own = self._passages[row] if self._passages else None
        passage, before, after = own or (text[start:end], text[first:start], text[end:last])
        return Highlight(
            text=passage,
            start=start,
            end=end,
            score=float(self.scores[row]),
            cosine=float(self.cosines[row]),
            bm25=float(self.bm25_scores[row]),
            page=page,
            query=int(self.queries[row]),
            before=before,
            after=after,
            matches=self._matches(row),
            source_start=int(self.sources[row, 0]),
            source_end=int(self.sources[row, 1]),
        )

    def _matches(self, row: int) -> tuple[Match, ...]:
        if not len(self._match_ends):
            return ()
        rows = range(int(self._match_ends[row - 1]) if row else 0, int(self._match_ends[row]))
        words = (self._query_words[int(self._match_words[match])] for match in rows)
        spans = ((int(start), int(end)) for start, end in self._match_spans[rows.start : rows.stop])
        return tuple(Match(word, start, end) for word, (start, end) in zip(words, spans, strict=True))
