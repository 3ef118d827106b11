"""Requests whose pages are documents or files. Only those import `documents`."""

from __future__ import annotations

from typing import Any

from pullquote._request.options import Request, is_file

__all__ = ["read_files", "read_files_off_loop", "read_texts"]


def read_files(request: Request) -> Request:
    """The request with the texts of its documents and files. Raises the errors of `documents.read`."""
    if all(isinstance(page, str) for page in request.texts):
        return request
    from pullquote.documents import read_request  # noqa: PLC0415 - few calls need it

    return read_request(request)


def read_texts(pages: list[Any], ids: list[Any] | None) -> tuple[list[Any], list[Any] | None]:
    """The texts of pages, and their ids: those given, else the names of documents and files."""
    if not any(is_file(page) for page in pages):
        return pages, ids
    from pullquote.documents import read_pages  # noqa: PLC0415 - few calls need it

    pages, ids = read_pages(pages, ids)
    return [getattr(page, "text", page) for page in pages], ids


async def read_files_off_loop(request: Request) -> Request:
    """The same, while the event loop goes on."""
    if any(is_file(page) for page in request.texts):
        import asyncio  # noqa: PLC0415 - only calls that are awaited load it

        return await asyncio.to_thread(read_files, request)
    return request
