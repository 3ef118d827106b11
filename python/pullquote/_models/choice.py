"""Finding a model, and loading the encoder that computes it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from pathlib import Path
from types import ModuleType

from pullquote import _native
from pullquote._models.hub import (
    DEFAULT_REVISION,
    MODULES,
    HubOptions,
    cache_directory,
    hub_name,
    offline,
    repair,
    snapshot_directory,
)
from pullquote._warnings import warn
from pullquote.errors import (
    InvalidArgumentError,
    InvalidModelError,
    InvalidTypeError,
    ModelNotFoundError,
    NoEncoderError,
    UsageWarning,
)

__all__ = [
    "EMBEDDED_HUB_NAME",
    "EMBEDDED_NAME",
    "EMBEDDED_PACKAGE",
    "INSTALL",
    "INSTALL_TORCH",
    "embedded_model",
    "find_model",
    "find_on_hub",
    "find_torch_encoder",
    "has_embedded_model",
    "load_encoder",
    "model_directory",
]

EMBEDDED_NAME = "all-MiniLM-L6-v2"
EMBEDDED_HUB_NAME = f"sentence-transformers/{EMBEDDED_NAME}"
EMBEDDED_PACKAGE = "pullquote-minilm"
EMBEDDED_MODULE = "pullquote_minilm"
INSTALL = f"pip install {EMBEDDED_PACKAGE}"
INSTALL_TORCH = 'pip install "pullquote[torch]"'
HUB_ADDRESS = re.compile(r"https?://(?:huggingface\.co|hf\.co)/([^/\s]+/[^/\s?#]+)")
# Weights for the CPU encoder, and the TorchScript module that needs libtorch.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
MODULE = "model.pt"


def has_embedded_model() -> bool:
    """Whether the package of the embedded model is installed."""
    return importlib.util.find_spec(EMBEDDED_MODULE) is not None


def embedded_model() -> Path:
    """The directory of all-MiniLM-L6-v2, the model of the package ``pullquote-minilm``.

    Raises `ModelNotFoundError` if that is not installed.
    """
    package = importlib.util.find_spec(EMBEDDED_MODULE)
    for location in (package.submodule_search_locations or []) if package else []:
        return Path(location) / "model"
    message = f"no model was named, and the embedded model is not installed; name one, or run: {INSTALL}"
    raise ModelNotFoundError(message)


def find_model(model: str | Path | None, hub: HubOptions | None = None, *, weights: bool = True) -> tuple[Path, str]:
    """The directory and the name of a model: a directory, a name of the Hugging Face Hub, or the embedded model for `None`.

    A model of the hub is downloaded if its cache lacks it; without `weights`, only its small files.
    Raises `InvalidTypeError`, `InvalidArgumentError`, and the errors of `find_on_hub`.
    """
    hub = hub or HubOptions()
    if model is not None and not isinstance(model, (str, Path)):
        message = f"model must be the path of a directory or a name such as BAAI/bge-small-en-v1.5, not {type(model).__name__}"
        raise InvalidTypeError(message)
    if model == "":
        message = "model is empty; name one, such as BAAI/bge-small-en-v1.5, or leave it out for the embedded model"
        raise InvalidArgumentError(message)
    if isinstance(model, str) and (address := HUB_ADDRESS.match(model)):
        message = f"model must be a name or a directory, not the address {model}; pass {address[1]!r}"
        raise InvalidArgumentError(message)
    name = hub_name(model) if isinstance(model, str) else None
    if name is not None and (
        hub.revision is not None or name.lower() != EMBEDDED_HUB_NAME.lower() or not has_embedded_model()
    ):
        return find_on_hub(name, hub, weights=weights), name
    if hub.revision is not None:
        message = (
            f"revision {hub.revision!r} is for a model of the Hugging Face Hub; {model or EMBEDDED_NAME} is a directory"
        )
        raise InvalidArgumentError(message)
    if model is None or name is not None:
        return embedded_model(), EMBEDDED_NAME
    directory = Path(model).expanduser()
    return directory, directory.resolve().name


def find_on_hub(name: str, options: HubOptions, *, weights: bool = True) -> Path:
    """The directory of a model of the hub, from the cache without the network, or downloaded. `weights` is whether they are needed.

    Raises `ModelNotFoundError` if the cache lacks it and downloads are off, and the errors of `fetch`.
    """
    cache = cache_directory(options.cache_dir)
    try:
        snapshot = _native.find_snapshot(cache, name, options.revision or DEFAULT_REVISION, weights)
    except InvalidModelError as error:
        message = f"{error} (of {name}, in the cache {cache}); {repair(name)}"
        raise InvalidModelError(message) from error
    if snapshot is not None and not snapshot.missing:
        return snapshot_directory(cache, name, snapshot.commit)
    if not (forbids := offline(options)):
        from pullquote._models.hub_download import fetch  # noqa: PLC0415 - a cached model needs none of it

        return fetch(name, options, weights=weights)
    what = f"{name}, revision {options.revision or DEFAULT_REVISION}"
    if snapshot is None:
        message = f"{what} is not in the cache {cache}"
    else:
        message = f"{what} is in the cache {cache} without {', '.join(snapshot.missing)}"
    if snapshot is not None and snapshot.missing == [MODULES]:
        message += (
            ", or with no sign that it has none; without it, tokens are pooled by their mean. If that is right for this model, "
            f"pass its directory: {snapshot_directory(cache, name, snapshot.commit)}. {forbids} forbids downloads"
        )
    else:
        message += f", and {forbids} forbids downloads"
    raise ModelNotFoundError(f"{message}. With a network, run: pullquote models get {name}")


def model_directory(model: str | Path | None) -> Path:
    """The directory of a model, as `find_model` finds it."""
    return find_model(model)[0]


def load_encoder(
    directory: Path,
    devices: list[str],
    dtype: str,
    threads: int,
    *,
    torch: bool,
    truncate_dim: int | None = None,
    normalizes: bool = True,
    reranker: Path | None = None,
    pruner: Path | None = None,
    cuda_graphs: bool = False,
    profile: bool = False,
) -> object:
    """Load a model: with libtorch for CUDA devices, for TorchScript modules and if `torch` is true, else with the CPU encoder.

    ``["auto"]`` is every CUDA device if ``pullquote-torch`` is installed and finds one, else the CPU. Without `normalizes`, the
    vectors are those before the normalization at the model's end. A `reranker` shares devices and number type; a `pruner` does with
    the CPU encoder alone. `cuda_graphs` and `profile` are for CUDA devices.

    Returns an encoder for `_native`.

    Raises `NoEncoderError` if libtorch is needed and not installed, `TorchVersionError` if ``pullquote-torch`` was built for
    another torch, `ModelNotFoundError`, `InvalidModelError`, `UnsupportedModelError`, `DeviceError`.
    """
    has_cuda = any(isinstance(name, str) and name.partition(":")[0] == "cuda" for name in devices)
    is_module = (directory / MODULE).exists() and not any((directory / name).exists() for name in WEIGHTS)
    if torch or has_cuda or is_module or (devices == ["auto"] and _finds_cuda()):
        return find_torch_encoder().load(
            str(directory),
            devices,
            dtype,
            threads,
            truncate_dim=truncate_dim,
            normalizes=normalizes,
            cuda_graphs=cuda_graphs,
            synchronizes=profile,
            **({} if reranker is None else {"reranker": str(reranker)}),
        )
    pairs = [None if path is None else str(path) for path in (reranker, pruner)]
    return _native.CpuEncoder(str(directory), devices, dtype, threads, truncate_dim, normalizes, *pairs)


def find_torch_encoder() -> ModuleType:
    """Import ``pullquote_torch``, and with it torch.

    Raises `NoEncoderError` if it is not installed, `TorchVersionError` if it was built for another torch.
    """
    try:
        return importlib.import_module("pullquote_torch")
    except ModuleNotFoundError as error:
        if error.name not in {"pullquote_torch", "torch"}:
            raise
        message = (
            'CUDA devices, TorchScript modules and encoder="torch" need libtorch, '
            f"but there is no module named {error.name!r}; run: {INSTALL_TORCH}"
        )
        raise NoEncoderError(message) from None


def _finds_cuda() -> bool:
    """Whether ``pullquote-torch`` is installed and finds a CUDA device. Imports torch only if NVIDIA's driver shows a GPU.

    Issues a `UsageWarning` if the driver is too old for torch.
    """
    if os.environ.get("CUDA_VISIBLE_DEVICES") in {"", "-1"}:
        return False
    if not any(Path("/dev").glob("nvidia[0-9]*")) and not Path("/dev/dxg").exists():
        return False
    if importlib.util.find_spec("pullquote_torch") is None:
        return False
    encoder = find_torch_encoder()
    if problem := encoder.driver_problem():
        warn(f"{problem}; the CPU computes the model until then", UsageWarning)
    return bool(encoder.cuda_device_count())
