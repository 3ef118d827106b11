"""The base of the classes with an engine: its construction, status and end.

An engine that is still open when the interpreter ends is closed there, so that its threads leave Python in time.
"""

from __future__ import annotations

import atexit
import os
import weakref
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, NoReturn, Self

from pullquote._models.engine_config import EngineConfig, LoadedModel
from pullquote._native import CacheState, DeviceState, EngineSettings, StageTime, forget_threads, wait_for_threads
from pullquote._native import EngineHandle as NativeHandle
from pullquote._request.signatures import configured_by
from pullquote.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["EngineHandle", "EngineStatus", "NotCopied", "Prompts", "Pruner"]

# Seconds that the interpreter waits at its end for running functions of encoders.
EXIT_TIMEOUT = 1.5


class Prompts(NamedTuple):
    """Text prepended to queries and passages, and its source: the model's files, pullquote's table of models, or the caller."""

    query: str
    passage: str
    source: str


class Pruner(NamedTuple):
    """A pruner's name, its hash of weights, tokenizer and configuration, its threshold, and the licence that its card names."""

    name: str
    id: str
    threshold: float
    licence: str | None


class NotCopied:
    """An object with threads or connections, of which a copy would have none."""

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Raise `InvalidTypeError`: also for `copy`, which asks here too."""
        message = (
            f"a {type(self).__name__} cannot be copied or pickled; threads share one, and each process makes its own"
        )
        raise InvalidTypeError(message)


class EngineStatus(NotCopied):
    """The status of an engine."""

    _native: NativeHandle

    @property
    def dimension(self) -> int:
        """Values in a vector."""
        return self._native.dimension

    @property
    def model_id(self) -> str | None:
        """A hash of the model's weights, tokenizer and configuration, the same on every machine.

        Vectors of models with different ids do not compare. `None` for a custom encoder, whose weights are unknown. The first
        access may read all weights.
        """
        return self._native.model_id

    @property
    def pruner(self) -> Pruner | None:
        """The pruner; `None` without one."""
        found = self._native.pruner
        if found is None:
            return None
        name, threshold, licence = found
        return Pruner(name, self._native.pruner_id or "", threshold, licence)

    @property
    def reranker_id(self) -> str | None:
        """A hash of the reranker's files, as `model_id`; `None` without one. The first access may read all weights."""
        return self._native.reranker_id

    @property
    def max_tokens(self) -> int:
        """The model's limit for one window, in tokens, special tokens included."""
        return self._native.max_tokens

    @property
    def dtype(self) -> str:
        """The number type that the model computes in, for example ``float16``."""
        return self._native.dtype

    @property
    def backend(self) -> str:
        """The CPU's instruction set, ``torch``, or ``python`` or ``host`` for a custom encoder."""
        return self._native.backend

    @property
    def prompts(self) -> Prompts:
        """The text before queries and passages, and its source."""
        return Prompts(*self._native.prompts)

    @property
    def devices(self) -> list[str]:
        """Names of the devices, for example ``["cuda:0"]``."""
        return self._native.devices

    @property
    def device_states(self) -> list[DeviceState]:
        """The current state of each device."""
        return self._native.device_states

    @property
    def stages(self) -> dict[str, StageTime]:
        """Total time of each stage so far.

        Of calls: ``cut``, ``tokenize``, ``wait`` (for vectors) and ``choose``. Of batches: ``queue`` (until a batch has the
        first row of a call), ``copy_in``, ``launch`` (of a GPU's kernels), ``device_queue`` (after other batches of the device),
        ``compute`` and ``copy_out``.
        """
        return self._native.stages

    @property
    def cache(self) -> CacheState:
        """Size of the cache, and its hits and misses of pages."""
        return self._native.cache

    def clear_cache(self) -> None:
        """Drop all cached pages, their vectors, and those of queries."""
        self._native.clear_cache()


_open: weakref.WeakSet[EngineHandle] = weakref.WeakSet()


class EngineHandle(EngineStatus, ABC):
    """An engine of this process, and a context manager that closes it."""

    model: Path
    model_name: str
    _is_closed = False
    # Whether the encoder does the normalization at the model's end.
    _normalizes = True
    # Whether the host's steps do all work, so that it needs no threads.
    _is_stepped = False

    @configured_by(EngineConfig)
    def __init__(self, config: EngineConfig) -> None:
        """Load the model, which takes about a second for a small one. `Highlighter` documents the arguments."""
        if config.threads == "caller" and not self._is_stepped:
            message = (
                'threads="caller" is for pullquote.engine.Engine, which encodes in its steps; use that, or threads=1'
            )
            raise InvalidArgumentError(message)
        self._open(config.load(normalizes=self._normalizes))

    def _open(self, loaded: LoadedModel) -> None:
        self._native = self._make_native(loaded.settings, loaded.directory, loaded.encoder)
        self.model, self.model_name = loaded.directory, loaded.name
        _open.add(self)

    @abstractmethod
    def _make_native(self, settings: EngineSettings, model: Path, encoder: object) -> NativeHandle: ...

    def close(self) -> None:
        """Stop the devices; calls in flight and later ones raise `ClosedError`. May be called twice."""
        self._is_closed = True
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        place = f"{', '.join(self.devices)} ({self.backend}) in {self.dtype}"
        query, passage, source = self.prompts
        prompts = f", prompts {query!r} and {passage!r} from {source}" if query or passage else ""
        pruner = ""
        if (found := self._native.pruner) is not None:
            name, threshold, licence = found
            pruner = f", pruner {name!r} above {threshold:.2g}, licence {licence or 'unknown'}"
        closed = ", closed" if self._is_closed else ""
        return f"<{type(self).__name__} {self.model_name!r} on {place}{prompts}{pruner}{closed}>"


@atexit.register
def _close_all() -> None:
    for handle in list(_open):
        handle.close()
    # Before Python 3.14, a thread that takes the interpreter's lock after its end aborts the process.
    wait_for_threads(EXIT_TIMEOUT)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_threads)
