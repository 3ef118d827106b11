"""Converting ``pytorch_model.bin`` to safetensors, once. Only files of before torch 1.6, which are not ZIP files, need torch."""

from __future__ import annotations

import errno
import hashlib
import importlib
import json
import math
import os
import pickle
import tempfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from pullquote.errors import InvalidModelError, ModelNotFoundError

__all__ = ["with_safetensors"]

PICKLED = "pytorch_model.bin"
PICKLED_INDEX = "pytorch_model.bin.index.json"
DESCRIPTIONS = ("config.json", "modules.json")
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "model.pt")
# The classes of torch's storages: the type in safetensors, and the bytes of a number.
STORAGES = {
    "DoubleStorage": ("F64", 8),
    "FloatStorage": ("F32", 4),
    "HalfStorage": ("F16", 2),
    "BFloat16Storage": ("BF16", 2),
    "LongStorage": ("I64", 8),
    "IntStorage": ("I32", 4),
    "ShortStorage": ("I16", 2),
    "CharStorage": ("I8", 1),
    "ByteStorage": ("U8", 1),
    "BoolStorage": ("BOOL", 1),
}
CHUNK = 1 << 20
# What the disk may say about new files; other errors are the pickle's.
DISK = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS}


def with_safetensors(directory: Path) -> Path:
    """The directory itself if no module of the model has pickled weights only, else one where they are in safetensors.

    The converted weights are kept under ``$XDG_CACHE_HOME/pullquote/converted`` (``~/.cache`` by default), next to links to the
    model's other files. No code of a pickle runs: only tensors are read from it.

    Raises `ModelNotFoundError` if the weights are in torch's old format and torch or safetensors is not installed, or the disk is
    full; `InvalidModelError` if they cannot be read.
    """
    # The directory may contain unrelated files, so this reads only the model and its modules. A folder of a
    # backend, as ``onnx``, has no configuration.
    folders = [directory, *directory.glob("*/")] if any((directory / name).exists() for name in DESCRIPTIONS) else []
    pickled = [
        path
        for folder in folders
        if (folder == directory or (folder / "config.json").exists())
        and not any((folder / name).exists() for name in WEIGHTS)
        and (path := next((folder / name for name in (PICKLED, PICKLED_INDEX) if (folder / name).exists()), None))
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
        try:
            _fill(converted, directory, pickled)
        except ModelNotFoundError:
            raise
        except OSError as error:
            message = f"{pickled[0]} cannot be converted to safetensors in {cache}: {error}; XDG_CACHE_HOME sets another folder"
            raise ModelNotFoundError(message) from error
    return converted


def _fill(converted: Path, directory: Path, pickled: list[Path]) -> None:
    """Convert into a temporary folder, which gets its name when all is there."""
    cache, name = converted.parent, converted.name
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


def _link(directory: Path, made: Path) -> None:
    for path in (*directory.glob("*"), *directory.glob("*/*")):
        target = made / path.relative_to(directory)
        if not path.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(path.resolve())


def _convert(path: Path, target: Path) -> None:
    try:
        files = _shards(path)
        if all(_is_zip(file) for file in files):
            _write(files, target)
        else:
            _convert_with_torch(files, target)
    except ModelNotFoundError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in DISK:
            raise
        message = f"{path} cannot be converted to safetensors: {error}"
        raise InvalidModelError(message) from error


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def _shards(path: Path) -> list[Path]:
    if path.name != PICKLED_INDEX:
        return [path]
    names = sorted(set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()))
    if outside := [name for name in names if Path(name).name != name]:
        message = f"weight_map names {outside[0]!r}, which is outside the directory"
        raise ValueError(message)
    return [path.with_name(name) for name in names]


def _convert_with_torch(files: list[Path], target: Path) -> None:
    try:
        torch: Any = importlib.import_module("torch")
        safetensors: Any = importlib.import_module("safetensors.torch")
    except ModuleNotFoundError as error:
        message = (
            f"the model has its weights in {files[0]}, in torch's format of before version 1.6, and converting it needs torch and "
            f"safetensors, but there is no module named {error.name!r}; run: pip install torch safetensors, or choose a revision "
            "with model.safetensors"
        )
        raise ModelNotFoundError(message) from None
    tensors = {}
    for file in files:
        # weights_only: no code of the pickle runs.
        tensors.update(torch.load(file, map_location="cpu", weights_only=True))
    # Tensors that share memory are written twice: safetensors refuses them.
    safetensors.save_file({name: tensor.clone().contiguous() for name, tensor in tensors.items()}, target)


class _Tensor(NamedTuple):
    """A tensor in a storage; offset and strides count numbers, not bytes."""

    file: int
    dtype: str
    size: int
    key: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.size

    @property
    def is_contiguous(self) -> bool:
        expected = 1
        for length, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if length != 1 and stride != expected:
                return False
            expected *= length
        return True


class _TensorUnpickler(pickle.Unpickler):
    """Reads the tensors of a ``data.pkl``, and refuses everything else: the names that it knows are not looked up in any module."""

    def __init__(self, content: IO[bytes], file: int) -> None:
        super().__init__(content)
        self._file = file

    def find_class(self, module: str, name: str) -> Any:
        known: dict[tuple[str, str], Callable[..., Any]] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): self._rebuild,
            ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
        }
        if module == "torch" and name in STORAGES:
            return name
        if (module, name) in known:
            return known[module, name]
        message = f"it has more than tensors: {module}.{name}"
        raise pickle.UnpicklingError(message)

    def persistent_load(self, pid: Any) -> Any:
        _, storage, key, _, _ = pid
        return (*STORAGES[storage], str(key))

    def _rebuild(self, storage: Any, offset: int, shape: Any, strides: Any, *_: Any) -> _Tensor:
        dtype, size, key = storage
        tensor = _Tensor(self._file, dtype, size, key, offset, tuple(shape), tuple(strides))
        if not all(isinstance(value, int) and value >= 0 for value in (offset, *tensor.shape, *tensor.strides)):
            message = f"a tensor has the shape {shape} and the strides {strides}"
            raise pickle.UnpicklingError(message)
        return tensor


def _write(files: list[Path], target: Path) -> None:
    """Write the tensors of ZIP files as safetensors: the length of a JSON header, the header, and the numbers."""
    archives = [zipfile.ZipFile(file) for file in files]
    try:
        folders = [_folder(archive) for archive in archives]
        tensors: dict[str, _Tensor] = {}
        for index, (archive, folder) in enumerate(zip(archives, folders, strict=True)):
            with archive.open(f"{folder}data.pkl") as content:
                found = _TensorUnpickler(content, index).load()
            tensors |= {str(name): value for name, value in found.items() if isinstance(value, _Tensor)}
        header, end = {}, 0
        for name, tensor in tensors.items():
            header[name] = {
                "dtype": tensor.dtype,
                "shape": tensor.shape,
                "data_offsets": [end, end := end + tensor.bytes],
            }
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with target.open("wb") as output:
            output.write(len(text).to_bytes(8, "little") + text)
            for tensor in tensors.values():
                with archives[tensor.file].open(f"{folders[tensor.file]}data/{tensor.key}") as storage:
                    _copy(storage, tensor, output)
    finally:
        for archive in archives:
            archive.close()


def _folder(archive: zipfile.ZipFile) -> str:
    """The folder in which everything is, with a slash."""
    names = [name for name in archive.namelist() if name.endswith("data.pkl")]
    if len(names) != 1:
        message = f"{len(names)} files in it are called data.pkl, expected 1"
        raise ValueError(message)
    folder = names[0].removesuffix("data.pkl")
    if f"{folder}byteorder" in archive.namelist() and archive.read(f"{folder}byteorder") != b"little":
        message = "its numbers are big-endian"
        raise ValueError(message)
    return folder


def _copy(storage: IO[bytes], tensor: _Tensor, output: IO[bytes]) -> None:
    if tensor.is_contiguous:
        storage.seek(tensor.offset * tensor.size)
        left = tensor.bytes
        while left and (chunk := storage.read(min(left, CHUNK))):
            output.write(chunk)
            left -= len(chunk)
        if left:
            message = f"the storage {tensor.key} is {left} bytes too short"
            raise ValueError(message)
        return
    numbers = np.frombuffer(storage.read(), f"V{tensor.size}")
    last = tensor.offset + sum(
        (length - 1) * stride for length, stride in zip(tensor.shape, tensor.strides, strict=True)
    )
    if last >= len(numbers):
        message = f"the storage {tensor.key} is too short"
        raise ValueError(message)
    strides = [stride * tensor.size for stride in tensor.strides]
    view = np.lib.stride_tricks.as_strided(numbers[tensor.offset :], tensor.shape, strides, writeable=False)
    output.write(np.ascontiguousarray(view).tobytes())
