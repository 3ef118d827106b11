"""Imports of packages that only an extra of pullquote installs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pullquote.errors import NoEncoderError, PullquoteError

__all__ = ["MissingExtraError", "needs_extra"]


class MissingExtraError(PullquoteError, ModuleNotFoundError):
    """A package that an extra of pullquote installs is missing: an error of this library, and a `ModuleNotFoundError`."""

    exit_code = NoEncoderError.exit_code


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """For imports: a package that is not there raises `MissingExtraError` with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = error.name or ""
        if package.startswith("pullquote"):
            raise
        message = f'pullquote.{extra} needs {package}; run: pip install "pullquote[{extra}]"'
        raise MissingExtraError(message, name=package) from None
