"""Converting ``pytorch_model.bin`` to safetensors, once, where torch is installed."""

from __future__ import annotations

import hashlib
import importlib
import os
import tempfile
from pathlib import Path
from typing import Any

from pullquote.errors import InvalidModelError, ModelNotFoundError

__all__ = ["with_safetensors"]

PICKLED = "pytorch_model.bin"
DESCRIPTIONS = ("config.json", "modules.json")
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "model.pt")


def with_safetensors(directory: Path) -> Path:
    """The directory itself if no module of the model has pickled weights only, else one where they are in safetensors.

    The converted weights are kept under ``$XDG_CACHE_HOME/pullquote/converted`` (``~/.cache`` by default), next to links to the
    model's other files. Pickles are read with ``weights_only=True``, which runs no code of theirs.

    Raises `ModelNotFoundError` if the weights are pickled and torch or safetensors is not installed, `InvalidModelError` if they
    cannot be read.
    """
    # The directory may contain unrelated files, so this reads only the model and its modules. A folder of a
    # backend, as ``onnx``, has no configuration.
    folders = [directory, *directory.glob("*/")] if any((directory / name).exists() for name in DESCRIPTIONS) else []
    pickled = [
        folder / PICKLED
        for folder in folders
        if (folder / PICKLED).exists()
        and (folder == directory or (folder / "config.json").exists())
        and not any((folder / name).exists() for name in WEIGHTS)
    ]
    if not pickled:
        return directory
    versions = [f"{path.resolve()} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in sorted(pickled)]
    key = hashlib.sha256("\n".join(versions).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pullquote" / "converted" / key
    # The name of the model is in the path, because its prompts may depend on it.
    name = next((part for part in reversed(directory.parts) if part.startswith("models--")), directory.resolve().name)
    converted = cache / name
    if not converted.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            made = Path(folder) / name
            _link(directory, made)
            for path in pickled:
                _convert(path, made / path.parent.relative_to(directory) / "model.safetensors")
            try:
                made.rename(converted)
            except OSError:
                # Another process was faster.
                if not converted.exists():
                    raise
    return converted


def _link(directory: Path, made: Path) -> None:
    for path in (*directory.glob("*"), *directory.glob("*/*")):
        target = made / path.relative_to(directory)
        if not path.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(path.resolve())


def _convert(path: Path, target: Path) -> None:
    try:
        torch: Any = importlib.import_module("torch")
        safetensors: Any = importlib.import_module("safetensors.torch")
    except ModuleNotFoundError as error:
        message = (
            f"the model has its weights in {path}, a pickle, and converting it needs torch and safetensors, but there is no module "
            f"named {error.name!r}; run: pip install torch safetensors, or choose a revision with model.safetensors"
        )
        raise ModelNotFoundError(message) from None
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
        # Tensors that share memory are written twice: safetensors refuses them.
        safetensors.save_file({name: tensor.clone().contiguous() for name, tensor in tensors.items()}, target)
    except Exception as error:
        message = f"{path} cannot be converted to safetensors: {error}"
        raise InvalidModelError(message) from error
