"""Loading: from what people say of a model, its devices and its batches to what the core makes an engine of."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, cast

from pullquote import _native
from pullquote._highlights import CacheState
from pullquote._models import EMBEDDED_NAME, load_encoder, model_directory
from pullquote._python_encoder import TEXT_MODEL, EncodesIds, IdsEncoder, OwnEncoder, TextEncoder, TextFunction
from pullquote._trace import StageTime, TraceFile
from pullquote.errors import InvalidArgumentError

__all__ = ["CACHE_BYTES", "Caching", "Described", "DeviceState", "Loaded", "Watched", "load", "thread_count"]

# What a highlighter keeps of the pages it has read, if not told otherwise: about 5 MB of text with a small model.
CACHE_BYTES = 256 * 1024 * 1024
# Texts that an encoder of the caller's gets at once, if not told otherwise.
BATCH_SIZE = 64
# More threads than this bring nothing, and cost the host.
MAX_THREADS = 32


class DeviceState(NamedTuple):
    """One device, as it is now."""

    name: str
    """As people write it: ``cuda:0``."""
    is_working: bool
    """False while it rests because it failed. It is tried again after half a second, then ever later, up to half a minute."""
    depth: int
    """Batches it may have at once."""
    batch_tokens: int
    """Tokens that its batches may have now: fewer than at first where its memory did not suffice."""
    outstanding_tokens: int
    """Tokens that it has and has not given back as vectors."""
    batches: int
    """Batches that came back."""
    tokens: int
    """Their tokens."""
    failures: int
    """Batches that failed here; they were tried elsewhere."""
    out_of_memory: int
    """Batches for which its memory did not suffice; they were tried again in parts."""
    last_error: str | None
    """What the last one of both said."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the core makes an engine of, and what people call it."""

    model: str
    encoder: object
    threads: int
    cores: list[int] | None
    cache_bytes: int
    max_batch_tokens: int | None
    max_batch_size: int | None
    batch_timeout: float
    depth: int | None
    device_timeout: float | None
    profile: bool
    trace: TraceFile | None
    name: str


def load(
    model: str | Path | None,
    devices: str | Sequence[str],
    dtype: str,
    threads: int | Literal["caller"] | None,
    cache_bytes: int,
    *,
    cores: Iterable[int] | None,
    encoder: OwnEncoder | Literal["torch"] | None,
    max_batch_tokens: int | None,
    max_batch_size: int | None,
    batch_timeout: float,
    depth: int | None,
    device_timeout: float | None,
    profile: bool,
    trace: str | Path | None,
) -> Loaded:
    """Check the arguments of `Highlighter`, which says what they mean, and load the model."""
    for argument, limit in (("max_batch_tokens", max_batch_tokens), ("max_batch_size", max_batch_size)):
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            message = f"{argument} must be at least 1, or None for what the devices want, not {limit!r}"
            raise InvalidArgumentError(message)
    if depth is not None and (not isinstance(depth, int) or depth < 1):
        message = f"depth must be at least 1 batch, or None for what the devices want, not {depth!r}"
        raise InvalidArgumentError(message)
    if not isinstance(batch_timeout, (int, float)) or not 0 <= batch_timeout < float("inf"):
        message = f"batch_timeout must be 0 seconds, for no waiting, or more, not {batch_timeout!r}"
        raise InvalidArgumentError(message)
    if device_timeout is not None and not (
        isinstance(device_timeout, (int, float)) and 0 < device_timeout < float("inf")
    ):
        message = f"device_timeout must be more than 0 seconds, or None for 10, not {device_timeout!r}"
        raise InvalidArgumentError(message)
    allowed = _cores(cores)
    workers = thread_count(threads, allowed)
    if not isinstance(cache_bytes, int) or cache_bytes < 0:
        message = f"cache_bytes must be 0, for no cache, or more, not {cache_bytes!r}"
        raise InvalidArgumentError(message)
    made: object
    if encoder is None or isinstance(encoder, str):
        if encoder not in {None, "torch"}:
            message = f'encoder must be "torch", a function or an object with a method encode, not {encoder!r}'
            raise InvalidArgumentError(message)
        directory = model_directory(model)
        names = [devices] if isinstance(devices, str) else list(devices)
        with _staying_on(allowed):
            made = load_encoder(directory, names, dtype, workers, torch=encoder == "torch")
        name = EMBEDDED_NAME if model is None else directory.resolve().name
    else:
        directory, made, name = _own(encoder, model, (devices, dtype))
        if directory == TEXT_MODEL:
            max_batch_size = max_batch_size or BATCH_SIZE
    return Loaded(
        str(directory),
        made,
        workers,
        allowed,
        min(cache_bytes, sys.maxsize),
        max_batch_tokens,
        max_batch_size,
        batch_timeout,
        depth,
        device_timeout,
        bool(profile),
        None if trace is None else TraceFile(trace),
        name,
    )


def _own(encoder: OwnEncoder, model: str | Path | None, rest: tuple[object, object]) -> tuple[Path, object, str]:
    """Which model's tokenizer goes with an encoder of the caller's, the encoder as the core takes it, and its name."""
    capsule = getattr(encoder, "__pullquote_encoder__", None)
    takes_ids = callable(capsule) or callable(getattr(encoder, "encode_ids", None))
    is_capsule = type(encoder).__name__ == "PyCapsule"
    if rest != ("auto", "auto") or (model is not None and not takes_ids and not is_capsule):
        message = "model, devices and dtype are an own encoder's to know; pass either it or these"
        raise InvalidArgumentError(message)
    if not takes_ids and not is_capsule:
        of_texts = TextEncoder(cast(TextFunction, encoder))
        return TEXT_MODEL, of_texts, of_texts.name
    if model is None:
        message = "an encoder of token ids needs the tokenizer that made them; pass the directory of its model as model"
        raise InvalidArgumentError(message)
    directory = model_directory(model)
    if is_capsule or callable(capsule):
        return directory, capsule() if callable(capsule) else encoder, directory.resolve().name
    of_ids = IdsEncoder(cast(EncodesIds, encoder))
    return directory, of_ids, of_ids.name


def thread_count(threads: int | Literal["caller"] | None, cores: list[int] | None) -> int:
    """How many threads there may be; 0 leaves everything to the caller's."""
    if threads == "caller":
        return 0
    if threads is None:
        return min(_native.available_threads(), MAX_THREADS, len(cores) if cores else MAX_THREADS)
    if isinstance(threads, int) and threads >= 1:
        return threads
    message = f'threads must be at least 1, "caller", or None for as many as there are cores, not {threads!r}'
    raise InvalidArgumentError(message)


def _cores(cores: Iterable[int] | None) -> list[int] | None:
    if cores is None:
        return None
    try:
        named = sorted({operator.index(core) for core in cores})
    except TypeError:
        named = []
    if not named or named[0] < 0:
        message = f"cores must name at least one core by its number, as os.sched_getaffinity(0) does, not {cores!r}"
        raise InvalidArgumentError(message)
    return named


@contextmanager
def _staying_on(cores: list[int] | None) -> Iterator[None]:
    """Threads that are started here stay on these cores."""
    if cores is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        message = f"threads cannot run on cores {cores}: {error}"
        raise InvalidArgumentError(message) from None
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Described:
    """What is known of a model that was loaded."""

    _native: _native.Opened

    @property
    def dimension(self) -> int:
        """Values in a vector."""
        return self._native.dimension

    @property
    def max_tokens(self) -> int:
        """The longest window in tokens, special ones included."""
        return self._native.max_tokens

    @property
    def dtype(self) -> str:
        """The type the model computes in."""
        return self._native.dtype

    def _placed(self) -> str:
        return f"{', '.join(self.devices)} ({self.backend}) in {self.dtype}"

    @property
    def backend(self) -> str:
        """What computes: an instruction set of the processor, ``torch``, or the caller's own encoder (``python``, ``host``)."""
        return self._native.backend

    @property
    def devices(self) -> list[str]:
        """The devices, as people write them."""
        return self._native.devices


class Caching(Described):
    """What is kept of the pages that were read."""

    @property
    def cache(self) -> CacheState:
        """How full the cache of pages is, and how often it helped."""
        return CacheState(*self._native.cache())

    def clear_cache(self) -> None:
        """Let go of all pages that are kept; for instance where they must not stay in memory."""
        self._native.clear_cache()


class Watched(Described):
    """What is known of an engine whose devices compute."""

    _trace: TraceFile | None = None

    @property
    def device_states(self) -> list[DeviceState]:
        """What each device does, and whether it works."""
        return [DeviceState(*state) for state in self._native.device_states()]

    @property
    def stages(self) -> dict[str, StageTime]:
        """Where time went so far, by stage.

        Of calls: ``cut``, ``tokenize``, ``wait`` (for vectors) and ``choose``. Of batches: ``queue`` (until the first row of a
        call's job is in one), ``copy_in``, ``device_queue`` (after others on the same device), ``compute`` and ``copy_out``.
        """
        return {name: StageTime(seconds, count) for name, seconds, count in self._native.stages()}

    def _write_trace(self) -> None:
        if self._trace is not None:
            self._trace.write(self._native)
