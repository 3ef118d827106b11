"""Requests that are answered before their body is read: the connection stays usable, or the answer closes it."""

import socket

import pytest

from support.server_process import ServerProcess

HEAD = "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{more}\r\n"
LIVE = b"GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n"


def answer(connection: socket.socket) -> tuple[int, dict[str, str]]:
    """The next answer's status and headers, with lower-case names."""
    got = b""
    while b"\r\n\r\n" not in got:
        received = connection.recv(1)
        assert received, f"closed after {got!r}"
        got += received
    lines = got.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
    left = int(headers.get("content-length", "0"))
    while left:
        left -= len(connection.recv(left))
    return int(lines[0].split()[1]), headers


def head(path: str, length: int, more: str = "") -> bytes:
    return HEAD.format(path=path, length=length, more=more).encode()


def is_closed(connection: socket.socket) -> bool:
    return connection.recv(1) == b""


@pytest.mark.parametrize("path", ["/nowhere", "/live", "/embed"], ids=["no route", "wrong method", "wrong"])
def test_small_unread_body_is_drained(server: ServerProcess, path: str) -> None:
    with server.connect() as connection:
        for _ in range(3):
            connection.sendall(head(path, 3) + b"xyz" + LIVE)
            status, headers = answer(connection)
            assert status in {400, 404, 405}
            assert "connection" not in headers
            assert answer(connection)[0] == 200


def test_incomplete_unread_body_closes_connection(server: ServerProcess) -> None:
    with server.connect() as connection:
        connection.sendall(head("/nowhere", 3) + b"x")
        status, headers = answer(connection)
        assert (status, headers["connection"]) == (404, "close")
        assert is_closed(connection)


def test_large_unread_body_closes_connection(server: ServerProcess) -> None:
    with server.connect() as connection:
        connection.sendall(head("/nowhere", 10_000_000) + b"x" * 1000)
        status, headers = answer(connection)
        assert (status, headers["connection"]) == (404, "close")


def test_expect_100_continue_is_refused_without_reading(server: ServerProcess) -> None:
    with server.connect() as connection:
        connection.sendall(head("/nowhere", 3, "expect: 100-continue\r\n"))
        status, headers = answer(connection)
        assert (status, headers["connection"]) == (404, "close")


def test_timeout_during_body_closes_connection(server: ServerProcess) -> None:
    with server.connect() as connection:
        connection.sendall(head("/embed", 20, "request-timeout-ms: 50\r\n") + b'{"inputs"')
        status, headers = answer(connection)
        assert (status, headers["connection"]) == (504, "close")
        assert is_closed(connection)


def test_chunked_unread_body_is_drained(server: ServerProcess) -> None:
    start = b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    with server.connect() as connection:
        connection.sendall(start + b"3\r\nabc\r\n0\r\n\r\n" + LIVE)
        assert "connection" not in answer(connection)[1]
        assert answer(connection)[0] == 200
    with server.connect() as connection:
        connection.sendall(start + b"3\r\nabc\r\n")
        assert answer(connection)[1]["connection"] == "close"
        assert is_closed(connection)
