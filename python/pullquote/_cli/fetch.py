"""Pages of the web on the command line: fetched with the guard and the limits of ``pullquote serve --fetch``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from pullquote import _native
from pullquote._cli.serve_command import SETTINGS

if TYPE_CHECKING:
    from pullquote.documents import Document

__all__ = ["add_fetch_options", "is_address", "read_address"]

# The server's options that are of a single page, and what they are here; `--fetch` itself is for a server, whose clients name
# the pages.
OPTIONS = {
    "fetch-allow": "a private network to fetch from, such as 10.1.0.0/16; repeatable",
    "fetch-max-bytes": "maximum bytes of a page, decompressed",
    "fetch-redirects": "maximum redirects of a page",
    "fetch-timeout": "seconds for a page",
}


def add_fetch_options(command: argparse.ArgumentParser) -> None:
    """Add the server's options for fetched pages."""
    group = command.add_argument_group("fetched pages")
    for setting in SETTINGS["fetched pages"]:
        if setting.name in OPTIONS:
            replace(setting, help=OPTIONS[setting.name]).add_to(group)


def is_address(name: str) -> bool:
    """Whether a FILE of the command line is a page of the web."""
    return name.lower().startswith(("http://", "https://"))


def read_address(address: str, options: argparse.Namespace) -> Document:
    """The page at an address; it may be a file that is not text.

    Raises `InvalidArgumentError` for a private address, `NotFoundError`, `UnavailableError`, `DeadlineExceededError`,
    `LimitExceededError` and `InvalidTextError` if the page cannot be fetched, and the errors of `documents.read`.
    """
    from pullquote import documents  # noqa: PLC0415 - few commands need it

    page = _native.fetch(
        address,
        options.fetch_allow or [],
        options.fetch_max_bytes,
        options.fetch_redirects,
        options.fetch_timeout,
    )
    if isinstance(page, str):
        return documents.read(page.encode(), format="text", name=address)
    return documents.read(page, name=address)
