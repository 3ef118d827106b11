"""Imports of packages that only an extra of pullquote installs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pullquote.errors import NotInstalledError

__all__ = ["needs_extra"]


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """For imports: a package that is not there raises `NotInstalledError` with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = error.name or ""
        if package.startswith("pullquote"):
            raise
        message = f'pullquote.{extra} needs {package}; run: pip install "pullquote[{extra}]"'
        raise NotInstalledError(message, name=package) from None
