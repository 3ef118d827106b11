"""Encoders that people bring: functions from texts to vectors."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pullquote.errors import EncoderError, InvalidArgumentError, InvalidTypeError

__all__ = ["TEXT_MODEL", "Encodes", "TextEncoder", "TextFunction", "import_encoder"]

# Its tokens are the bytes of UTF-8, so that the text of a row of ids is known to the byte.
TEXT_MODEL = Path(__file__).parent / "text_model"
PROBE = ["pullquote asks how long a vector is."]


class Encodes(Protocol):
    """What sentence-transformers' models are, and whatever else turns texts into vectors by a method of that name."""

    def encode(self, sentences: list[str], /) -> ArrayLike:
        """Vectors ``[n, dimension]`` of texts."""


TextFunction: TypeAlias = Callable[[list[str]], ArrayLike] | Encodes


class TextEncoder:
    """A function from texts to vectors, checked at each call.

    Raises `InvalidTypeError` for what is no function, `EncoderError` where it fails on a first text or returns no vectors.
    """

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
        self._function: Callable[[list[str]], ArrayLike] = function
        self.name = _named(encoder)
        self.dimension = 0
        self.dimension = self(PROBE).shape[1]

    def __call__(self, texts: list[str]) -> NDArray[np.float32]:
        """Vectors, float32 ``[n, dimension]``."""
        try:
            returned = self._function(texts)
        except Exception as error:
            message = f"the encoder {self.name} raised {type(error).__name__}: {error}"
            raise EncoderError(message) from error
        try:
            rows = np.ascontiguousarray(returned, dtype=np.float32)
        except (TypeError, ValueError) as error:
            message = (
                f"the encoder {self.name} returned {type(returned).__name__}, which is no array of numbers: {error}"
            )
            raise EncoderError(message) from error
        fits = (
            rows.ndim == 2 and rows.shape[0] == len(texts) and rows.shape[1] in {self.dimension or rows.shape[1]} - {0}
        )
        if not fits:
            shape, expected = list(rows.shape), f"[{len(texts)}, {self.dimension or 'dimension'}]"
            message = f"the encoder {self.name} returned shape {shape} for {len(texts)} texts; expected {expected}"
            raise EncoderError(message)
        return rows


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
