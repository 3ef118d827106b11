"""`EngineConfig`: the arguments of `Highlighter`, and how they become an engine's model, encoder and threads."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from pullquote import _native
from pullquote._models.choice import find_model, load_encoder
from pullquote._models.hub import HubOptions, is_snapshot, repair
from pullquote._models.python_encoder import (
    TEXT_MODEL,
    CustomEncoder,
    HasEncodeIds,
    IdsEncoder,
    TextEncoder,
    TextFunction,
)
from pullquote.errors import InvalidArgumentError, InvalidModelError, InvalidTypeError

__all__ = ["CACHE_BYTES", "EngineConfig", "thread_count"]

# About 5 MB of text with a small model.
CACHE_BYTES = 256 * 1024 * 1024
# Default texts of a batch for a custom encoder.
CUSTOM_BATCH_SIZE = 64
# More threads are no faster, and take cores from the host.
MAX_THREADS = 32


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The arguments of `Highlighter`, which documents them."""

    model: str | Path | None = None
    devices: str | Sequence[str] = "auto"
    dtype: str = "auto"
    threads: int | Literal["caller"] | None = None
    cache_bytes: int = CACHE_BYTES
    _: KW_ONLY
    cores: Iterable[int] | None = None
    encoder: CustomEncoder | Literal["torch"] | None = None
    max_batch_tokens: int | None = None
    max_batch_size: int | None = None
    batch_timeout: float = 0.0
    depth: int | None = None
    device_timeout: float | None = None
    cuda_graphs: Literal["auto", False] = False
    profile: bool = False
    revision: str | None = None
    token: str | None = field(default=None, repr=False)
    cache_dir: str | Path | None = None
    local_files_only: bool = False
    truncate_dim: int | None = None
    prompt_name: str | None = None
    query_prompt: str | None = None
    passage_prompt: str | None = None

    def load(self, *, normalizes: bool = True) -> tuple[EngineConfig, str]:
        """Check the arguments, and load the model. Returns the config that `_native` takes, and the model's name.

        In that config `model` is a `Path`, `encoder` is loaded, `threads` is an int, and `cores` is a list or `None`. Without
        `normalizes`, vectors are returned without the model's final normalization.
        """
        config = replace(self, devices=_device_names(self.devices), dtype=_dtype_name(self.dtype))
        return config._load(normalizes=normalizes)

    def _load(self, *, normalizes: bool) -> tuple[EngineConfig, str]:
        self._check()
        cores = _core_list(self.cores)
        config = replace(
            self, cores=cores, threads=thread_count(self.threads, cores), cache_bytes=min(self.cache_bytes, sys.maxsize)
        )
        if self.encoder is None or isinstance(self.encoder, str):
            return config._load_model(normalizes=normalizes)
        return config._use_custom_encoder(self.encoder)

    def _check(self) -> None:
        for name in ("max_batch_tokens", "max_batch_size", "depth", "truncate_dim"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                message = f"{name} must be at least 1, or None for the default, not {value!r}"
                raise InvalidArgumentError(message)
        for name in ("prompt_name", "query_prompt", "passage_prompt"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                message = f"{name} must be a string or None, not {type(value).__name__}"
                raise InvalidTypeError(message)
        for name in ("profile", "local_files_only"):
            if not isinstance(getattr(self, name), bool):
                message = f"{name} must be True or False, not {getattr(self, name)!r}"
                raise InvalidTypeError(message)
        if not isinstance(self.batch_timeout, (int, float)) or not 0 <= self.batch_timeout < float("inf"):
            message = f"batch_timeout must be 0 seconds, for no waiting, or more, not {self.batch_timeout!r}"
            raise InvalidArgumentError(message)
        timeout = self.device_timeout
        if timeout is not None and not (isinstance(timeout, (int, float)) and 0 < timeout < float("inf")):
            message = f"device_timeout must be more than 0 seconds, or None for 10, not {timeout!r}"
            raise InvalidArgumentError(message)
        if self.cuda_graphs is not False and self.cuda_graphs != "auto":
            message = f'cuda_graphs must be "auto", or False for none, not {self.cuda_graphs!r}'
            raise InvalidArgumentError(message)
        if not isinstance(self.cache_bytes, int) or self.cache_bytes < 0:
            message = f"cache_bytes must be 0, for no cache, or more, not {self.cache_bytes!r}"
            raise InvalidArgumentError(message)
        if isinstance(self.encoder, str) and self.encoder != "torch":
            message = f'encoder must be "torch", a function or an object with a method encode, not {self.encoder!r}'
            raise InvalidArgumentError(message)

    def _load_model(self, *, normalizes: bool) -> tuple[EngineConfig, str]:
        from pullquote._models.convert import with_safetensors  # noqa: PLC0415 - it imports json, zipfile and hashes: 5 ms

        found, name = self._find_model()
        directory = with_safetensors(found)
        devices = [self.devices] if isinstance(self.devices, str) else list(self.devices)
        with _pinned_to(cast("list[int] | None", self.cores)):
            is_torch = self.encoder == "torch"
            try:
                encoder = load_encoder(
                    directory,
                    devices,
                    self.dtype,
                    cast(int, self.threads),
                    torch=is_torch,
                    truncate_dim=self.truncate_dim,
                    normalizes=normalizes,
                    cuda_graphs=self.cuda_graphs == "auto",
                    profile=self.profile,
                )
            except InvalidModelError as error:
                if not is_snapshot(found):
                    raise
                message = f"{error}; {repair(name)}"
                raise InvalidModelError(message) from error
        return replace(self, model=directory, encoder=cast(Any, encoder)), name

    def _find_model(self, *, weights: bool = True) -> tuple[Path, str]:
        hub = HubOptions(self.revision, self.token, self.cache_dir, self.local_files_only)
        return find_model(self.model, hub, weights=weights)

    def _use_custom_encoder(self, encoder: CustomEncoder) -> tuple[EngineConfig, str]:
        capsule = getattr(encoder, "__pullquote_encoder__", None)
        is_capsule = type(encoder).__name__ == "PyCapsule"
        takes_ids = is_capsule or callable(capsule) or callable(getattr(encoder, "encode_ids", None))
        is_default = (self.devices, self.dtype, self.truncate_dim) == ("auto", "auto", None)
        if not is_default or (self.model is not None and not takes_ids):
            message = (
                "a custom encoder determines model, devices, dtype and truncate_dim; pass either the encoder or these"
            )
            raise InvalidArgumentError(message)
        if not takes_ids:
            of_texts = TextEncoder(cast(TextFunction, encoder))
            size = self.max_batch_size or CUSTOM_BATCH_SIZE
            return replace(self, model=TEXT_MODEL, encoder=cast(Any, of_texts), max_batch_size=size), of_texts.name
        if self.model is None:
            message = "an encoder of token ids needs a tokenizer; pass its model's directory or name as model"
            raise InvalidArgumentError(message)
        directory, name = self._find_model(weights=False)
        if is_capsule or callable(capsule):
            loaded = capsule() if callable(capsule) else encoder
            return replace(self, model=directory, encoder=cast(Any, loaded)), name
        of_ids = IdsEncoder(cast(HasEncodeIds, encoder))
        return replace(self, model=directory, encoder=cast(Any, of_ids)), of_ids.name


def thread_count(threads: int | Literal["caller"] | None, cores: list[int] | None) -> int:
    """The maximum number of threads; 0 means that a host's steps do all work."""
    if threads == "caller":
        return 0
    if threads is None:
        return min(_native.available_threads(), MAX_THREADS, len(cores) if cores else MAX_THREADS)
    if isinstance(threads, int) and threads >= 1:
        return threads
    message = f"threads must be at least 1, or None for one for each core, not {threads!r}"
    raise InvalidArgumentError(message)


def _device_names(devices: Any) -> str | list[str]:
    """The names of devices, which may be torch's."""
    if isinstance(devices, str):
        return devices
    each = [devices] if type(devices).__module__ == "torch" else devices
    try:
        names = [str(name) if type(name).__module__ == "torch" else name for name in each]
    except TypeError:
        names = [devices]
    for name in names:
        if not isinstance(name, str):
            numbered = f'; a GPU has a name, such as "cuda:{name}"' if isinstance(name, int) else ""
            message = f'devices must be "auto", "cpu", "cuda:0" or a list of such names, not {devices!r}{numbered}'
            raise InvalidTypeError(message)
    return names


def _dtype_name(dtype: Any) -> str:
    """The name of a number type, which may be torch's or numpy's."""
    if isinstance(dtype, str):
        return dtype.removeprefix("torch.")
    if type(dtype).__module__ == "torch":
        return str(dtype).removeprefix("torch.")
    try:
        if dtype is not None:
            return str(np.dtype(dtype))
    except TypeError:
        pass
    message = f'dtype must be "auto", "float32", "bfloat16", "float16" or "int8", not {dtype!r}'
    raise InvalidTypeError(message)


def _core_list(cores: Iterable[int] | None) -> list[int] | None:
    if cores is None:
        return None
    try:
        numbers = sorted({operator.index(core) for core in cores})
    except TypeError:
        numbers = []
    if not numbers or numbers[0] < 0:
        message = f"cores must be a list with at least one core's number, such as [0, 1], not {cores!r}"
        raise InvalidArgumentError(message)
    return numbers


@contextmanager
def _pinned_to(cores: list[int] | None) -> Iterator[None]:
    """Pin this thread, and so the threads that it starts, to these cores."""
    if cores is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cores)
    except OSError:
        here = ", ".join(map(str, sorted(before)))
        message = f"cores={cores}: this process may run on cores {here}, as os.sched_getaffinity(0) says"
        raise InvalidArgumentError(message) from None
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
