"""What `highlights()` returns: for each page its passages, and the same as columns of numpy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["Highlight", "Highlights", "Work"]


@dataclass(frozen=True, slots=True)
class Highlight:
    """A passage of a page, word for word: ``page[start:end] == text``.

    `start` and `end` count characters (Unicode code points), as Python's slices do.

    `score`, from 0 to 1, is comparable between the pages of a call: ``1 / (1 + exp(2 - relevance))``, where relevance joins
    meaning and words, ``(1 - lexical) * z(cosine) + lexical * z(BM25)``, and ``z`` counts in standard deviations from
    the mean of all pieces of the call. `cosine` (-1 to 1) and `lexical` (BM25, 0 and more) are the best of the windows and
    sentences within the passage.
    """

    text: str
    start: int
    end: int
    score: float
    cosine: float
    lexical: float


@dataclass(frozen=True, slots=True)
class Work:
    """What a call took; times are in seconds of the caller's wall clock.

    `pieces` windows and sentences were encoded, with `tokens` ids (special ones and the queries' included).
    `truncated` windows were
    longer than the model allows: what stands behind its limit had no part in their score. Devices also compute while
    the caller cuts and tokenizes, so `encoding` is the time spent waiting for them and nothing else.
    """

    pieces: int
    tokens: int
    truncated: int
    cutting: float
    tokenizing: float
    encoding: float
    choosing: float


class Highlights(Sequence[list[Highlight]]):
    """The passages found: ``result[i]`` is the list of page `i`.

    With many queries for one page, ``result[i]`` is the list of query `i`.

    The same as columns, a row for each highlight, in the order of the lists:

    - `spans`: int64 ``[n, 2]``, start and end in characters of the page
    - `scores`, `cosines`, `lexicals`: float32 ``[n]``
    - `pages`: int64 ``[n]``, which of the texts
    - `queries`: int64 ``[n]``, which of the queries

    The columns are the memory the core wrote; nothing was copied.
    """

    __slots__ = ("_ends", "_texts", "cosines", "lexicals", "pages", "queries", "scores", "spans", "work")

    def __init__(
        self,
        texts: Sequence[str],
        spans: NDArray[np.int64],
        scores: NDArray[np.float32],
        cosines: NDArray[np.float32],
        lexicals: NDArray[np.float32],
        pages: NDArray[np.int64],
        queries: NDArray[np.int64],
        ends: NDArray[np.int64],
        work: Work,
    ) -> None:
        """Take the columns as they are; made by `Highlighter.highlights`."""
        self._texts = texts
        self._ends = ends
        self.spans = spans
        self.scores = scores
        self.cosines = cosines
        self.lexicals = lexicals
        self.pages = pages
        self.queries = queries
        self.work = work

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> list[Highlight]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Highlight]]: ...
    def __getitem__(self, index: int | slice) -> list[Highlight] | list[list[Highlight]]:
        if isinstance(index, slice):
            return [self._list(i) for i in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            message = f"there are {len(self)} lists of highlights, so no number {index}"
            raise IndexError(message)
        return self._list(place)

    def __iter__(self) -> Iterator[list[Highlight]]:
        return (self._list(i) for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<Highlights: {len(self.scores)} passages in {len(self)} lists>"

    def _list(self, index: int) -> list[Highlight]:
        first = int(self._ends[index - 1]) if index else 0
        found = []
        for row in range(first, int(self._ends[index])):
            start, end = (int(place) for place in self.spans[row])
            text = self._texts[int(self.pages[row])][start:end]
            values = (float(column[row]) for column in (self.scores, self.cosines, self.lexicals))
            found.append(Highlight(text, start, end, *values))
        return found
