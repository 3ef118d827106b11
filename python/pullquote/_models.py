"""Finding a model, and loading the encoder that computes it."""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from types import ModuleType

from pullquote import _native
from pullquote.errors import InvalidArgumentError, InvalidTypeError, ModelNotFoundError, NoEncoderError

__all__ = [
    "EMBEDDED_NAME",
    "EMBEDDED_PACKAGE",
    "INSTALL",
    "INSTALL_TORCH",
    "embedded_model",
    "find_torch_encoder",
    "load_encoder",
    "model_directory",
]

EMBEDDED_NAME = "all-MiniLM-L6-v2"
EMBEDDED_PACKAGE = "pullquote-minilm"
INSTALL = f"pip install {EMBEDDED_PACKAGE}"
INSTALL_TORCH = 'pip install "pullquote[torch]"'
# Weights for the CPU encoder, and the TorchScript module that needs libtorch.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
MODULE = "model.pt"


def embedded_model() -> Path:
    """The directory of all-MiniLM-L6-v2, the model of the package ``pullquote-minilm``.

    Raises `ModelNotFoundError` if that is not installed.
    """
    package = importlib.util.find_spec("pullquote_minilm")
    for location in (package.submodule_search_locations or []) if package else []:
        return Path(location) / "model"
    message = f"no model was named, and the embedded model is not installed; run: {INSTALL}"
    raise ModelNotFoundError(message)


def model_directory(model: str | Path | None) -> Path:
    """The directory of a model; `None` is the embedded one."""
    if model is None:
        return embedded_model()
    if not isinstance(model, (str, Path)):
        message = f"model must be the path of a directory, not {type(model).__name__}"
        raise InvalidTypeError(message)
    return Path(model).expanduser()


def load_encoder(
    directory: Path, devices: list[str], dtype: str, threads: int, *, torch: bool, truncate_dim: int | None = None
) -> object:
    """Load a model: with libtorch for CUDA devices, for TorchScript modules and if `torch` is true, else with the CPU encoder.

    ``["auto"]`` is every CUDA device if ``pullquote-torch`` is installed and finds one, else the CPU. Returns an encoder for
    `_native`.

    Raises `NoEncoderError` if libtorch is needed and not installed, `TorchVersionError` if ``pullquote-torch`` was built for
    another torch, `ModelNotFoundError`, `InvalidModelError`, `UnsupportedModelError`, `DeviceError`.
    """
    has_cuda = any(isinstance(name, str) and name.partition(":")[0] == "cuda" for name in devices)
    is_module = (directory / MODULE).exists() and not any((directory / name).exists() for name in WEIGHTS)
    if torch or has_cuda or is_module or (devices == ["auto"] and _finds_cuda()):
        if truncate_dim is not None:
            message = f'truncate_dim={truncate_dim} needs the CPU encoder; pass devices="cpu", and no encoder'
            raise InvalidArgumentError(message)
        return find_torch_encoder().load(str(directory), devices, dtype, threads)
    return _native.CpuEncoder(str(directory), devices, dtype, threads, truncate_dim)


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
    """Whether ``pullquote-torch`` is installed and finds a CUDA device. Imports torch only if NVIDIA's driver shows a GPU."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in {"", "-1"}:
        return False
    if not any(Path("/dev").glob("nvidia[0-9]*")) and not Path("/dev/dxg").exists():
        return False
    if importlib.util.find_spec("pullquote_torch") is None:
        return False
    return bool(find_torch_encoder().cuda_device_count())
