"""An ASGI application that streams each request to a server on a Unix socket, and its answer back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import quote

import aiohttp
from yarl import URL

from pullquote.errors import UnavailableError

__all__ = ["Proxy", "send_error"]

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

# Headers of one connection, which a proxy must not forward (RFC 9110, 7.6.1).
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
# Ray Serve adds these to each answer, with the same id.
ADDED_BY_RAY = {b"date", b"x-request-id"}
# aiohttp must not add its own.
CLIENT_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class Proxy:
    """The application. Its connections belong to the event loop of its first request."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        """The HTTP session; limits and deadlines are the server's."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(self._socket, limit=0),
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
                skip_auto_headers=CLIENT_HEADERS,
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
                dropped = HOP_BY_HOP | ADDED_BY_RAY
                headers = [(name, value) for name, value in answer.raw_headers if name.lower() not in dropped]
                started = True
                await send({"type": "http.response.start", "status": answer.status, "headers": headers})
                async for part in answer.content.iter_any():
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
        except aiohttp.ClientError as error:
            if started:
                # Raise, so that the truncated answer does not look complete.
                raise
            await send_error(
                send, UnavailableError(f"the connection to the replica's server failed: {error}"), "unavailable"
            )


async def send_error(send: Send, error: Exception, kind: str) -> None:
    """Answer with an error in the server's format."""
    status: int = getattr(error, "http_status", 500)
    details = {"kind": kind, "message": str(error), "retryable": bool(getattr(error, "retryable", False))}
    body = json.dumps({"error": details}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"x-error-kind", kind.encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _address(scope: Message) -> URL:
    """The URL on the server, without Ray Serve's route prefix."""
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
            error = "the client disconnected"
            raise ConnectionResetError(error)
        if part := message.get("body", b""):
            yield part
        if not message.get("more_body", False):
            return
