"""Signatures that several functions share, and errors for calls that do not fit them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar, cast

from pullquote import _native
from pullquote.errors import InternalError, InvalidTypeError, PullquoteError

__all__ = ["Kind", "checked", "configured_by", "described", "did_you_mean", "signed_as", "what_was_meant"]

Kind: TypeAlias = Literal["call", "engine", "server", "client"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Config = TypeVar("_Config")
_Call = TypeVar("_Call", bound=Callable[..., Any])


@functools.cache
def described(kind: Kind) -> list[dict[str, Any]]:
    """The settings of a kind in their order, with type, range, default and meaning: `rust/wire/src/schema.rs` lists the keys."""
    import json  # noqa: PLC0415 - only command lines and errors need it

    return cast("list[dict[str, Any]]", json.loads(_native.settings(kind)))


def did_you_mean(name: str, names: Collection[str]) -> str:
    """``"; did you mean 'top_k'?"`` if one of `names` is similar, or what other libraries call `name`; else ``""``."""
    meant = _native.similar(name, list(names))
    return "" if meant is None else f"; did you mean {meant!r}?"


def checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Raise `InvalidTypeError` for arguments that do not fit the signature, with the name that was probably intended.

    Errors of the library have no frames of its inner functions, which say nothing to a caller.
    """
    signature = inspect.signature(function)

    def check(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        try:
            signature.bind(*arguments, **keywords)
        except TypeError as error:
            name = type(arguments[0]).__name__ if function.__name__ == "__init__" else function.__qualname__
            known = [each.name for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
            if unknown := [keyword for keyword in keywords if keyword not in known]:
                message = (
                    f"{name}(): got an unexpected keyword argument {unknown[0]!r}{what_was_meant(unknown[0], known)}"
                )
            else:
                message = f"{name}(): {error}; call {name}{_without_self(signature)}"
            raise InvalidTypeError(message) from None

    def call(*arguments: _P.args, **keywords: _P.kwargs) -> _R:
        try:
            check(arguments, keywords)
            return function(*arguments, **keywords)
        except PullquoteError as error:
            raise _shortened(error) from error.__cause__

    async def call_async(*arguments: Any, **keywords: Any) -> Any:
        try:
            check(arguments, keywords)
            return await cast("Any", function)(*arguments, **keywords)
        except PullquoteError as error:
            raise _shortened(error) from error.__cause__

    wrapper = call_async if inspect.iscoroutinefunction(function) else call
    return cast("Callable[_P, _R]", functools.wraps(function)(wrapper))


def _shortened(error: PullquoteError) -> PullquoteError:
    """The error without the frames in which it was raised, unless they are what has to be reported."""
    return error if isinstance(error, InternalError) else error.with_traceback(None)


def configured_by(
    config: Callable[_P, _Config],
) -> Callable[[Callable[[Any, _Config], None]], Callable[Concatenate[Any, _P], None]]:
    """Give a constructor the arguments of a dataclass, and call it with an instance of that dataclass."""

    def configure(constructor: Callable[[Any, _Config], None]) -> Callable[Concatenate[Any, _P], None]:
        @functools.wraps(constructor)
        def construct(self: Any, /, *arguments: _P.args, **keywords: _P.kwargs) -> None:
            constructor(self, config(*arguments, **keywords))

        signature = inspect.signature(constructor)
        parameters = [signature.parameters["self"], *inspect.signature(config).parameters.values()]
        construct.__dict__["__signature__"] = signature.replace(parameters=parameters)
        return checked(construct)

    return configure


def what_was_meant(name: str, known: Collection[str]) -> str:
    """The argument that was probably intended by an unknown one: a known one, or one of `Highlighter`."""
    if meant := did_you_mean(name, known):
        return meant
    others = [field["name"] for field in described("engine") if field["name"] not in known]
    field = _native.similar(name, others)
    return "" if field is None else f"; {field} is an argument of Highlighter(...)"


def _without_self(signature: inspect.Signature) -> str:
    """The arguments without a default, and an ellipsis for the others."""
    needed = [each.name for each in signature.parameters.values() if each.default is each.empty and each.name != "self"]
    return f"({', '.join([*needed, '...'])})"


def signed_as(example: Callable[..., Any], *, described_from: str | None = None) -> Callable[[_Call], _Call]:
    """Give a function with ``**options`` the signature of `example`, changed and extended by the function's own parameters.

    With `described_from`, its docstring goes on with that of `example`, from this line on.
    """

    def sign(function: _Call) -> _Call:
        if described_from is not None and function.__doc__ is not None:
            _, line, rest = (inspect.getdoc(example) or "").partition(described_from)
            function.__doc__ = f"{inspect.getdoc(function)}\n\n{line}{rest}"
        signature = inspect.signature(example)
        own = {name: each for name, each in inspect.signature(function).parameters.items() if name != "options"}
        parameters = {**signature.parameters, **own}
        if "self" not in own:
            parameters.pop("self", None)
        function.__dict__["__signature__"] = signature.replace(parameters=[*parameters.values()])
        return function

    return sign
