"""Highlighting the rows of a Ray Data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pullquote._highlighter import Highlighter
from pullquote._python_encoder import OwnEncoder
from pullquote.ray._resources import given

__all__ = ["PageHighlighter"]


class PageHighlighter:
    """What `ray.data.Dataset.map_batches` makes one of in each actor: an engine that uses what Ray gave the actor.

    ::

        found = pages.map_batches(
            PageHighlighter,
            fn_constructor_kwargs={"query": ["Who was put on trial?"], "id": "url", "top_k": 2},
            batch_format="pyarrow",
            batch_size=1024,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=8),
            num_cpus=4,  # or num_gpus=1, with the cores that cut and tokenize for it
        )

    A batch is answered as `Highlighter.highlights_arrow` answers a table: a row for each page and question, and what cannot be
    answered has its reason in the column ``error``. Batches are read where Ray keeps them. May be called from several threads
    at once.
    """

    def __init__(
        self,
        query: str | Sequence[str] = "query",
        text: str = "text",
        id: str | None = None,  # noqa: A002 - as `highlights_arrow` calls it
        title: str | None = None,
        *,
        model: str | Path | None = None,
        dtype: str = "auto",
        encoder: OwnEncoder | None = None,
        max_batch_tokens: int | None = None,
        max_batch_size: int | None = None,
        **options: Any,
    ) -> None:
        """Load the model; `query` to `title` and `options` are those of `Highlighter.highlights_arrow`."""
        self._asked = {"query": query, "text": text, "id": id, "title": title, **options}
        # Pages of a data set come once.
        self._highlighter = Highlighter(
            model,
            dtype=dtype,
            cache_bytes=0,
            encoder=encoder,
            max_batch_tokens=max_batch_tokens,
            max_batch_size=max_batch_size,
            **given(encoder),
        )

    def __call__(self, pages: pa.Table) -> pa.Table:
        """What was found for a batch."""
        return pa.table(self._highlighter.highlights_arrow(pages, **self._asked))
