"""Engines that their host drives: `Engine` works in steps, and `Hosted` leaves encoding to the host.

Also the classes that engines report with.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from pullquote._engine.handle import EngineHandle
from pullquote._engine.hosted import Hosted, HostedCall, HostedCite, Plan, Planner
from pullquote._engine.page_files import read_files
from pullquote._native import Batch, CacheState, DeviceState, EngineSettings, FinishedRequest, Progress, StageTime, Work
from pullquote._native import Engine as NativeEngine
from pullquote._request.citation import CiteOptions, check_cite
from pullquote._request.options import Options, Pages, Request, check_request
from pullquote._request.signatures import checked
from pullquote._results.cited import Cited
from pullquote._results.fields import Match
from pullquote._results.highlights import Highlights
from pullquote.errors import InvalidArgumentError, PullquoteError

__all__ = [
    "Batch",
    "CacheState",
    "DeviceState",
    "Engine",
    "Hosted",
    "HostedCall",
    "HostedCite",
    "Match",
    "Plan",
    "Planner",
    "Progress",
    "RequestOutput",
    "StageTime",
    "Work",
]


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """A finished request: its `outputs`, what it `cited`, or its `error`; and how far it got (`progress`)."""

    request_id: str
    outputs: Highlights | None
    error: PullquoteError | None
    progress: Progress
    finished: bool = True
    cited: Cited | None = None
    """Of `Engine.add_cite`."""


class Engine(EngineHandle):
    """An engine that works only inside `step`, with the method names and behaviour of vLLM's ``LLMEngine``.

    Takes the arguments of `Highlighter`. `step` runs one round and returns finished requests, so a host can call it among its
    other work. It starts no threads except a CPU device's workers and those of GPUs. With ``threads="caller"`` a CPU has no
    workers: a step then encodes at most two batches itself.

    >>> engine = Engine(encoder=lambda texts: [[float(len(text)), 1.0] for text in texts], threads="caller")
    >>> engine.add_request("moon", "How far is the moon?", ["Cats sleep. The moon is 384,400 km away."])
    >>> while engine.has_unfinished_requests():
    ...     for output in engine.step():
    ...         print(output.request_id, output.outputs[0][0].text)
    moon The moon is 384,400 km away.
    """

    _native: NativeEngine
    _is_stepped = True

    def _make_native(self, settings: EngineSettings, model: Path, encoder: object) -> NativeEngine:
        # Unfinished requests, from whose texts highlights are cut.
        self._requests: dict[str, Request] = {}
        self._lock = threading.Lock()
        return NativeEngine(settings, model, encoder)

    @checked
    def add_request(
        self,
        request_id: str,
        query: str | Sequence[str],
        texts: Pages,
        options: Options | dict[str, Any] | None = None,
        priority: int = 0,
        timeout: float | None = None,
        *,
        limit_windows: int | None = None,
        limit_tokens: int | None = None,
    ) -> None:
        """Add a request; `step` does its work.

        - `options`: those of `Highlighter.highlights`, by name.
        - `priority`: lower goes first, as in vLLM; equal priorities in order of arrival.
        - `timeout`: seconds until the request ends with `DeadlineExceededError`.
        - `limit_windows`, `limit_tokens`: maximum windows of its pages, and tokens to encode. Beyond them the request ends with
          `LimitExceededError` before it encodes more.

        Raises the errors of `Highlighter.highlights` for bad arguments, and `InvalidArgumentError` if an unfinished request has
        this id. Later errors are in the request's `RequestOutput`.
        """
        options = {**(options or {})}
        if timeout is not None:
            options["timeout"] = timeout
        if priority:
            options["priority"] = priority
        for name, limit in (("limit_windows", limit_windows), ("limit_tokens", limit_tokens)):
            if limit is not None and (not isinstance(limit, int) or limit < 0):
                message = f"{name} must be 0 or more, or None for no limit, not {limit!r}"
                raise InvalidArgumentError(message)
        request = read_files(check_request(query, texts, options))
        with self._adding(request_id, request):
            self._native.add_request(request_id, request, limit_windows, limit_tokens)

    @checked
    def add_cite(self, request_id: str, answer: str, pages: Pages, **options: Unpack[CiteOptions]) -> None:
        """Add a request that finds what supports each sentence of a text; its `RequestOutput` has it as `cited`.

        Arguments are those of `Highlighter.cite`. Raises its errors for bad arguments, and `InvalidArgumentError` if an
        unfinished request has this id.
        """
        call = check_cite(answer, pages, options)
        request = read_files(call.request)
        with self._adding(request_id, request):
            self._native.add_cite(request_id, request, call.ids, call.numbers)

    @contextmanager
    def _adding(self, request_id: str, request: Request) -> Iterator[None]:
        with self._lock:
            if request_id in self._requests:
                message = f"request {request_id!r} is not finished; each unfinished request needs its own id"
                raise InvalidArgumentError(message)
            # Before the native call: another thread's step may finish the request at once.
            self._requests[request_id] = request
            try:
                yield
            except BaseException:
                del self._requests[request_id]
                raise

    def step(self) -> list[RequestOutput]:
        """Run one round: prepare new requests, submit a batch to each device, and return finished requests.

        Returns at once if there is no work, and else when a batch is done, or after 50 ms. Releases Python's lock.
        """
        finished = [(done, self._requests.pop(done.request_id, None)) for done in self._native.step()]
        # A request that is not here was aborted by another thread meanwhile.
        return [_output(done, request) for done, request in finished if request is not None]

    def abort_request(self, request_ids: str | Iterable[str]) -> None:
        """Drop requests; `step` never returns them. Ignores unknown ids."""
        ids = [request_ids] if isinstance(request_ids, str) else list(request_ids)
        self._native.abort(ids)
        for request_id in ids:
            self._requests.pop(request_id, None)

    def has_unfinished_requests(self) -> bool:
        """Whether `step` has work to do."""
        return self._native.unfinished() > 0

    def get_num_unfinished_requests(self) -> int:
        """Count unfinished requests."""
        return self._native.unfinished()

    def close(self) -> None:
        """Stop the devices; the next step ends unfinished requests with `ClosedError`. May be called twice."""
        super().close()


def _output(done: FinishedRequest, request: Request) -> RequestOutput:
    outputs = None if done.columns is None else Highlights(request, done.columns)
    error = done.error if isinstance(done.error, PullquoteError) else None
    cited = None if done.cited is None else Cited.of_json(done.cited)
    return RequestOutput(done.request_id, outputs, error, done.progress, cited=cited)
