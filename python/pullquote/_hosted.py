"""Hosts that have a model of their own: token ids out, vectors in.

`Hosted` is for a host that encodes when and as it likes, and takes a call further whenever vectors are there. `Planner` is
for one that asks once what to encode and once for the answer. Nothing here computes a vector, and no thread is started but
for the text of large pages. `pullquote.vllm` is made of these.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pullquote import _native
from pullquote._closing import Closing
from pullquote._highlighter import closed_at_exit, completed
from pullquote._highlights import Highlights
from pullquote._loading import CACHE_BYTES, Caching, Loaded, thread_count
from pullquote._models import model_directory
from pullquote._options import Options, checked
from pullquote.errors import EncoderError, InvalidArgumentError

__all__ = ["Batch", "Hosted", "HostedCall", "Plan", "Planner"]

# Batches of a call that are out at once: while the host encodes one, the next one is there.
DEPTH = 2
# A plan is everything at once.
NO_BOUND = 2**31


class Batch(NamedTuple):
    """Batch to encode: the `ids` of all, int32 and one row behind the other, special ones included, and their `lengths`."""

    ticket: int
    """What their vectors are given back by."""
    ids: NDArray[np.int32]
    lengths: NDArray[np.uint32]

    def split(self) -> list[list[int]]:
        """The ids of each row."""
        ends = np.cumsum(self.lengths, dtype=np.int64).tolist()
        ids = self.ids.tolist()
        return [ids[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@dataclass(frozen=True, slots=True)
class _Host:
    """What `_native.Hosted` wants to know of the host."""

    name: str
    dimension: int
    max_tokens: int | None


class Hosted(Caching, Closing):
    """A `Highlighter` whose rows the host encodes. Thread-safe, and a context manager.

    - `model`: the directory of the model, of which only the tokenizer and the small files are read.
    - `dimension`: how long the host's vectors are. Only their direction counts: the host may normalize them or not.
    - `max_tokens`: the longest row that the host takes; `None` is what the model's files say.
    - `max_batch_size`: rows that go out together, at most; `None` is as many as have 4,096 tokens.
    - `threads`, `cache_bytes`: as for `Highlighter`. What was encoded of a page is kept, and not asked for again.

    Raises `ModelNotFoundError`, `InvalidModelError`, `InvalidArgumentError`. After a fork, calls in the child raise `ForkedError`.

    >>> hosted = Hosted(directory, dimension=384)  # doctest: +SKIP
    >>> call = hosted.start("How far is the moon?", [page])
    >>> rows = call.advance()
    >>> while call.result is None:
    ...     batch = rows.pop()
    ...     rows += call.advance([(batch.ticket, encode(batch.split()))])
    """

    def __init__(
        self,
        model: str | Path,
        dimension: int,
        *,
        max_tokens: int | None = None,
        max_batch_size: int | None = None,
        threads: int | Literal["caller"] | None = None,
        cache_bytes: int = CACHE_BYTES,
        name: str = "host",
    ) -> None:
        """Read the tokenizer."""
        numbers = {"dimension": dimension, "max_tokens": max_tokens, "max_batch_size": max_batch_size}
        for argument, value in numbers.items():
            if (value is None and argument == "dimension") or (value is not None and not _is_count(value)):
                message = f"{argument} must be at least 1, not {value!r}"
                raise InvalidArgumentError(message)
        directory = model_directory(model)
        host = _Host(name, dimension, max_tokens)
        workers = thread_count(threads, None)
        loaded = Loaded(
            model=str(directory),
            encoder=host,
            threads=workers,
            cores=None,
            cache_bytes=cache_bytes,
            max_batch_tokens=None,
            max_batch_size=max_batch_size,
            batch_timeout=0.0,
            depth=None,
            device_timeout=None,
            profile=False,
            trace=None,
            name=name,
        )
        self._native: _native.Hosted = _native.Hosted(loaded)
        self.model, self.model_name = directory, directory.resolve().name
        closed_at_exit(self)

    def start(
        self,
        query: str | Sequence[str],
        texts: Iterable[str],
        *,
        depth: int = DEPTH,
        limit_windows: int | None = None,
        limit_tokens: int | None = None,
        **options: Unpack[Options],
    ) -> HostedCall:
        """Begin a call; nothing is done before its first `HostedCall.advance`.

        `query`, `texts` and `options` are those of `Highlighter.highlights`, whose errors are raised at once where they can be
        seen at once. At most `depth` batches are out at a time. Where a call has more windows or tokens than `limit_windows`
        and `limit_tokens` allow, it ends with `LimitExceededError` before they are encoded.
        """
        asked = checked(query, texts, completed(options))
        return HostedCall(asked[1], self._native.start(asked, (limit_windows, limit_tokens), depth))

    def close(self) -> None:
        """End it: calls that are not done, and later ones, raise `ClosedError`. May be called twice."""
        self._native.close()

    def __repr__(self) -> str:
        return f"<Hosted {self.model_name!r}, vectors of {self.dimension} by {self.devices[0]}>"


class HostedCall:
    """A call in progress, for one thread at a time; `result` is None until it is done."""

    def __init__(self, pages: list[str], native: _native.HostedCall) -> None:
        """Made by `Hosted.start`."""
        self._pages = pages
        self._native = native
        self.result: Highlights | None = None

    def advance(self, given: Iterable[tuple[int, ArrayLike]] = ()) -> list[Batch]:
        """Bring the vectors of batches, in any order, and learn what is to be encoded next.

        `given` has of each batch its ticket and its vectors, ``[rows, dimension]``. This is where text is read, tokenized and
        judged, without Python's lock: milliseconds for a page, more for many. Where it returns nothing, the call waits for
        batches that are out, or is done.

        Raises what ended the call, as `Highlighter.highlights` does; `EncoderError` for vectors of another shape, or with NaN.
        """
        out, columns = self._native.advance([(ticket, _matrix(vectors)) for ticket, vectors in given])
        if columns is not None:
            self.result = Highlights(self._pages, columns)
        return [Batch(*batch) for batch in out]

    async def run(
        self, encode: Callable[[Batch], Awaitable[ArrayLike]], executor: Executor | None = None
    ) -> Highlights:
        """Drive the call to its end in an event loop: awaits `encode` for each batch, and reads text in `executor`'s threads.

        If the caller cancels this, or `encode` raises, it cancels the running `encode` tasks, waits for them and stops the call.
        """
        import asyncio  # noqa: PLC0415 - an event loop runs here, so it is imported already

        loop = asyncio.get_running_loop()
        running: dict[asyncio.Future[ArrayLike], int] = {}
        given: list[tuple[int, ArrayLike]] = []
        try:
            while True:
                batches = await loop.run_in_executor(executor, self.advance, given)
                if self.result is not None:
                    return self.result
                running |= {asyncio.ensure_future(encode(batch)): batch.ticket for batch in batches}
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                given = [(running.pop(task), task.result()) for task in done]
        finally:
            self.stop()
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def stop(self) -> None:
        """Stop the call, at any time and from any thread; never waits."""
        self._native.stop()


class Planner:
    """For a host that is asked once: all rows of a call are known before any is encoded, so it is a call of ``effort="full"``.

    The arguments are those of `Hosted`; the length of vectors is seen when they are there. Nothing is kept between calls.

    >>> plan = Planner(directory).plan("How far is the moon?", [page])  # doctest: +SKIP
    >>> plan.finish(encode(plan.rows))[0][0].text
    'The moon is 384,400 km away.'
    """

    def __init__(
        self, model: str | Path, *, max_tokens: int | None = None, threads: int | Literal["caller"] | None = None
    ) -> None:
        """Read the tokenizer."""
        self._made: dict[int, Hosted] = {}
        self._lock = threading.Lock()
        self._model, self._max_tokens, self._threads = model, max_tokens, threads
        self._hosted(1)

    def plan(
        self,
        query: str | Sequence[str],
        texts: Iterable[str],
        *,
        limit_windows: int | None = None,
        limit_tokens: int | None = None,
        **options: Unpack[Options],
    ) -> Plan:
        """Find out what is to be encoded: the text is read, and tokenized, as it will be for the answer.

        Raises as `Highlighter.highlights`, `LimitExceededError` as `Hosted.start`, and `InvalidArgumentError` for another `effort`
        than ``"full"``, which would want to see vectors in between.
        """
        if options.setdefault("effort", "full") != "full":
            message = f'effort must be "full" where everything is encoded at once, not {options["effort"]!r}'
            raise InvalidArgumentError(message)
        pages = texts if isinstance(texts, (str, list)) else list(texts)
        limits = {"limit_windows": limit_windows, "limit_tokens": limit_tokens}

        def start(hosted: Hosted) -> HostedCall:
            return hosted.start(query, pages, depth=NO_BOUND, **limits, **options)

        # With this effort no vector decides what else is looked at, so that any will do to see it all.
        call, seen = start(self._hosted(1)), dict[tuple[int, ...], int]()
        rows = call.advance()
        while call.result is None:
            for batch in rows:
                for ids in batch.split():
                    seen.setdefault(tuple(ids), len(seen))
            rows = call.advance([(batch.ticket, np.zeros((len(batch.lengths), 1), np.float32)) for batch in rows])
        return Plan(seen, lambda dimension: start(self._hosted(dimension)))

    def _hosted(self, dimension: int) -> Hosted:
        with self._lock:
            if dimension not in self._made:
                self._made[dimension] = Hosted(
                    self._model, dimension, max_tokens=self._max_tokens, threads=self._threads, cache_bytes=0
                )
            return self._made[dimension]

    @property
    def max_tokens(self) -> int:
        """The longest row in tokens, special ones included."""
        return self._hosted(1).max_tokens

    def close(self) -> None:
        """End it: later calls raise `ClosedError`."""
        for hosted in self._made.values():
            hosted.close()


class Plan:
    """A call of which all is known but the vectors: `rows` has the ids of each row, no row twice."""

    def __init__(self, places: dict[tuple[int, ...], int], start: Callable[[int], HostedCall]) -> None:
        """Made by `Planner.plan`."""
        self._places = places
        self._start = start

    @property
    def rows(self) -> list[list[int]]:
        """What is to be encoded; never empty, since there is a query."""
        return [list(ids) for ids in self._places]

    def finish(self, vectors: ArrayLike) -> Highlights:
        """Answer the call by the vectors of its `rows`, in their order: ``[len(rows), dimension]``.

        Raises `EncoderError` for vectors of another number, or with NaN; else as `Highlighter.highlights`.
        """
        known = _matrix(vectors)
        if known.shape[0] != len(self._places) or not known.shape[1]:
            message = f"the plan has {len(self._places)} rows, and vectors of shape {list(known.shape)} were brought"
            raise EncoderError(message)
        call = self._start(known.shape[1])
        rows = call.advance()
        while call.result is None:
            rows = call.advance([(batch.ticket, known[self._looked_up(batch)]) for batch in rows])
        return call.result

    def _looked_up(self, batch: Batch) -> list[int]:
        return [self._places[tuple(ids)] for ids in batch.split()]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 1


def _matrix(vectors: ArrayLike) -> NDArray[np.float32]:
    try:
        rows = np.ascontiguousarray(vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        message = f"vectors must be numbers [rows, dimension], not {type(vectors).__name__}: {error}"
        raise EncoderError(message) from error
    if rows.ndim != 2:
        message = f"vectors must have two dimensions, [rows, dimension], not shape {list(rows.shape)}"
        raise EncoderError(message)
    return rows
