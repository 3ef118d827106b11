"""The `AsyncClient`: the calls of a `Client`, awaitable."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from pullquote._engine.event_loop import EventLoopCalls
from pullquote._engine.highlighter import Highlighter
from pullquote._engine.page_files import read_files_off_loop
from pullquote._engine.stream import AsyncPages, checked_stream, stream_awaited
from pullquote._native import ClientCall, Document, DocumentList, Located
from pullquote._request.citation import CiteOptions, check_cite
from pullquote._request.options import Options, Page, Pages, Request, check_rerank
from pullquote._request.pruning import Context, ProcessOptions, check_process
from pullquote._request.signatures import checked, signed_as
from pullquote._results.cited import Cited
from pullquote._results.highlights import Highlights
from pullquote._results.pruned import process_result
from pullquote._results.ranked import RerankResult
from pullquote.client import (
    BaseClient,
    ClientSettings,
    EmbedCall,
    EmbeddingDtype,
    EmbedOptions,
    Files,
    HighlightsCall,
    PutDocuments,
    StoredDocument,
    check_documents,
    read_files,
)

__all__ = ["AsyncClient"]

_Value = TypeVar("_Value")


class AsyncClient(BaseClient):
    """The calls of a `Client`, awaitable; takes the same arguments.

    A call has no thread of its own. Cancelling the task that awaits a call closes its stream, so the server stops its work. Works
    with asyncio and uvloop, and in several event loops.
    """

    @checked
    def __init__(self, url: str | Sequence[str], **settings: Unpack[ClientSettings]) -> None:
        """Check the settings; the first call starts threads and connects."""
        super().__init__(url, **settings)
        self._calls = EventLoopCalls()

    async def _run(self, call: ClientCall[_Value]) -> _Value:
        value: _Value = await self._calls.run(lambda reply_to, _: call.start(reply_to))
        return value

    @checked
    @signed_as(Highlighter.highlights)
    async def highlights(
        self,
        query: str | Sequence[str],
        texts: Pages | Iterable[Page | StoredDocument] = (),
        *,
        files: Files | None = None,
        password: str | None = None,
        return_texts: bool = False,
        return_vectors: bool = False,
        embedding_dtype: EmbeddingDtype = "float32",
        **options: Unpack[Options],
    ) -> Highlights:
        """Find the passages of pages that answer a query: see `Client.highlights`."""
        server_options = {
            "files": None if files is None else await asyncio.to_thread(read_files, files),
            "password": password,
            "return_texts": return_texts,
            "return_vectors": return_vectors,
            "embedding_dtype": embedding_dtype,
        }
        call = HighlightsCall(query, texts, server_options, options)
        call.request = await read_files_off_loop(call.request)
        return call.result(await self._run(self._native.highlights(call.request)))

    @checked
    def stream(
        self, query: str | Sequence[str], pages: AsyncPages, **options: Unpack[Options]
    ) -> AsyncIterator[Highlights]:
        """Answer pages one after another: see `Client.stream` and `AsyncHighlighter.stream`."""
        return stream_awaited(self._answer, *checked_stream(query, pages, options))

    async def _answer(self, request: Request) -> Highlights:
        return Highlights(request, await self._run(self._native.highlights(request)))

    @overload
    async def embed(
        self,
        texts: Iterable[str],
        *,
        embedding_dtype: Literal["float32"] = "float32",
        **options: Unpack[EmbedOptions],
    ) -> NDArray[np.float32]: ...
    @overload
    async def embed(
        self, texts: Iterable[str], *, embedding_dtype: EmbeddingDtype, **options: Unpack[EmbedOptions]
    ) -> NDArray[Any]: ...
    @checked
    @signed_as(Highlighter.embed)
    async def embed(
        self,
        texts: Iterable[str],
        *,
        embedding_dtype: EmbeddingDtype = "float32",
        **options: Unpack[EmbedOptions],
    ) -> NDArray[Any]:
        """Turn texts into vectors: see `Client.embed`."""
        call = EmbedCall(texts, embedding_dtype, options)
        return call.result(await self._run(self._native.embed(call.texts, call.is_query, call.options)))

    @checked
    async def rerank(
        self,
        query: str,
        texts: Iterable[str],
        *,
        top_n: int | None = None,
        raw_scores: bool = False,
        timeout: float | None = None,
    ) -> list[RerankResult]:
        """Sort texts by their relevance to a query: see `Client.rerank`."""
        texts = check_rerank(texts, top_n)
        ranks = await self._run(self._native.rerank(query, texts, top_n, raw_scores, {"timeout": timeout}))
        return [RerankResult(rank.index, rank.score, texts[rank.index]) for rank in ranks]

    @checked
    @signed_as(Highlighter.process)
    async def process(
        self, question: str | Sequence[str], context: Context | Sequence[Any], **options: Unpack[ProcessOptions]
    ) -> dict[str, Any]:
        """Remove the sentences that do not answer, with the server's pruner: see `Highlighter.process`."""
        call = check_process(question, context, options)
        began = time.perf_counter()
        within = {"timeout": call.timeout, "priority": call.priority}
        pruned = await self._run(self._native.prune(call.pairs(), call.threshold, within))
        return process_result(call, pruned, time.perf_counter() - began)

    @checked
    async def locate(self, page: str, quote: str, *, timeout: float | None = None) -> Located:
        """Find where a quote stands in a page: see `pullquote.locate`."""
        return await self._run(self._native.locate(page, quote, {"timeout": timeout}))

    @checked
    @signed_as(Highlighter.cite)
    async def cite(self, answer: str, pages: Pages, **options: Unpack[CiteOptions]) -> Cited:
        """Find what supports each sentence of a text: see `Highlighter.cite`."""
        call = check_cite(answer, pages, options)
        request = await read_files_off_loop(call.request)
        return Cited.of_json(await self._run(self._native.cite(request, call.ids, call.numbers)))

    @checked
    async def put_document(
        self,
        document_id: str,
        text: str,
        *,
        title: str | None = None,
        timeout: float | None = None,
    ) -> str:
        """Store a document under an id: see `Client.put_document`."""
        return await self._run(self._native.put_document(document_id, text, title, {"timeout": timeout}))

    @checked
    async def put_documents(
        self,
        texts: Pages,
        *,
        ids: Iterable[str] | None = None,
        titles: Iterable[str | None] | None = None,
        timeout: float | None = None,
    ) -> PutDocuments:
        """Store many documents: see `Client.put_documents`."""
        names, pages, listed = await asyncio.to_thread(check_documents, texts, ids, titles)
        return await self._run(self._native.put_documents(names, pages, listed, {"timeout": timeout}))

    @checked
    async def get_document(self, document_id: str, *, timeout: float | None = None) -> Document:
        """Read a stored document: see `Client.get_document`."""
        return await self._run(self._native.get_document(document_id, {"timeout": timeout}))

    @checked
    async def delete_document(self, document_id: str, *, timeout: float | None = None) -> None:
        """Delete a stored document: see `Client.delete_document`."""
        await self._run(self._native.delete_document(document_id, {"timeout": timeout}))

    @checked
    async def list_documents(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None, timeout: float | None = None
    ) -> DocumentList:
        """List stored documents: see `Client.list_documents`."""
        return await self._run(self._native.list_documents(prefix, after, limit, {"timeout": timeout}))

    @checked
    async def delete_documents(self, prefix: str, *, timeout: float | None = None) -> int:
        """Delete stored documents by a prefix of their ids: see `Client.delete_documents`."""
        return await self._run(self._native.delete_documents(prefix, {"timeout": timeout}))

    @checked
    async def delete_all_documents(self, *, timeout: float | None = None) -> int:
        """Delete every stored document: see `Client.delete_documents`."""
        return await self._run(self._native.delete_documents(None, {"timeout": timeout}))

    @checked
    async def health(self, *, timeout: float | None = None) -> dict[str, str | None]:
        """Check that each server can encode: see `Client.health`."""
        return dict(await self._run(self._native.health({"timeout": timeout})))

    async def close(self) -> None:
        """Close all connections; calls in flight and later ones raise `ClosedError`. May be called twice."""
        # It waits up to a second for calls in flight to end, so not on the loop's thread.
        await asyncio.to_thread(self._native.close)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
