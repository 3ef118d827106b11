"""An ASGI application that hands every request on to a server on a Unix socket, and its answer back, as they come."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import quote

import aiohttp
from yarl import URL

from pullquote.errors import UnavailableError

__all__ = ["Forwarding", "refuse"]

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

# Of one connection, and not of what it carries (RFC 9110, 7.6.1).
HOP_BY_HOP = {
    b"connection",
    b"expect",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}
# Ray Serve says these of each answer by itself, with the same id.
SAID_ALREADY = {b"date", b"x-request-id"}
NOT_OURS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class Forwarding:
    """The application; its connections are those of the event loop that first asks."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        """What connects to the server. Bounds and deadlines are the server's."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(self._socket, limit=0),
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
                skip_auto_headers=NOT_OURS,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        started = False
        try:
            async with self.session().request(
                scope["method"],
                _address(scope),
                headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in _end_to_end(scope)],
                data=_body(receive) if _has_body(scope) else None,
                allow_redirects=False,
            ) as answer:
                left_out = HOP_BY_HOP | SAID_ALREADY
                headers = [(name, value) for name, value in answer.raw_headers if name.lower() not in left_out]
                started = True
                await send({"type": "http.response.start", "status": answer.status, "headers": headers})
                async for part in answer.content.iter_any():
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
        except aiohttp.ClientError as error:
            if started:
                # What came so far must not look whole.
                raise
            await refuse(send, UnavailableError(f"the replica's server broke off: {error}"), "unavailable")


async def refuse(send: Send, error: Exception, kind: str) -> None:
    """Answer with an error in the server's form."""
    status: int = getattr(error, "http_status", 500)
    said = {"kind": kind, "message": str(error), "retryable": bool(getattr(error, "retryable", False))}
    body = json.dumps({"error": said}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"x-error-kind", kind.encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _address(scope: Message) -> URL:
    """As the server knows it, without what stands before it in Ray Serve's."""
    path = scope.get("raw_path") or quote(scope["path"]).encode()
    path = path.decode("ascii").removeprefix(scope.get("root_path", "").rstrip("/")) or "/"
    query = scope.get("query_string", b"").decode("latin-1")
    return URL.build(scheme="http", host="localhost", path=path, query_string=query, encoded=True)


def _end_to_end(scope: Message) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in scope["headers"] if name.lower() not in HOP_BY_HOP]


def _has_body(scope: Message) -> bool:
    return any(name.lower() in {b"content-length", b"transfer-encoding"} for name, _ in scope["headers"])


async def _body(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            error = "the client is gone"
            raise ConnectionResetError(error)
        if part := message.get("body", b""):
            yield part
        if not message.get("more_body", False):
            return
