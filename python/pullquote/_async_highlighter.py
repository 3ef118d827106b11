"""The `AsyncHighlighter`: a highlighter's calls, awaited by event loops."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from pullquote import _native
from pullquote._highlighter import Highlighter, completed
from pullquote._highlights import Highlights
from pullquote._loading import CACHE_BYTES, Caching, Watched
from pullquote._options import HIGHLIGHT_LENGTH, STEP_SIZE, UNIT, Options, Unit, checked, checked_texts, warn_of_cut
from pullquote._python_encoder import OwnEncoder
from pullquote.errors import DeadlineExceededError, InvalidArgumentError

__all__ = ["AsyncHighlighter"]

# Calls of a loop that are in progress at once: enough to fill the batches of many devices.
MAX_CONCURRENT = 64


class _Loop:
    """One event loop's calls: those in progress, and the line of those that wait for a place."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        self.places = asyncio.Semaphore(most)
        self.numbers = itertools.count()
        self.futures: dict[int, asyncio.Future[Any]] = {}
        known = weakref.ref(loop)

        def ring() -> None:
            if (loop := known()) is not None:
                loop.call_soon_threadsafe(self._take)

        self.mailbox = _native.Mailbox(ring)

    def _take(self) -> None:
        for number, value, error in self.mailbox.take():
            future = self.futures.pop(number, None)
            if future is None or future.done():
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)


class AsyncHighlighter(Watched, Caching):
    """A `Highlighter` for event loops: the same arguments, options, answers and errors, awaited.

    No call has a thread: its text work is done by the highlighter's own few threads (`threads`), and while devices work it
    costs none. Cancelling the task, or `asyncio.timeout`, stops the work. At most `max_concurrent` calls of a loop are in
    progress; others wait in line before they cost anything, so that thousands may be started at once. Works with any loop
    (asyncio's, uvloop's, a notebook's), with several after one another, and with several at once in different threads.

    Loading a model takes about a second: make it before the loop runs. `sharing` makes one of a `Highlighter` that is there.

    >>> async def main():  # doctest: +SKIP
    ...     async with AsyncHighlighter() as highlighter:
    ...         found = await highlighter.highlights("How far is the moon?", [page])
    ...         print(found[0][0].text)
    """

    def __init__(
        self,
        model: str | Path | None = None,
        devices: str | Sequence[str] = "auto",
        dtype: str = "auto",
        threads: int | Literal["caller"] | None = None,
        cache_bytes: int = CACHE_BYTES,
        *,
        cores: Iterable[int] | None = None,
        encoder: OwnEncoder | Literal["torch"] | None = None,
        max_batch_tokens: int | None = None,
        max_batch_size: int | None = None,
        batch_timeout: float = 0.0,
        depth: int | None = None,
        device_timeout: float | None = None,
        profile: bool = False,
        trace: str | Path | None = None,
        max_concurrent: int = MAX_CONCURRENT,
    ) -> None:
        """Load the model, as `Highlighter` does."""
        _check_concurrent(max_concurrent)
        made = Highlighter(
            model,
            devices,
            dtype,
            threads,
            cache_bytes,
            cores=cores,
            encoder=encoder,
            max_batch_tokens=max_batch_tokens,
            max_batch_size=max_batch_size,
            batch_timeout=batch_timeout,
            depth=depth,
            device_timeout=device_timeout,
            profile=profile,
            trace=trace,
        )
        self._share(made, max_concurrent)

    @classmethod
    def sharing(cls, highlighter: Highlighter, *, max_concurrent: int = MAX_CONCURRENT) -> AsyncHighlighter:
        """Await the calls of a highlighter that is there; closing either closes both."""
        _check_concurrent(max_concurrent)
        made = cls.__new__(cls)
        made._share(highlighter, max_concurrent)
        return made

    def _share(self, highlighter: Highlighter, max_concurrent: int) -> None:
        self._highlighter = highlighter
        self._native: _native.Highlighter = highlighter._native
        self.max_concurrent = max_concurrent
        self._loops: dict[asyncio.AbstractEventLoop, _Loop] = {}
        self._lock = threading.Lock()

    async def highlights(
        self, query: str | Sequence[str], texts: Iterable[str], **options: Unpack[Options]
    ) -> Highlights:
        """Find the passages of pages that answer a query: options, answer and errors are those of `Highlighter.highlights`."""
        queries, pages, titles, full = checked(query, texts, completed(options))

        def start(answer_to: tuple[_native.Mailbox, int], left: float | None) -> _native.Later:
            return self._native.highlights_later(queries, pages, titles, full | {"timeout": left}, answer_to)

        return Highlights(pages, await self._done(start, full["timeout"]))

    async def embed(
        self,
        texts: Iterable[str],
        *,
        role: Literal["query", "passage"] = "passage",
        timeout: float | None = None,
        priority: int = 0,
    ) -> NDArray[np.float32]:
        """Turn texts into vectors, as `Highlighter.embed` does."""
        listed = checked_texts(texts, role)

        def start(answer_to: tuple[_native.Mailbox, int], left: float | None) -> _native.Later:
            return self._native.embed_later(listed, role == "query", left, priority, answer_to)

        found: tuple[NDArray[np.float32], int] = await self._done(start, timeout)
        vectors, truncated = found
        if truncated:
            warn_of_cut(truncated, len(listed), self.max_tokens)
        return vectors

    async def parse_pieces(
        self,
        text: str,
        highlight_length: int = HIGHLIGHT_LENGTH,
        step_size: int = STEP_SIZE,
        unit: Unit = UNIT,
        *,
        allow_gaps: bool = False,
    ) -> NDArray[np.int64]:
        """Cut a text into sliding windows, as `Highlighter.parse_pieces` does."""

        def start(answer_to: tuple[_native.Mailbox, int], _left: float | None) -> _native.Later:
            windows = (highlight_length, step_size, allow_gaps)
            return self._native.parse_pieces_later(text, windows, unit, answer_to)

        spans: NDArray[np.int64] = await self._done(start, None)
        return spans

    async def _done(
        self, start: Callable[[tuple[_native.Mailbox, int], float | None], _native.Later], timeout: float | None
    ) -> Any:
        loop = asyncio.get_running_loop()
        here = self._here(loop)
        began = loop.time()
        try:
            # What is no time at all is told by the core.
            async with asyncio.timeout(timeout if timeout is None or timeout > 0 else None):
                await here.places.acquire()
        except TimeoutError:
            message = "the call's timeout passed before its turn came"
            raise DeadlineExceededError(message) from None
        try:
            left = timeout if timeout is None or timeout <= 0 else max(timeout - (loop.time() - began), 1e-6)
            number = next(here.numbers)
            future = here.futures[number] = loop.create_future()
            later = None
            try:
                later = start((here.mailbox, number), left)
                return await future
            finally:
                here.futures.pop(number, None)
                if later is not None:
                    later.cancel()
        finally:
            here.places.release()

    def _here(self, loop: asyncio.AbstractEventLoop) -> _Loop:
        here = self._loops.get(loop)
        if here is None:
            with self._lock:
                for closed in [known for known in self._loops if known.is_closed()]:
                    del self._loops[closed]
                here = self._loops[loop] = _Loop(loop, self.max_concurrent)
        return here

    async def close(self) -> None:
        """Stop the devices; calls in flight, and later ones, raise `ClosedError`. May be called twice."""
        # Waits for the batch that runs, which is not the loop's business.
        await asyncio.to_thread(self._highlighter.close)

    async def __aenter__(self) -> AsyncHighlighter:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Async{repr(self._highlighter)[1:]}"


def _check_concurrent(most: int) -> None:
    if not isinstance(most, int) or most < 1:
        message = f"max_concurrent must be at least 1, not {most!r}"
        raise InvalidArgumentError(message)


# What a call may say is written once.
AsyncHighlighter.highlights.__signature__ = inspect.signature(Highlighter.highlights)  # type: ignore[attr-defined]
