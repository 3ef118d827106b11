"""Awaiting the core's calls: the one bridge to event loops, for `AsyncHighlighter` and `AsyncClient`.

A call occupies no thread. Threads of the core put completed calls into a queue of the loop that awaits them, and wake that loop
once for all of them.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

from pullquote._native import CompletionQueue, PendingCall
from pullquote.errors import DeadlineExceededError

__all__ = ["EventLoopCalls", "ReplyTo"]

ReplyTo: TypeAlias = tuple[CompletionQueue, int]


class _Loop:
    """The pending calls of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, max_concurrent: int) -> None:
        self.slots = asyncio.Semaphore(max_concurrent)
        self.numbers = itertools.count()
        self.futures: dict[int, asyncio.Future[Any]] = {}
        weak_loop = weakref.ref(loop)

        def wake() -> None:
            if (loop := weak_loop()) is not None:
                loop.call_soon_threadsafe(self._complete)

        self.queue = CompletionQueue(wake)

    def _complete(self) -> None:
        for completion in self.queue.drain():
            future = self.futures.pop(completion.number, None)
            if future is None or future.done():
                continue
            if completion.error is None:
                future.set_result(completion.value)
            else:
                future.set_exception(completion.error)


class EventLoopCalls:
    """Awaits calls in any number of event loops, each with at most `max_concurrent` in progress; the others wait in order."""

    def __init__(self, max_concurrent: int = sys.maxsize) -> None:
        self._max_concurrent = max_concurrent
        self._loops: dict[asyncio.AbstractEventLoop, _Loop] = {}
        self._lock = threading.Lock()

    async def run(self, start: Callable[[ReplyTo, float | None], PendingCall], timeout: float | None = None) -> Any:
        """Start a call and await its value. Cancelling this cancels the call.

        `start` gets the remaining part of `timeout`, which is in seconds and includes the wait for a slot.
        """
        loop = asyncio.get_running_loop()
        calls = self._of(loop)
        began = loop.time()
        try:
            # The core refuses a timeout that is not positive.
            async with asyncio.timeout(timeout if timeout is None or timeout > 0 else None):
                await calls.slots.acquire()
        except TimeoutError:
            message = "the call's timeout passed while it waited for a slot"
            raise DeadlineExceededError(message) from None
        try:
            remaining = timeout if timeout is None or timeout <= 0 else max(timeout - (loop.time() - began), 1e-6)
            number = next(calls.numbers)
            future = calls.futures[number] = loop.create_future()
            pending = None
            try:
                pending = start((calls.queue, number), remaining)
                return await future
            finally:
                calls.futures.pop(number, None)
                if pending is not None:
                    pending.cancel()
        finally:
            calls.slots.release()

    def _of(self, loop: asyncio.AbstractEventLoop) -> _Loop:
        calls = self._loops.get(loop)
        if calls is None:
            with self._lock:
                for closed in [known for known in self._loops if known.is_closed()]:
                    del self._loops[closed]
                calls = self._loops[loop] = _Loop(loop, self._max_concurrent)
        return calls
