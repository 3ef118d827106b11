"""Pages answered one after another: each alone, in their order, while the next ones are read and computed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pullquote._engine.page_files import read_files, read_files_off_loop
from pullquote._native import Completion, CompletionQueue, PendingCall
from pullquote._request.options import Page, Pages, Request, check_request, is_file, to_list
from pullquote._results.highlights import Highlights
from pullquote.errors import InvalidArgumentError, InvalidTypeError, PullquoteError

if TYPE_CHECKING:
    # It imports asyncio, which takes longer than all the rest.
    from pullquote._engine.event_loop import ReplyTo

__all__ = ["AsyncPages", "checked_stream", "stream", "stream_awaited"]

# Pages of an event loop may also come from an asynchronous generator.
AsyncPages: TypeAlias = Pages | AsyncIterable[Page | tuple[Any, Page]]

# Pages in progress, and their characters: enough to fill the batches of many devices.
MAX_PAGES_AHEAD = 64
MAX_CHARS_AHEAD = 4 * 1024 * 1024

_END = object()

# What pages cannot have one by one, and what works instead.
_NEEDS_ALL_PAGES = {
    "max_total_highlights": "top_k is for each page",
    "max_total_chars": "max_chars is for each page",
    "max_total_tokens": "max_tokens is for each page",
    "titles": "they matter where pages compete; as names, pass pairs (title, page)",
    "ids": "pass pairs (id, page), or a mapping from ids to pages",
}


class _Checked:
    """The query and options of a stream, and the request of each of its pages."""

    def __init__(self, query: str | Sequence[str], options: Mapping[str, Any]) -> None:
        for name, advice in _NEEDS_ALL_PAGES.items():
            if options.get(name) is not None:
                message = f"{name} needs all pages, and a stream answers each alone; {advice}, or call highlights"
                raise InvalidArgumentError(message)
        for name, wrong in (("dedupe", "answer"), ("pairing", "each")):
            if options.get(name) == wrong:
                message = f'{name}="{wrong}" needs all pages, and a stream answers each alone; call highlights'
                raise InvalidArgumentError(message)
        if not isinstance(options.get("format", "auto"), str):
            message = "format must be one for all pages of a stream; a Document has its own"
            raise InvalidTypeError(message)
        self._query = query if isinstance(query, str) else to_list(query, "query")
        self._options = options
        self._read = 0
        self.request(".")
        self._read = 0

    def request(self, page: Any) -> Request:
        """The checked request of the next page."""
        number, self._read = self._read, self._read + 1
        try:
            request = check_request(self._query, [page], self._options, are_names=True)
            text = request.texts[0]
            if not (isinstance(text, str) or is_file(text)):
                message = f"texts[0] must be a string, not {type(text).__name__}"
                raise InvalidTypeError(message)
            return request
        except PullquoteError as error:
            # Of a call with one page.
            message = str(error).replace("texts[0]", f"pages[{number}]")
            raise type(error)(message) from None


def checked_stream(query: str | Sequence[str], pages: Any, options: Mapping[str, Any]) -> tuple[_Checked, Any]:
    """Check everything but the pages themselves, which are read later. Returns their iterable too."""
    made = _Checked(query, options)
    if isinstance(pages, Mapping):
        return made, pages.items()
    is_listed = isinstance(pages, AsyncIterable) or (isinstance(pages, Iterable) and not is_file(pages))
    if not is_listed or isinstance(pages, (str, bytes, bytearray, set, frozenset)) or hasattr(pages, "columns"):
        to_list(pages, "pages")
    return made, pages


def stream(
    start: Callable[[Request, ReplyTo], PendingCall], checked: _Checked, pages: Iterable[Any]
) -> Iterator[Highlights]:
    """`stream` of a `Highlighter` or `Client`, whose calls `start` begins."""
    finished = threading.Event()
    queue = CompletionQueue(finished.set)
    unread = iter(pages)
    waiting: deque[tuple[int, Request]] = deque()
    calls: dict[int, PendingCall] = {}
    completed: dict[int, Completion] = {}
    failed: BaseException | None = None
    number = chars = 0
    is_last = False
    try:
        while True:
            finished.clear()
            completed |= {each.number: each for each in queue.drain()}
            if waiting and waiting[0][0] in completed:
                first, request = waiting.popleft()
                chars -= len(request.texts[0])
                del calls[first]
                done = completed.pop(first)
                if done.error is not None:
                    raise done.error
                yield Highlights(request, done.value)
            elif not is_last and len(waiting) < MAX_PAGES_AHEAD and chars < MAX_CHARS_AHEAD:
                try:
                    request = read_files(checked.request(next(unread)))
                    calls[number] = start(request, (queue, number))
                except StopIteration:
                    is_last = True
                except Exception as error:
                    # Raised in its turn, after the pages before it.
                    is_last, failed = True, error
                else:
                    waiting.append((number, request))
                    number += 1
                    chars += len(request.texts[0])
            elif waiting:
                finished.wait()
            elif failed is not None:
                raise failed
            else:
                return
    finally:
        for call in calls.values():
            call.cancel()


async def stream_awaited(
    answer: Callable[[Request], Coroutine[Any, Any, Highlights]], checked: _Checked, pages: AsyncPages
) -> AsyncIterator[Highlights]:
    """`stream` of an `AsyncHighlighter` or `AsyncClient`, whose calls `answer` awaits."""
    import asyncio  # noqa: PLC0415 - an event loop runs here, so it is imported already

    unread = _asynchronous(pages)

    async def read() -> Request | None:
        page = await anext(unread, _END)
        return None if page is _END else await read_files_off_loop(checked.request(page))

    waiting: deque[tuple[asyncio.Task[Highlights], int]] = deque()
    reading: asyncio.Task[Request | None] | None = asyncio.create_task(read())
    failed: Exception | None = None
    chars = 0
    try:
        while reading or waiting:
            tasks: list[asyncio.Task[Any]] = [waiting[0][0]] if waiting else []
            if reading and len(waiting) < MAX_PAGES_AHEAD and chars < MAX_CHARS_AHEAD:
                tasks.append(reading)
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if waiting and waiting[0][0].done():
                chars -= waiting[0][1]
                yield await waiting.popleft()[0]
            elif reading and reading.done():
                try:
                    request, reading = reading.result(), None
                except Exception as error:
                    # Raised in its turn, after the pages before it.
                    failed, reading = error, None
                    continue
                if request is not None:
                    waiting.append((asyncio.create_task(answer(request)), len(request.texts[0])))
                    chars += len(request.texts[0])
                    reading = asyncio.create_task(read())
        if failed is not None:
            raise failed
    finally:
        left: list[asyncio.Task[Any]] = [call for call, _ in waiting]
        if reading:
            left.append(reading)
        for call in left:
            call.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def _asynchronous(pages: Any) -> AsyncIterator[Any]:
    if isinstance(pages, AsyncIterable):
        async for page in pages:
            yield page
    else:
        for page in pages:
            yield page
