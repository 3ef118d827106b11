"""The step `Engine`: a host that drives the work itself, on its own thread."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from pullquote import _native
from pullquote._closing import Closing
from pullquote._highlighter import closed_at_exit, completed
from pullquote._highlights import CacheState, Highlights, Match, Work
from pullquote._hosted import Batch, Hosted, HostedCall, Plan, Planner
from pullquote._loading import CACHE_BYTES, DeviceState, Watched, load
from pullquote._options import Options, checked
from pullquote._python_encoder import OwnEncoder
from pullquote._trace import StageTime
from pullquote.errors import InvalidArgumentError, PullquoteError

__all__ = [
    "Batch",
    "CacheState",
    "DeviceState",
    "Engine",
    "Hosted",
    "HostedCall",
    "Match",
    "Plan",
    "Planner",
    "Progress",
    "RequestOutput",
    "StageTime",
    "Work",
]


class Progress(NamedTuple):
    """How much of a request was done, whatever came of it."""

    windows: int
    """Pieces that its pages were cut into."""
    rows: int
    """Rows that came back from the devices: windows, queries and titles."""
    tokens: int
    """Their tokens."""


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """How a request ended: `outputs` or `error`, and its `progress`. Only finished requests have one."""

    request_id: str
    outputs: Highlights | None
    error: PullquoteError | None
    progress: Progress
    finished: bool = True


class Engine(Watched, Closing):
    """An engine that works only while it is asked to, named and behaving as vLLM's ``LLMEngine``.

    The arguments are those of `Highlighter`. Nothing here waits for long: `step` does a round and returns what is finished, so
    a host can have it among its other work. It starts no thread but a CPU device's workers; with ``threads="caller"`` none
    at all: a step computes then itself, two batches at most.

    >>> engine = Engine(encoder=lambda texts: [[float(len(text)), 1.0] for text in texts], threads="caller")
    >>> engine.add_request("moon", "How far is the moon?", ["Cats sleep. The moon is 384,400 km away."])
    >>> while engine.has_unfinished_requests():
    ...     for output in engine.step():
    ...         print(output.request_id, output.outputs[0][0].text)
    moon The moon is 384,400 km away.
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
    ) -> None:
        """Load the model, as `Highlighter` does."""
        loaded = load(
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
        self._native: _native.Engine = _native.Engine(loaded)
        self.model, self.model_name, self._trace = Path(loaded.model), loaded.name, loaded.trace
        # The texts of unfinished requests, which highlights are cut from.
        self._pages: dict[str, list[str]] = {}
        self._lock = threading.Lock()
        closed_at_exit(self)

    def add_request(
        self,
        request_id: str,
        query: str | Sequence[str],
        texts: Iterable[str],
        options: Options | dict[str, Any] | None = None,
        priority: int = 0,
        timeout: float | None = None,
        *,
        limit_windows: int | None = None,
        limit_tokens: int | None = None,
    ) -> None:
        """Take a request in; the work is done by `step`.

        - `options`: those of `Highlighter.highlights`, by name.
        - `priority`: lower goes first, as in vLLM; among equals the one that came first.
        - `timeout`: in seconds from now; then the request ends with `DeadlineExceededError`.
        - `limit_windows`, `limit_tokens`: how many windows its pages may have and how many tokens may be encoded for it; it ends
          with `LimitExceededError` before more is encoded.

        Raises what is wrong with the request at once, as `Highlighter.highlights` does, and `InvalidArgumentError` where a
        request of this name is unfinished. What happens later is in its `RequestOutput`.
        """
        full = completed(cast(Options, options or {}))
        if timeout is not None:
            full["timeout"] = timeout
        if priority:
            full["priority"] = priority
        for name, limit in (("limit_windows", limit_windows), ("limit_tokens", limit_tokens)):
            if limit is not None and (not isinstance(limit, int) or limit < 0):
                message = f"{name} must be 0 or more, or None for no limit, not {limit!r}"
                raise InvalidArgumentError(message)
        asked = checked(query, texts, full)
        with self._lock:
            if request_id in self._pages:
                message = f"request {request_id!r} is not finished; give each unfinished request a name of its own"
                raise InvalidArgumentError(message)
            # Before it is taken in: another thread's step may end it at once.
            self._pages[request_id] = asked[1]
            try:
                self._native.add_request(request_id, asked, (limit_windows, limit_tokens))
            except BaseException:
                del self._pages[request_id]
                raise

    def step(self) -> list[RequestOutput]:
        """One round: prepares what is new, gives each device a batch, and returns what is finished.

        Returns at once where there is nothing to do, and else when a batch is done, or after 50 ms. Python's lock is free.
        """
        ended = [(one, self._pages.pop(one[0], None)) for one in self._native.step()]
        # What has no pages was aborted by another thread meanwhile.
        return [self._output(pages, *one) for one, pages in ended if pages is not None]

    @staticmethod
    def _output(
        pages: list[str],
        request_id: str,
        columns: dict[str, Any] | None,
        error: BaseException | None,
        done: tuple[int, int, int],
    ) -> RequestOutput:
        outputs = None if columns is None else Highlights(pages, columns)
        failed = error if isinstance(error, PullquoteError) else None
        return RequestOutput(request_id, outputs, failed, Progress(*done))

    def abort_request(self, request_ids: str | Iterable[str]) -> None:
        """Let go of requests, whatever of them is done: nothing is heard of them again. Unknown names are nothing."""
        names = [request_ids] if isinstance(request_ids, str) else list(request_ids)
        self._native.abort(names)
        for name in names:
            self._pages.pop(name, None)

    def has_unfinished_requests(self) -> bool:
        """Whether there is anything to step for."""
        return self._native.unfinished() > 0

    def get_num_unfinished_requests(self) -> int:
        """How many requests have not ended."""
        return self._native.unfinished()

    def close(self) -> None:
        """Stop the devices; unfinished requests end with `ClosedError` at the next step. May be called twice."""
        self._native.close()
        self._write_trace()

    def __repr__(self) -> str:
        return f"<Engine {self.model_name!r} on {self._placed()}>"
