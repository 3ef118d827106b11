"""Hosts with a model of their own: token ids out, vectors in.

`Hosted` is for a host that encodes when it likes, and advances a call as vectors arrive. `Planner` is for a host that encodes all
rows of a call in one round. Nothing here encodes, and only text of large pages uses threads. `pullquote.vllm` is built on it.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pullquote._engine.handle import EngineHandle
from pullquote._engine.page_files import read_files
from pullquote._models.choice import find_model
from pullquote._models.engine_config import EngineConfig, LoadedModel
from pullquote._models.hub import HubOptions
from pullquote._native import Batch, EngineSettings, HighlightsBody
from pullquote._native import Hosted as NativeHosted
from pullquote._native import HostedCall as NativeCall
from pullquote._request.citation import CiteOptions, check_cite
from pullquote._request.options import Options, Pages, Request, check_request
from pullquote._request.signatures import checked
from pullquote._results.cited import Cited
from pullquote._results.highlights import Highlights
from pullquote.errors import EncoderError, InvalidArgumentError

__all__ = ["Hosted", "HostedCall", "HostedCite", "Plan", "Planner"]

# Batches of a call in flight: while the host encodes one, the next one is ready.
DEPTH = 2
# All batches of a plan are in flight at once.
UNLIMITED_DEPTH = 2**31

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Host:
    """The host's properties, for `_native.Hosted`."""

    name: str
    dimension: int
    max_tokens: int | None


class Hosted(EngineHandle):
    """A `Highlighter` whose host encodes the rows. Thread-safe, and a context manager.

    - `model`: directory or name of the model; only its tokenizer and small files are read, or downloaded. `revision`: branch, tag
      or commit of a named one.
    - `dimension`: values in one of the host's vectors. Vectors need not be normalized.
    - `max_tokens`: the host's limit for a row, in tokens; `None` is the model's.
    - `max_batch_size`: maximum rows of a batch; `None` is as many as have 4,096 tokens.
    - `threads`, `cache_bytes`: as for `Highlighter`. Vectors of cached pages are not requested again.
    - `reranker`, `pruner`: as for `Highlighter`. They run on the CPU, in `threads`; `HostedCall.advance` waits for their scores.

    Raises `ModelNotFoundError`, `InvalidModelError`, `InvalidArgumentError`. After a fork, calls in the child raise `ForkedError`.

    >>> hosted = Hosted(directory, dimension=384)  # doctest: +SKIP
    >>> call = hosted.start("How far is the moon?", [page])
    >>> batches = call.advance()
    >>> while call.result is None:
    ...     batch = batches.pop()
    ...     batches += call.advance([(batch.ticket, encode(batch.split()))])
    """

    _native: NativeHosted

    @checked
    def __init__(
        self,
        model: str | Path,
        dimension: int,
        *,
        max_tokens: int | None = None,
        max_batch_size: int | None = None,
        threads: int | Literal["caller"] | None = None,
        cache_bytes: int = EngineConfig.cache_bytes,
        name: str = "host",
        revision: str | None = None,
        reranker: str | Path | None = None,
        pruner: str | Path | None = None,
    ) -> None:
        """Read the tokenizer."""
        for argument, value in (("dimension", dimension), ("max_tokens", 1 if max_tokens is None else max_tokens)):
            if not isinstance(value, int) or value < 1:
                message = f"{argument} must be at least 1, not {value!r}"
                raise InvalidArgumentError(message)
        config = EngineConfig(
            threads=threads, cache_bytes=cache_bytes, max_batch_size=max_batch_size, reranker=reranker, pruner=pruner
        )
        settings = config.with_pair_models().settings()
        directory, model_name = find_model(model, HubOptions(revision), weights=False)
        self._open(LoadedModel(settings, directory, _Host(name, dimension, max_tokens), model_name))

    def _make_native(self, settings: EngineSettings, model: Path, encoder: object) -> NativeHosted:
        return NativeHosted(settings, model, encoder)

    @checked
    def start(
        self,
        query: str | Sequence[str],
        texts: Pages,
        *,
        depth: int = DEPTH,
        limit_windows: int | None = None,
        limit_tokens: int | None = None,
        **options: Unpack[Options],
    ) -> HostedCall:
        """Create a call; its work begins with the first `HostedCall.advance`.

        `query`, `texts`, `options` and errors are those of `Highlighter.highlights`. At most `depth` batches are in flight. A
        call with more windows or tokens than `limit_windows` or `limit_tokens` ends with `LimitExceededError` before it
        requests them.
        """
        request = read_files(check_request(query, texts, options))
        return HostedCall(request, self._native.start(request, limit_windows, limit_tokens, depth))

    @checked
    def cite(self, answer: str, pages: Pages, *, depth: int = DEPTH, **options: Unpack[CiteOptions]) -> HostedCite:
        """Create a call that finds what supports each sentence of a text; its work begins with the first `HostedCite.advance`.

        Arguments and errors are those of `Highlighter.cite`; at most `depth` batches are in flight.
        """
        call = check_cite(answer, pages, options)
        return HostedCite(
            self._native.start_cite(read_files(call.request), call.ids, call.numbers, depth), Cited.of_json
        )

    def start_body(
        self, body: HighlightsBody, queued: float = 0.0, *, depth: int = DEPTH, limit_windows: int | None = None
    ) -> BodyCall:
        """As `start`, for a body of ``POST /highlights`` that waited `queued` seconds for its turn."""
        return BodyCall(self._native.start_body(body, queued, limit_windows, depth), lambda response: response)

    def __repr__(self) -> str:
        return f"<Hosted {self.model_name!r}, vectors of {self.dimension} by {self.devices[0]}>"


class _DrivenCall(Generic[Result]):
    def __init__(self, native: NativeCall, finish: Callable[[Any], Result]) -> None:
        self._native, self._finish = native, finish
        self.result: Result | None = None

    def advance(self, vectors: Iterable[tuple[int, ArrayLike]] = ()) -> list[Batch]:
        """Take vectors of batches, in any order, and return the next batches to encode.

        `vectors` has the ticket and the vectors ``[rows, dimension]`` of each batch. This cuts, tokenizes and ranks text without
        Python's lock: milliseconds for a page. An empty list means that the call waits for batches in flight, or is done.

        Raises the errors of `Highlighter.highlights`, and `EncoderError` for vectors of a wrong shape or with NaN.
        """
        batches, result = self._native.advance([(ticket, _matrix(rows)) for ticket, rows in vectors])
        if result is not None:
            self.result = self._finish(result)
        return batches

    async def run(self, encode: Callable[[Batch], Awaitable[ArrayLike]], executor: Executor | None = None) -> Result:
        """Drive the call to its end in an event loop: await `encode` for each batch, and read text in `executor`'s threads.

        If this is cancelled, or `encode` raises, it cancels the running `encode` tasks, waits for them, and stops the call.
        """
        import asyncio  # noqa: PLC0415 - an event loop runs here, so it is imported already

        loop = asyncio.get_running_loop()
        running: dict[asyncio.Future[ArrayLike], int] = {}
        vectors: list[tuple[int, ArrayLike]] = []
        try:
            while True:
                batches = await loop.run_in_executor(executor, self.advance, vectors)
                if self.result is not None:
                    return self.result
                running |= {asyncio.ensure_future(encode(batch)): batch.ticket for batch in batches}
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                vectors = [(running.pop(task), task.result()) for task in done]
        finally:
            self.stop()
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def stop(self) -> None:
        """Stop the call, at any time and from any thread; never waits."""
        self._native.stop()


class HostedCall(_DrivenCall[Highlights]):
    """A call in progress, for one thread at a time; `result` is `None` until it is done."""

    def __init__(self, request: Request, native: NativeCall) -> None:
        """Made by `Hosted.start`."""
        super().__init__(native, lambda columns: Highlights(request, columns))


class HostedCite(_DrivenCall[Cited]):
    """A call of `Hosted.cite` in progress, as `HostedCall`."""


class BodyCall(_DrivenCall[bytes]):
    """A call whose `result` is the JSON of a response of ``POST /highlights``."""


class Planner:
    """For a host that encodes all rows of a call in one round, which needs ``effort="full"``.

    Takes the arguments of `Hosted` except `dimension`, which it sees in the vectors. Keeps nothing between calls. A `reranker` or
    a `pruner` reads in `Plan.finish`.

    >>> plan = Planner(directory).plan("How far is the moon?", [page])  # doctest: +SKIP
    >>> plan.finish(encode(plan.rows))[0][0].text
    'The moon is 384,400 km away.'
    """

    @checked
    def __init__(
        self,
        model: str | Path,
        *,
        max_tokens: int | None = None,
        threads: int | Literal["caller"] | None = None,
        revision: str | None = None,
        reranker: str | Path | None = None,
        pruner: str | Path | None = None,
    ) -> None:
        """Read the tokenizer."""
        self._by_dimension: dict[int, Hosted] = {}
        self._lock = threading.Lock()
        self._model, self._max_tokens, self._threads = model, max_tokens, threads
        self._revision = revision
        self._reranker, self._pruner = reranker, pruner
        self._planning = self._make_hosted(1, None, None)

    @checked
    def plan(
        self,
        query: str | Sequence[str],
        texts: Pages,
        *,
        limit_windows: int | None = None,
        limit_tokens: int | None = None,
        **options: Unpack[Options],
    ) -> Plan:
        """Cut and tokenize the text, and return the rows to encode.

        Raises the errors of `Highlighter.highlights`, `LimitExceededError` as `Hosted.start`, and `InvalidArgumentError` for an
        `effort` other than ``"full"``, which would need vectors to select further rows.
        """
        if options.setdefault("effort", "full") != "full":
            message = f'effort must be "full" where everything is encoded at once, not {options["effort"]!r}'
            raise InvalidArgumentError(message)
        pages = texts if isinstance(texts, (str, list, Mapping)) else list(texts)
        limits = {"limit_windows": limit_windows, "limit_tokens": limit_tokens}

        def start(hosted: Hosted) -> HostedCall:
            return hosted.start(query, pages, depth=UNLIMITED_DEPTH, **limits, **options)

        return Plan(self._rows(start), lambda dimension: start(self._hosted(dimension)))

    def plan_body(self, body: HighlightsBody, *, limit_windows: int | None = None) -> BodyPlan:
        """As `plan`, for a body of ``POST /highlights`` with ``effort`` ``"full"``."""

        def start(hosted: Hosted) -> BodyCall:
            return hosted.start_body(body, depth=UNLIMITED_DEPTH, limit_windows=limit_windows)

        return BodyPlan(self._rows(start), lambda dimension: start(self._hosted(dimension)))

    def _rows(self, start: Callable[[Hosted], _DrivenCall[Any]]) -> dict[tuple[int, ...], int]:
        """The index of each distinct row of a call."""
        # With this effort the rows do not depend on vectors, so zeros of one value bring out all of them. `finish` runs the
        # call again, because this run cannot wait for the real vectors: a call needs its queries' before it requests the first
        # window. Their dimension is not known here either.
        call, indices = start(self._planning), dict[tuple[int, ...], int]()
        batches = call.advance()
        while call.result is None:
            for batch in batches:
                for ids in batch.split():
                    indices.setdefault(tuple(ids), len(indices))
            zeros = [(batch.ticket, np.zeros((len(batch.lengths), 1), np.float32)) for batch in batches]
            batches = call.advance(zeros)
        return indices

    def _hosted(self, dimension: int) -> Hosted:
        with self._lock:
            if dimension not in self._by_dimension:
                self._by_dimension[dimension] = self._make_hosted(dimension, self._reranker, self._pruner)
            return self._by_dimension[dimension]

    def _make_hosted(self, dimension: int, reranker: str | Path | None, pruner: str | Path | None) -> Hosted:
        return Hosted(
            self._model,
            dimension,
            max_tokens=self._max_tokens,
            threads=self._threads,
            cache_bytes=0,
            revision=self._revision,
            reranker=reranker,
            pruner=pruner,
        )

    @property
    def max_tokens(self) -> int:
        """The limit for a row in tokens, special tokens included."""
        return self._planning.max_tokens

    def close(self) -> None:
        """Close it; later calls raise `ClosedError`."""
        for hosted in (self._planning, *self._by_dimension.values()):
            hosted.close()


class _PlannedCall(Generic[Result]):
    def __init__(self, indices: dict[tuple[int, ...], int], start: Callable[[int], _DrivenCall[Result]]) -> None:
        self._indices = indices
        self._start = start

    @property
    def rows(self) -> list[list[int]]:
        """Token ids of each row to encode; at least the query's."""
        return [list(ids) for ids in self._indices]

    def finish(self, vectors: ArrayLike) -> Result:
        """Answer the call with the vectors of its `rows`, in their order: ``[len(rows), dimension]``.

        Raises `EncoderError` for vectors of a wrong shape or with NaN, and the errors of `Highlighter.highlights`.
        """
        known = _matrix(vectors)
        if known.shape[0] != len(self._indices) or not known.shape[1]:
            message = f"vectors must have shape [{len(self._indices)}, dimension], not {list(known.shape)}"
            raise EncoderError(message)
        call = self._start(known.shape[1])
        batches = call.advance()
        while call.result is None:
            rows = [(batch.ticket, known[[self._indices[tuple(ids)] for ids in batch.split()]]) for batch in batches]
            batches = call.advance(rows)
        return call.result


class Plan(_PlannedCall[Highlights]):
    """A call that needs only vectors: `rows` has the token ids of each distinct row. Made by `Planner.plan`."""


class BodyPlan(_PlannedCall[bytes]):
    """A plan whose `finish` returns the JSON of a response of ``POST /highlights``."""


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
