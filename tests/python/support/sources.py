"""Documents of adapters' tests, and a highlighter that counts its calls."""

from collections.abc import Iterable, Sequence
from typing import Any

import pullquote
from pullquote._request.options import Pages

# What the adapters get from a retriever: two documents that answer `QUESTION`, one that does not, and an empty one.
QUESTION = "How far away is the Moon?"
MOON = "Cats sleep a lot. The Moon is 384,400 km away from the Earth 🌙. Bread is baked from flour."
TIDES = "The Moon raises the tides. It is about 1.3 light-seconds away. Ships wait for high water."
BREAD = "Bread is baked from flour and water. Salt is mined in Poland."
TEXTS = [MOON, TIDES, BREAD, ""]


class CountingHighlighter(pullquote.Highlighter):
    """A highlighter on another one's engine; `calls` has the number of texts of each call."""

    def __init__(self, highlighter: pullquote.Highlighter) -> None:
        self._native = highlighter._native
        self.calls: list[int] = []

    def highlights(self, query: str | Sequence[str], texts: Pages, **options: Any) -> pullquote.Highlights:
        pages = list(texts)
        self.calls.append(len(pages))
        return super().highlights(query, pages, **options)

    def embed(self, texts: Iterable[str], **options: Any) -> Any:
        pages = list(texts)
        self.calls.append(len(pages))
        return super().embed(pages, **options)
