"""`EngineConfig`: how the arguments of `Highlighter` become an engine's model, encoder and threads."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np

from pullquote._models.choice import find_model, load_encoder
from pullquote._models.engine_arguments import EngineArguments
from pullquote._models.hub import HubOptions, is_snapshot, repair
from pullquote._models.python_encoder import (
    TEXT_MODEL,
    CustomEncoder,
    HasEncodeIds,
    IdsEncoder,
    TextEncoder,
    TextFunction,
)
from pullquote._native import EngineSettings
from pullquote.errors import InvalidArgumentError, InvalidModelError, InvalidTypeError

__all__ = ["EngineConfig", "LoadedModel"]

# Arguments that name models of pairs of texts, with an example of each.
PAIR_MODELS = {
    "reranker": "cross-encoder/ms-marco-MiniLM-L6-v2",
    "pruner": "hotchpotch/open-provence-reranker-v1",
}
# Default texts of a batch for a custom encoder.
CUSTOM_BATCH_SIZE = 64


class LoadedModel(NamedTuple):
    """What an engine is made of: checked arguments, the model's directory, its loaded encoder, and its name."""

    settings: EngineSettings
    directory: Path
    encoder: object
    name: str


@dataclass(frozen=True)
class EngineConfig(EngineArguments):
    """The arguments of an engine, and how they become its model, encoder and threads."""

    def load(self, *, normalizes: bool = True) -> LoadedModel:
        """Check the arguments, and load the model. Without `normalizes`, vectors are returned without its final normalization."""
        cores = _core_list(self.cores)
        config = replace(self, devices=_device_names(self.devices), dtype=_dtype_name(self.dtype), cores=cores)
        if self.encoder is None or isinstance(self.encoder, str):
            return config._load_model(normalizes=normalizes)
        return config.with_pair_models()._use_custom_encoder(self.encoder)

    def settings(self) -> EngineSettings:
        """The arguments, checked by `_native`. An encoder that is an object goes to it with the model."""
        arguments = {field.name: getattr(self, field.name) for field in fields(EngineArguments)}
        if isinstance(self.cache_bytes, int):
            arguments["cache_bytes"] = min(self.cache_bytes, sys.maxsize)
        if not isinstance(self.encoder, str):
            del arguments["encoder"]
        arguments["devices"] = self._device_list()
        for name in PAIR_MODELS:
            if arguments[name] is not None:
                arguments[name] = str(arguments[name])
        # `find_model` checks it, with better advice.
        del arguments["model"]
        return EngineSettings(arguments)

    def _device_list(self) -> list[str]:
        return [self.devices] if isinstance(self.devices, str) else list(self.devices)

    def _load_model(self, *, normalizes: bool) -> LoadedModel:
        from pullquote._models.convert import with_safetensors  # noqa: PLC0415 - it imports json, zipfile and hashes: 5 ms

        config = self.with_pair_models()
        settings = config.settings()
        found, name = self._find_model()
        directory = with_safetensors(found)
        with _pinned_to(cast("list[int] | None", self.cores)):
            is_torch = self.encoder == "torch"
            try:
                encoder = load_encoder(
                    directory,
                    self._device_list(),
                    self.dtype,
                    settings.threads,
                    torch=is_torch,
                    truncate_dim=self.truncate_dim,
                    normalizes=normalizes,
                    reranker=cast("Path | None", config.reranker),
                    pruner=cast("Path | None", config.pruner),
                    cuda_graphs=self.cuda_graphs == "auto",
                    profile=self.profile,
                )
            except InvalidModelError as error:
                if not is_snapshot(found):
                    raise
                message = f"{error}; {repair(name)}"
                raise InvalidModelError(message) from error
        return LoadedModel(settings, directory, encoder, name)

    def _find_model(self, *, weights: bool = True) -> tuple[Path, str]:
        hub = HubOptions(self.revision, self.token, self.cache_dir, self.local_files_only)
        return find_model(self.model, hub, weights=weights)

    def with_pair_models(self) -> Self:
        """Name the reranker or the pruner by its directory, downloaded if the hub's cache lacks it."""
        if self.reranker is not None and self.pruner is not None:
            message = f"pass either reranker ({self.reranker!s}) or pruner ({self.pruner!s}): each reads the best passages again"
            raise InvalidArgumentError(message)
        find = self._find_pair_model
        return replace(self, reranker=find("reranker"), pruner=find("pruner"))

    def _find_pair_model(self, argument: str) -> Path | None:
        model = getattr(self, argument)
        if model is None:
            return None
        if not isinstance(model, (str, Path)) or model == "":
            message = (
                f"{argument} must be the path of a directory or a name such as {PAIR_MODELS[argument]}, not {model!r}"
            )
            raise InvalidTypeError(message)
        from pullquote._models.convert import with_safetensors  # noqa: PLC0415 - as above

        # The revision is the model's.
        hub = HubOptions(None, self.token, self.cache_dir, self.local_files_only)
        return with_safetensors(find_model(model, hub)[0])

    def _use_custom_encoder(self, encoder: CustomEncoder) -> LoadedModel:
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
            size = CUSTOM_BATCH_SIZE if self.max_batch_size is None else self.max_batch_size
            settings = replace(self, max_batch_size=size).settings()
            of_texts = TextEncoder(cast(TextFunction, encoder))
            return LoadedModel(settings, TEXT_MODEL, of_texts, of_texts.name)
        settings = self.settings()
        if self.model is None:
            message = "an encoder of token ids needs a tokenizer; pass its model's directory or name as model"
            raise InvalidArgumentError(message)
        directory, name = self._find_model(weights=False)
        if is_capsule or callable(capsule):
            return LoadedModel(settings, directory, capsule() if callable(capsule) else encoder, name)
        of_ids = IdsEncoder(cast(HasEncodeIds, encoder))
        return LoadedModel(settings, directory, of_ids, of_ids.name)


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
