"""Encoders that people bring: functions from texts, or from token ids, to vectors."""

from __future__ import annotations

import importlib
import inspect
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pullquote.errors import EncoderError, InvalidArgumentError, InvalidTypeError, OutOfMemoryError

if TYPE_CHECKING:
    import asyncio

__all__ = [
    "TEXT_MODEL",
    "Encodes",
    "EncodesIds",
    "IdsEncoder",
    "OffersEncoder",
    "OwnEncoder",
    "TextEncoder",
    "TextFunction",
    "import_encoder",
    "named_encoder",
]

# Its tokens are the bytes of UTF-8, so that the text of a row of ids is known to the byte.
TEXT_MODEL = Path(__file__).parent / "text_model"
PROBE = ["pullquote asks how long a vector is."]


class Encodes(Protocol):
    """What sentence-transformers' models are, and whatever else turns texts into vectors by a method of that name."""

    def encode(self, sentences: list[str], /) -> ArrayLike:
        """Vectors ``[n, dimension]`` of texts."""


class EncodesAwaited(Protocol):
    """The same by a method that is awaited."""

    def encode(self, sentences: list[str], /) -> Awaitable[ArrayLike]:
        """Vectors ``[n, dimension]`` of texts."""


class EncodesIds(Protocol):
    """What turns token ids into vectors; the tokenizer is that of the model's directory."""

    def encode_ids(self, ids: NDArray[np.int32], lengths: NDArray[np.uint32], /) -> ArrayLike | Awaitable[ArrayLike]:
        """Vectors ``[len(lengths), dimension]`` of rows that lie one behind the other in `ids`, without padding."""


class OffersEncoder(Protocol):
    """What offers a table of C functions, as ``pullquote_torch.load`` does (see ``rust/core/src/encoder/abi.rs``)."""

    def __pullquote_encoder__(self) -> object:
        """A ``PyCapsule`` named ``pullquote.encoder``."""


TextFunction: TypeAlias = (
    Callable[[list[str]], ArrayLike] | Callable[[list[str]], Awaitable[ArrayLike]] | Encodes | EncodesAwaited
)
OwnEncoder: TypeAlias = TextFunction | EncodesIds | OffersEncoder


class _Checked:
    """A function whose vectors are checked; one that is awaited has an event loop of its own for that, in a thread."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function = function
        self._loop: asyncio.AbstractEventLoop | None = None
        self.name = name
        self.dimension = 0

    def _rows(self, count: int, *asked: Any) -> NDArray[np.float32]:
        try:
            returned = self._function(*asked)
            if inspect.isawaitable(returned):
                returned = self._await(returned)
        except Exception as error:
            message = f"the encoder {self.name} raised {type(error).__name__}: {error}"
            # torch's own is a RuntimeError, and torch need not be there to ask.
            is_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
            raise (OutOfMemoryError if is_memory else EncoderError)(message) from error
        try:
            rows = np.ascontiguousarray(returned, dtype=np.float32)
        except (TypeError, ValueError) as error:
            message = (
                f"the encoder {self.name} returned {type(returned).__name__}, which is no array of numbers: {error}"
            )
            raise EncoderError(message) from error
        fits = rows.ndim == 2 and rows.shape[0] == count and rows.shape[1] in {self.dimension or rows.shape[1]} - {0}
        if not fits:
            shape, expected = list(rows.shape), f"[{count}, {self.dimension or 'dimension'}]"
            message = f"the encoder {self.name} returned shape {shape} for {count} texts; expected {expected}"
            raise EncoderError(message)
        return rows

    def _await(self, awaited: Awaitable[ArrayLike]) -> ArrayLike:
        import asyncio  # noqa: PLC0415 - few functions are awaited, and it takes long to import

        async def result() -> ArrayLike:
            return await awaited

        if self._loop is None:
            self._loop = loop = asyncio.new_event_loop()
            threading.Thread(target=_run_loop, args=(loop,), name="pullquote-await", daemon=True).start()
            weakref.finalize(self, loop.call_soon_threadsafe, loop.stop).atexit = False
        return asyncio.run_coroutine_threadsafe(result(), self._loop).result()


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


class TextEncoder(_Checked):
    """A function from texts to vectors, checked at each call.

    Raises `InvalidTypeError` for what is no function, `EncoderError` where it fails on a first text or returns no vectors, and
    `OutOfMemoryError` where it raises a `MemoryError` or an ``OutOfMemoryError`` like torch's: then it is asked for less at once.
    """

    takes_ids = False

    def __init__(self, encoder: TextFunction) -> None:
        """Ask for a first vector, to know how long they are."""
        method = getattr(encoder, "encode", None)
        function: Any = method if callable(method) else encoder
        if not callable(function) or isinstance(encoder, type):
            message = (
                "encoder must be a function that takes a list of strings and returns float32 [n, dimension], or an "
                f"object with such a method encode, not {_named(encoder)}"
            )
            raise InvalidTypeError(message)
        super().__init__(function, _named(encoder))
        self.dimension = self(PROBE).shape[1]

    def __call__(self, texts: list[str]) -> NDArray[np.float32]:
        """Vectors, float32 ``[n, dimension]``."""
        return self._rows(len(texts), texts)


class IdsEncoder(_Checked):
    """A function from token ids to vectors, checked at each call; raises as `TextEncoder`."""

    takes_ids = True

    def __init__(self, encoder: EncodesIds) -> None:
        """Ask for a first vector, of the id 0, to know how long they are."""
        super().__init__(encoder.encode_ids, _named(encoder))
        self.dimension = self(np.zeros(1, np.int32), np.ones(1, np.uint32)).shape[1]

    def __call__(self, ids: NDArray[np.int32], lengths: NDArray[np.uint32]) -> NDArray[np.float32]:
        """Vectors, float32 ``[n, dimension]``."""
        return self._rows(len(lengths), ids, lengths)


def named_encoder(name: str | None) -> TextFunction | Literal["torch"] | None:
    """What ``--encoder`` names: nothing, ``torch``, or a function."""
    if name is None or name == "torch":
        return name  # type: ignore[return-value]
    return import_encoder(name)


def import_encoder(name: str) -> TextFunction:
    """The encoder that ``package.module:function`` names; the directory it is asked from counts as a place of modules."""
    module_name, _, attributes = name.partition(":")
    if not module_name or not attributes:
        message = f"an encoder is named like package.module:function, not {name!r}"
        raise InvalidArgumentError(message)
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        message = f"no module {error.name!r} here or where Python looks, so there is no encoder {name!r}"
        raise InvalidArgumentError(message) from None
    for attribute in attributes.split("."):
        try:
            found = getattr(found, attribute)
        except AttributeError:
            message = f"{module_name} has no {attributes!r}, so there is no encoder {name!r}"
            raise InvalidArgumentError(message) from None
    # `TextEncoder` sees whether it is one.
    return cast("TextFunction", found)


def _named(encoder: object) -> str:
    """What people know it as."""
    for owner in (encoder, type(encoder)):
        name = getattr(owner, "__qualname__", None)
        if isinstance(name, str):
            return name
    return repr(encoder)
