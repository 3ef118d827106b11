"""Custom encoders: Python functions from texts, or from token ids, to vectors."""

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
    "CustomEncoder",
    "HasAsyncEncode",
    "HasEncode",
    "HasEncodeIds",
    "HasEncoderCapsule",
    "IdsEncoder",
    "TextEncoder",
    "TextFunction",
    "import_encoder",
    "named_encoder",
]

# Its tokens are bytes of UTF-8, so the ids of a row are its text.
TEXT_MODEL = Path(__file__).parent / "text_model"
PROBE = ["a text that shows the dimension"]


class HasEncode(Protocol):
    """An object with ``encode``, for example a sentence-transformers model."""

    def encode(self, sentences: list[str], /) -> ArrayLike:
        """Vectors ``[n, dimension]`` of texts."""


class HasAsyncEncode(Protocol):
    """An object with an ``async`` method ``encode``."""

    def encode(self, sentences: list[str], /) -> Awaitable[ArrayLike]:
        """Vectors ``[n, dimension]`` of texts."""


class HasEncodeIds(Protocol):
    """An object that encodes token ids of the model's tokenizer."""

    def encode_ids(self, ids: NDArray[np.int32], lengths: NDArray[np.uint32], /) -> ArrayLike | Awaitable[ArrayLike]:
        """Vectors ``[len(lengths), dimension]`` of rows that are concatenated in `ids`, without padding."""


class HasEncoderCapsule(Protocol):
    """An object with a table of C functions, like that of ``pullquote_torch.load`` (see ``rust/core/src/encoder/abi.rs``)."""

    def __pullquote_encoder__(self) -> object:
        """A ``PyCapsule`` named ``pullquote.encoder``."""


TextFunction: TypeAlias = (
    Callable[[list[str]], ArrayLike] | Callable[[list[str]], Awaitable[ArrayLike]] | HasEncode | HasAsyncEncode
)
CustomEncoder: TypeAlias = TextFunction | HasEncodeIds | HasEncoderCapsule


class _CheckedFunction:
    """Checks a function's vectors; awaits an ``async`` function in an event loop with its own thread."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function = function
        self._loop: asyncio.AbstractEventLoop | None = None
        self.name = name
        self.dimension = 0

    def _rows(self, count: int, *arguments: Any) -> NDArray[np.float32]:
        try:
            returned = self._function(*arguments)
            if inspect.isawaitable(returned):
                returned = self._await(returned)
        except Exception as error:
            message = f"the encoder {self.name} raised {type(error).__name__}: {error}"
            # torch's own class is a RuntimeError, and torch may not be installed.
            is_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
            raise (OutOfMemoryError if is_memory else EncoderError)(message) from error
        try:
            rows = np.ascontiguousarray(returned, dtype=np.float32)
        except (TypeError, ValueError) as error:
            message = f"the encoder {self.name} returned {type(returned).__name__}, not an array of numbers: {error}"
            raise EncoderError(message) from error
        fits = rows.ndim == 2 and rows.shape[0] == count and rows.shape[1] in {self.dimension or rows.shape[1]} - {0}
        if not fits:
            shape, expected = list(rows.shape), f"[{count}, {self.dimension or 'dimension'}]"
            kind = type(returned).__name__
            message = f"the encoder {self.name} returned {kind} of shape {shape} for {count} texts; expected {expected}"
            raise EncoderError(message)
        return rows

    def _await(self, awaited: Awaitable[ArrayLike]) -> ArrayLike:
        import asyncio  # noqa: PLC0415 - slow to import, and few encoders are async

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


class TextEncoder(_CheckedFunction):
    """A function from texts to vectors, checked at each call.

    Raises `InvalidTypeError` if it is not callable, `EncoderError` if it fails or returns no vectors, and `OutOfMemoryError` if it
    raises a `MemoryError` or torch's ``OutOfMemoryError``: the engine then retries with smaller batches.
    """

    takes_ids = False

    def __init__(self, encoder: TextFunction) -> None:
        """Encode a first text, for the dimension."""
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


class IdsEncoder(_CheckedFunction):
    """A function from token ids to vectors, checked at each call; raises the errors of `TextEncoder`."""

    takes_ids = True

    def __init__(self, encoder: HasEncodeIds) -> None:
        """Encode a first row, of the id 0, for the dimension."""
        super().__init__(encoder.encode_ids, _named(encoder))
        self.dimension = self(np.zeros(1, np.int32), np.ones(1, np.uint32)).shape[1]

    def __call__(self, ids: NDArray[np.int32], lengths: NDArray[np.uint32]) -> NDArray[np.float32]:
        """Vectors, float32 ``[n, dimension]``."""
        return self._rows(len(lengths), ids, lengths)


def named_encoder(name: str | None) -> TextFunction | Literal["torch"] | None:
    """The value of ``--encoder``: `None`, ``torch``, or a function."""
    if name is None or name == "torch":
        return name  # type: ignore[return-value]
    return import_encoder(name)


def import_encoder(name: str) -> TextFunction:
    """Import the encoder ``package.module:function``, also from the working directory."""
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
        message = f"no module named {error.name!r}, so there is no encoder {name!r}"
        raise InvalidArgumentError(message) from None
    for attribute in attributes.split("."):
        try:
            found = getattr(found, attribute)
        except AttributeError:
            message = f"{module_name} has no {attributes!r}, so there is no encoder {name!r}"
            raise InvalidArgumentError(message) from None
    # `TextEncoder` checks it.
    return cast("TextFunction", found)


def _named(encoder: object) -> str:
    """Its name in messages."""
    for owner in (encoder, type(encoder)):
        name = getattr(owner, "__qualname__", None)
        if isinstance(name, str):
            return name
    return repr(encoder)
