"""Requests whose pages are documents or files. Only those import `documents`."""

from __future__ import annotations

import asyncio

from pullquote._request.options import Request, is_file

__all__ = ["read_files", "read_files_off_loop"]


def read_files(request: Request) -> Request:
    """The request with the texts of its documents and files. Raises the errors of `documents.read`."""
    if all(isinstance(page, str) for page in request.texts):
        return request
    from pullquote.documents import read_request  # noqa: PLC0415 - few calls need it

    return read_request(request)


async def read_files_off_loop(request: Request) -> Request:
    """The same, while the event loop goes on."""
    if any(is_file(page) for page in request.texts):
        return await asyncio.to_thread(read_files, request)
    return request
