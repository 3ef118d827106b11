"""Highlighting the rows of a Ray Data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pullquote._engine.highlighter import Highlighter
from pullquote._engine.ray_resources import assigned_resources
from pullquote._models.python_encoder import CustomEncoder

__all__ = ["PageHighlighter"]


class PageHighlighter:
    """A class for `ray.data.Dataset.map_batches`: an engine in each actor, on the actor's assigned resources.

    ::

        found = pages.map_batches(
            PageHighlighter,
            fn_constructor_kwargs={"query": ["Who was put on trial?"], "id": "url", "top_k": 2},
            batch_format="pyarrow",
            batch_size=1024,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=8),
            num_cpus=4,  # or num_gpus=1, with cores that cut and tokenize for it
        )

    A batch has the answer of `Highlighter.highlights_arrow`: a row for each page and question, with a reason in the column
    ``error`` for rows that fail. Batches are read from Ray's object store without a copy. Thread-safe.
    """

    def __init__(
        self,
        query: str | Sequence[str] = "query",
        text: str = "text",
        id: str | None = None,  # noqa: A002 - as in `highlights_arrow`
        title: str | None = None,
        *,
        model: str | Path | None = None,
        dtype: str = "auto",
        encoder: CustomEncoder | None = None,
        max_batch_tokens: int | None = None,
        max_batch_size: int | None = None,
        revision: str | None = None,
        **options: Any,
    ) -> None:
        """Load the model; `query` to `title` and `options` are those of `Highlighter.highlights_arrow`."""
        self._arguments = {"query": query, "text": text, "id": id, "title": title, **options}
        # A data set has each page once, so the cache is off.
        self._highlighter = Highlighter(
            model,
            dtype=dtype,
            cache_bytes=0,
            encoder=encoder,
            max_batch_tokens=max_batch_tokens,
            max_batch_size=max_batch_size,
            revision=revision,
            **assigned_resources(encoder),
        )

    def __call__(self, pages: pa.Table) -> pa.Table:
        """Answer a batch."""
        return pa.table(self._highlighter.highlights_arrow(pages, **self._arguments))
