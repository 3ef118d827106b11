"""The `AsyncHighlighter`: a highlighter's calls, awaitable."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from types import TracebackType
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from pullquote._engine.event_loop import EventLoopCalls, ReplyTo
from pullquote._engine.handle import EngineStatus
from pullquote._engine.highlighter import Highlighter
from pullquote._engine.page_files import read_files_off_loop
from pullquote._engine.stream import AsyncPages, checked_stream, stream_awaited
from pullquote._models.engine_config import EngineConfig
from pullquote._native import Embeddings, PendingCall
from pullquote._native import Highlighter as NativeHighlighter
from pullquote._request.citation import CiteOptions, check_cite
from pullquote._request.options import (
    Options,
    Pages,
    Request,
    Unit,
    check_request,
    check_rerank,
    check_texts,
    warn_of_truncation,
)
from pullquote._request.pruning import Context, ProcessOptions, check_process
from pullquote._request.signatures import checked, configured_by, signed_as
from pullquote._results.cited import Cited
from pullquote._results.highlights import Highlights
from pullquote._results.pruned import PrunedText, process_result
from pullquote._results.ranked import RerankResult, rank
from pullquote.errors import InvalidArgumentError

__all__ = ["AsyncHighlighter"]

# Enough calls to fill the batches of many devices.
MAX_CONCURRENT = 64


@dataclass(frozen=True, slots=True)
class AsyncConfig(EngineConfig):
    """The arguments of `Highlighter`, and those of `AsyncHighlighter` alone."""

    _: KW_ONLY
    max_concurrent: int = MAX_CONCURRENT


class AsyncHighlighter(EngineStatus):
    """A `Highlighter` for event loops: the same arguments, options, answers and errors, awaitable.

    A call has no thread of its own: the highlighter's `threads` do its text work. Cancelling the task, or `asyncio.timeout`,
    stops the work. Each loop has at most `max_concurrent` calls in progress; further calls wait and cost nothing, so
    thousands may start at once. Works with asyncio, uvloop and notebooks, with several loops in turn or in several threads.

    Loading a model takes about a second: do it before the loop runs. `sharing` wraps an existing `Highlighter`.

    >>> async def main():  # doctest: +SKIP
    ...     async with AsyncHighlighter() as highlighter:
    ...         found = await highlighter.highlights("How far is the moon?", [page])
    ...         print(found[0][0].text)
    """

    _native: NativeHighlighter

    @configured_by(AsyncConfig)
    def __init__(self, config: AsyncConfig) -> None:
        """Load the model, as `Highlighter` does."""
        _check_concurrent(config.max_concurrent)
        arguments = {each.name: getattr(config, each.name) for each in fields(EngineConfig)}
        self._share(Highlighter(**arguments), config.max_concurrent)

    @classmethod
    def sharing(cls, highlighter: Highlighter, *, max_concurrent: int = MAX_CONCURRENT) -> AsyncHighlighter:
        """Wrap an existing highlighter; closing either closes both."""
        _check_concurrent(max_concurrent)
        shared = cls.__new__(cls)
        shared._share(highlighter, max_concurrent)
        return shared

    def _share(self, highlighter: Highlighter, max_concurrent: int) -> None:
        self._highlighter, self._native = highlighter, highlighter._native
        self.max_concurrent = max_concurrent
        self._calls = EventLoopCalls(max_concurrent)

    @checked
    @signed_as(Highlighter.highlights)
    async def highlights(self, query: str | Sequence[str], texts: Pages, **options: Unpack[Options]) -> Highlights:
        """Find the passages of pages that answer a query: see `Highlighter.highlights`."""
        return await self._answer(await read_files_off_loop(check_request(query, texts, options)))

    @checked
    def stream(
        self, query: str | Sequence[str], pages: AsyncPages, **options: Unpack[Options]
    ) -> AsyncIterator[Highlights]:
        """Answer pages one after another: ``async for found in highlighter.stream(query, pages)``; see `Highlighter.stream`.

        `pages` may also be an asynchronous generator. A page's answer does not wait for the next page then. To stop the pages in
        progress when leaving the loop early, use ``contextlib.aclosing``.
        """
        return stream_awaited(self._answer, *checked_stream(query, pages, options))

    @checked
    @signed_as(Highlighter.cite)
    async def cite(self, answer: str, pages: Pages, **options: Unpack[CiteOptions]) -> Cited:
        """Find what supports each sentence of a text: see `Highlighter.cite`."""
        call = check_cite(answer, pages, options)
        request = await read_files_off_loop(call.request)

        def start(reply_to: ReplyTo, remaining: float | None) -> PendingCall:
            request.options["timeout"] = remaining
            return self._native.start_cite(request, call.ids, call.numbers, reply_to)

        return Cited.of_json(await self._calls.run(start, options.get("timeout")))

    async def _answer(self, request: Request) -> Highlights:
        def start(reply_to: ReplyTo, remaining: float | None) -> PendingCall:
            request.options["timeout"] = remaining
            return self._native.start_highlights(request, reply_to)

        return Highlights(request, await self._calls.run(start, request.options.get("timeout")))

    @checked
    async def embed(
        self,
        texts: Iterable[str],
        *,
        role: Literal["query", "passage"] = "passage",
        timeout: float | None = None,
        priority: int = 0,
    ) -> NDArray[np.float32]:
        """Turn texts into vectors: see `Highlighter.embed`."""
        texts = check_texts(texts, role)
        embeddings: Embeddings = await self._calls.run(
            lambda reply_to, remaining: self._native.start_embed(texts, role == "query", remaining, priority, reply_to),
            timeout,
        )
        if embeddings.truncated:
            warn_of_truncation(embeddings.truncated, len(texts), self.max_tokens)
        return embeddings.vectors

    @checked
    async def rerank(
        self,
        query: str,
        texts: Iterable[str],
        *,
        top_n: int | None = None,
        raw_scores: bool = False,
        timeout: float | None = None,
        priority: int = 0,
    ) -> list[RerankResult]:
        """Sort texts by their relevance to a query: see `Highlighter.rerank`."""
        texts = check_rerank(texts, top_n)
        scores: NDArray[np.float32] = await self._calls.run(
            lambda reply_to, remaining: self._native.start_score_passages(
                query, texts, raw_scores, remaining, priority, reply_to
            ),
            timeout,
        )
        return rank(scores, texts, top_n)

    @checked
    @signed_as(Highlighter.process)
    async def process(
        self, question: str | Sequence[str], context: Context | Sequence[Any], **options: Unpack[ProcessOptions]
    ) -> dict[str, Any]:
        """Remove the sentences that do not answer: see `Highlighter.process`."""
        call = check_process(question, context, options)
        began = time.perf_counter()
        pruned: list[PrunedText] = await self._calls.run(
            lambda reply_to, remaining: self._native.start_prune(
                call.pairs(), call.threshold, remaining, call.priority, reply_to
            ),
            call.timeout,
        )
        return process_result(call, pruned, time.perf_counter() - began)

    @checked
    async def parse_pieces(
        self,
        text: str,
        highlight_length: int = 3,
        step_size: int = 1,
        unit: Unit = "sentence",
        *,
        allow_gaps: bool = False,
    ) -> NDArray[np.int64]:
        """Cut a text into sliding windows: see `Highlighter.parse_pieces`."""
        spans: NDArray[np.int64] = await self._calls.run(
            lambda reply_to, _: self._native.start_parse_pieces(
                text, highlight_length, step_size, unit, allow_gaps, reply_to
            )
        )
        return spans

    async def close(self) -> None:
        """Stop the devices; calls in flight and later ones raise `ClosedError`. May be called twice."""
        # It waits for running batches, so not on the loop's thread.
        await asyncio.to_thread(self._highlighter.close)

    async def __aenter__(self) -> AsyncHighlighter:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Async{repr(self._highlighter)[1:]}"


def _check_concurrent(max_concurrent: int) -> None:
    if not isinstance(max_concurrent, int) or max_concurrent < 1:
        message = f"max_concurrent must be at least 1, not {max_concurrent!r}"
        raise InvalidArgumentError(message)
