"""The `AsyncClient`: the calls of a `Client`, awaitable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Literal, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from pullquote import _native
from pullquote._highlighter import Highlighter
from pullquote._highlights import Highlights
from pullquote._options import Options
from pullquote.client import (
    Asked,
    ClientSettings,
    Connected,
    Document,
    EmbeddingDtype,
    EmbedOptions,
    RerankResult,
    StoredDocument,
    ToEmbed,
    signed_as,
    to_rank,
)

__all__ = ["AsyncClient"]


class AsyncClient(Connected):
    """The calls of a `Client`, each to be awaited; made with the same arguments.

    No call has a thread to itself: all are carried by the client's two, and the event loop (asyncio's or uvloop's) is told when
    one is done. Cancelling the task that awaits a call drops it and closes its stream, so that the server stops working on it.
    One client may be used from several event loops.
    """

    def __init__(self, url: str | Sequence[str], **settings: Unpack[ClientSettings]) -> None:
        """Check the settings; no connection is made before the first call."""
        super().__init__(url, settings)

    @signed_as(Highlighter.highlights)
    async def highlights(
        self,
        query: str | Sequence[str],
        texts: Iterable[str | StoredDocument],
        *,
        return_texts: bool = False,
        return_vectors: bool = False,
        embedding_dtype: EmbeddingDtype = "float32",
        **options: Unpack[Options],
    ) -> Highlights:
        """Find the passages of pages that answer a query: see `Client.highlights`."""
        of_server = {
            "return_texts": return_texts,
            "return_vectors": return_vectors,
            "embedding_dtype": embedding_dtype,
        }
        asked = Asked(query, texts, of_server, options)
        arguments = (asked.queries, asked.pages, asked.titles, asked.options)
        return asked.found(await _came(lambda done: self._native.highlights(*arguments, done)))

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
    @signed_as(Highlighter.embed)
    async def embed(
        self,
        texts: Iterable[str],
        *,
        embedding_dtype: EmbeddingDtype = "float32",
        **options: Unpack[EmbedOptions],
    ) -> NDArray[Any]:
        """Turn texts into vectors: see `Client.embed`."""
        asked = ToEmbed(texts, embedding_dtype, options)
        arguments = (asked.texts, asked.is_query, asked.options)
        return asked.vectors(await _came(lambda done: self._native.embed(*arguments, done)), 2)

    async def rerank(
        self, query: str, texts: Iterable[str], *, top_n: int | None = None, timeout: float | None = None
    ) -> list[RerankResult]:
        """Sort texts by how near they are to a query: see `Client.rerank`."""
        listed = to_rank(texts, top_n)
        options = {"timeout": timeout}
        ranks = await _came(lambda done: self._native.rerank(query, listed, top_n, options, done))
        return [RerankResult(index, score, listed[index]) for index, score in ranks]

    async def put_document(
        self,
        document_id: str,
        text: str,
        *,
        title: str | None = None,
        timeout: float | None = None,
    ) -> str:
        """Store a document under an id: see `Client.put_document`."""
        options = {"timeout": timeout}
        stored: str = await _came(lambda done: self._native.put_document(document_id, text, title, options, done))
        return stored

    async def get_document(self, document_id: str, *, timeout: float | None = None) -> Document:
        """Read a stored document: see `Client.get_document`."""
        options = {"timeout": timeout}
        title, text, text_hash = await _came(lambda done: self._native.get_document(document_id, options, done))
        return Document(document_id, text, title, text_hash)

    async def delete_document(self, document_id: str, *, timeout: float | None = None) -> None:
        """Delete a stored document: see `Client.delete_document`."""
        options = {"timeout": timeout}
        await _came(lambda done: self._native.delete_document(document_id, options, done))

    async def health(self, *, timeout: float | None = None) -> dict[str, str | None]:
        """Ask each server whether texts are being encoded: see `Client.health`."""
        return dict(await _came(lambda done: self._native.health({"timeout": timeout}, done)))

    async def close(self) -> None:
        """Close all connections; calls in flight, and later ones, raise `ClosedError`. May be called twice."""
        # It waits, a second at most, until those calls were told.
        await asyncio.to_thread(self.close_now)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


async def _came(start: Callable[[Callable[[Any, BaseException | None], None]], _native.Task]) -> Any:
    """What comes of a call that `start` starts and that tells the function it is given."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def done(value: Any, error: BaseException | None) -> None:
        # On a thread of the client's. A loop that is closed waits for nothing any more.
        if not loop.is_closed():
            try:
                loop.call_soon_threadsafe(settle, value, error)
            except RuntimeError:
                return

    task = start(done)
    try:
        return await future
    except asyncio.CancelledError:
        task.abort()
        raise
