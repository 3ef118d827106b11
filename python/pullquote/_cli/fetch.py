"""Pages of the web on the command line: fetched with the guard and the limits of ``pullquote serve --fetch``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pullquote import _native
from pullquote._cli.settings import settings

if TYPE_CHECKING:
    from pullquote.documents import Document

__all__ = ["is_address", "read_address"]


def is_address(name: str) -> bool:
    """Whether a FILE of the command line is a page of the web."""
    return name.lower().startswith(("http://", "https://"))


def read_address(address: str, options: argparse.Namespace) -> Document:
    """The page at an address; it may be a file that is not text.

    Raises `InvalidArgumentError` for a private address, `NotFoundError`, `UnavailableError`, `DeadlineExceededError`,
    `LimitExceededError` and `InvalidTextError` if the page cannot be fetched, and the errors of `documents.read`.
    """
    from pullquote import documents  # noqa: PLC0415 - few commands need it

    page = _native.fetch(address, settings("server", options))
    if isinstance(page, str):
        return documents.read(page.encode(), format="text", name=address)
    return documents.read(page, name=address)
