"""What `highlights()` returns: for each page its passages, and the same as columns of numpy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from pullquote._selectors import (
    TextPositionSelector,
    TextQuoteSelector,
    text_fragment,
    text_position_selector,
    text_quote_selector,
)
from pullquote.errors import InvalidArgumentError

__all__ = ["CacheState", "Highlight", "Highlights", "Match", "Work"]


@dataclass(frozen=True, slots=True)
class Match:
    """A word of a page that matched one of a query: ``page[start:end]`` has the same stem as `word`."""

    word: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Highlight:
    """A passage of a page, word for word: ``page[start:end] == text``.

    `start` and `end` count characters (Unicode code points), as Python's slices do.

    `score`, from 0 to 1, is comparable between the pages of a call: ``1 / (1 + exp(2 - relevance))``. The relevance of a window
    joins meaning and words, ``(1 - w) * z(cosine) + w * z(BM25)``, where ``w`` is `lexical_weight` and ``z`` counts in standard
    deviations from the mean of all windows of the call. That of a sentence is ``((1 - w) * z(cosine) + w * words) / 1.4`` with
    ``words = 2/3 * z(BM25) + 8 * coverage(sentence) + 2 * coverage(paragraph)``: cosine and BM25 are those of the best windows
    around it, and coverage is the share of the query's words, weighted by their rarity, that it holds. A passage has the score
    of its best sentence. `cosine` (-1 to 1) and `bm25` (0 and more) are the best of the windows around that sentence.

    `page` and `query` say which of the texts it is from and which of the queries it answers. `before` and `after` are what
    stands around it, as much as `context` asked for; `matches` are the words that matched, where `explain` asked for them.
    `source_start` and `source_end` say where it was read from: the same as `start` and `end`, but for HTML.
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


@dataclass(frozen=True, slots=True)
class CacheState:
    """How full a highlighter's cache is, and how often it helped: `pages` kept in `bytes`, and lookups since it was made."""

    pages: int
    bytes: int
    hits: int
    misses: int


@dataclass(frozen=True, slots=True)
class Work:
    """What a call took; times are in seconds of the caller's wall clock.

    There were `windows` windows (and sentences, where words do not count); `windows_scored` of them were compared with a query, as
    `effort` wants it. `encoded` of these had to be encoded, with `tokens` ids (special ones and the queries' included): the
    others are equal to one of those, or were kept. `truncated` were longer than the model allows: what stands behind its limit
    had no part in their score. Devices also compute while the caller tokenizes, so `waiting` is the time spent waiting
    for them and nothing else.
    """

    windows: int
    windows_scored: int
    encoded: int
    tokens: int
    truncated: int
    cutting: float
    tokenizing: float
    waiting: float
    ranking: float


class Highlights(Sequence[list[Highlight]]):
    """The passages found: ``result[i]`` is the list of page `i`.

    With many queries for one page, ``result[i]`` is the list of query `i`. Where each of many queries was asked of every page,
    ``result[q, p]`` is the list of query `q` on page `p`, and the lists of the first query come first.

    The same as columns, a row for each highlight, in the order of the lists:

    - `spans`: int64 ``[n, 2]``, start and end in characters of the page
    - `contexts`: int64 ``[n, 2]``, start and end of the passage with what stands around it
    - `sources`: int64 ``[n, 2]``, start and end of what it was read from, in characters of the source
    - `scores`, `cosines`, `bm25_scores`: float32 ``[n]``
    - `pages`: int64 ``[n]``, which of the texts
    - `queries`: int64 ``[n]``, which of the queries

    And for each page: `windows` and `windows_scored`, int64 ``[pages]``, how many windows it has, and how many of them were
    compared with a query.

    The columns are the memory the core wrote; nothing was copied. `texts` are the pages as they were read, `formats` says as
    what, and `work` what it took.

    `vectors` and `query_vectors` are those of the passages and of the queries, where a `Client` was told ``return_vectors=True``;
    otherwise `None`. Of `StoredDocument` pages a client has the passages alone: their texts are ``""``.
    """

    __slots__ = (
        "_ends",
        "_match_ends",
        "_match_spans",
        "_match_words",
        "_passages",
        "_query_words",
        "_written_at",
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

    def __init__(self, sources: Sequence[str], columns: dict[str, Any]) -> None:
        """Take the columns as the core wrote them; made by `Highlighter.highlights`."""
        read: list[str | None] = columns["texts"]
        self.texts = [source if text is None else text for source, text in zip(sources, read, strict=True)]
        self.formats: list[str] = columns["formats"]
        self.sources: NDArray[np.int64] = columns["sources"]
        self.spans: NDArray[np.int64] = columns["spans"]
        self.contexts: NDArray[np.int64] = columns["contexts"]
        self.scores: NDArray[np.float32] = columns["scores"]
        self.cosines: NDArray[np.float32] = columns["cosines"]
        self.bm25_scores: NDArray[np.float32] = columns["bm25_scores"]
        self.pages: NDArray[np.int64] = columns["pages"]
        self.queries: NDArray[np.int64] = columns["queries"]
        self.windows: NDArray[np.int64] = columns["windows"]
        self.windows_scored: NDArray[np.int64] = columns["windows_scored"]
        # Where the core wrote the first columns; a test compares.
        self._written_at: list[int] = columns["written_at"]
        self.work = Work(**columns["work"])
        self._ends: NDArray[np.int64] = columns["ends"]
        self._match_ends: NDArray[np.int64] = columns["match_ends"]
        self._match_spans: NDArray[np.int64] = columns["match_spans"]
        self._match_words: NDArray[np.int64] = columns["match_words"]
        self._query_words: list[str] = columns["query_words"]
        self.vectors: NDArray[Any] | None = columns.get("vectors")
        self.query_vectors: NDArray[Any] | None = columns.get("query_vectors")
        # For each row its text, what stands before and behind, where its page's text is not here.
        self._passages: list[tuple[str, str, str] | None] = columns.get("passages", [])

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
            return self._list(self._place(index))
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            message = f"there are {len(self)} lists of highlights, so no number {index}"
            raise IndexError(message)
        return self._list(place)

    def __iter__(self) -> Iterator[list[Highlight]]:
        return (self._list(i) for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<Highlights: {len(self.scores)} passages in {len(self)} lists>"

    def text_fragment(self, highlight: Highlight) -> str:
        """What to append to the page's address so that a browser scrolls to the highlight and marks it: ``#:~:text=…``.

        Raises `InvalidArgumentError` for one that is not from these pages.
        """
        return text_fragment(self._page(highlight), highlight.start, highlight.end)

    def selectors(self, highlight: Highlight) -> tuple[TextQuoteSelector, TextPositionSelector]:
        """Where the highlight is, as W3C's Web Annotation Data Model says it: by its words, and by its position in the text.

        Raises `InvalidArgumentError` for one that is not from these pages.
        """
        place = (self._page(highlight), highlight.start, highlight.end)
        return text_quote_selector(*place), text_position_selector(*place)

    def _page(self, highlight: Highlight) -> str:
        text = self.texts[highlight.page]
        if not text and self._passages:
            message = f"the text of page {highlight.page} is the server's; ask for it with return_texts=True"
            raise InvalidArgumentError(message)
        return text

    def _place(self, index: tuple[int, int]) -> int:
        query, page = index
        pages = len(self.texts)
        if len(self) % pages or not (0 <= query < len(self) // pages and 0 <= page < pages):
            message = (
                f"there are {len(self)} lists of highlights for {pages} pages, so none of query {query}, page {page}"
            )
            raise IndexError(message)
        return query * pages + page

    def _list(self, index: int) -> list[Highlight]:
        first = int(self._ends[index - 1]) if index else 0
        return [self._highlight(row) for row in range(first, int(self._ends[index]))]

    def _highlight(self, row: int) -> Highlight:
        page = int(self.pages[row])
        text = self.texts[page]
        start, end = (int(place) for place in self.spans[row])
        first, last = (int(place) for place in self.contexts[row])
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
