"""HTTP/2 and Unix sockets, and the limits of connections on them."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hpack
import httpx
import pytest

from support.fake_letter_encoder import DIMENSION
from support.messages import raises
from support.numbers_server import embed_body, numbers_server
from support.server_process import ServerProcess, StartError, letter_server, metric, read_until_closed, wait_for

RAW = "application/octet-stream"


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with numbers_server(tmp_path_factory.mktemp("encoder")) as server:
        yield server


def preface(*frames: bytes) -> bytes:
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"".join(frames)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


SETTINGS = frame(4, 0, 0)
# Bytes of a stream that a server may send before the client allows more.
WINDOW = 65_535


def start_of(method: str, path: str) -> list[tuple[str, str]]:
    """The pseudo-headers of a request."""
    return [(":method", method), (":path", path), (":scheme", "http"), (":authority", "localhost")]


def test_http2_prior_knowledge(server: ServerProcess) -> None:
    with httpx.Client(base_url=server.url, http1=False, http2=True, timeout=60) as client:
        for _ in range(3):
            answer = client.post("/embed", json={"inputs": "a"})
            assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
        assert client.get("/live").json() == {"live": True}
        assert client.post("/embed", content=b"{", headers={"content-type": "application/json"}).status_code == 400
    # A partial preface is no request.
    with server.connect() as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n")
        assert not read_until_closed(connection).startswith(b"HTTP/1.1 2")
    # The preface in two parts.
    with server.connect() as connection:
        connection.sendall(preface()[:7])
        # A request of its own, during which the server reads the first part.
        assert server.client.get("/live").json() == {"live": True}
        connection.sendall(preface(SETTINGS)[7:])
        assert connection.recv(9)[3] == 4


def test_header_timeout_closes_idle_connection(numbers: ServerProcess) -> None:
    beginnings = [b"", b"GE", b"PRI * HT", preface(), preface(SETTINGS)]

    def seconds_until_closed(begin: bytes) -> float:
        began = time.monotonic()
        with numbers.connect() as connection:
            if begin:
                connection.sendall(begin)
            read_until_closed(connection)
        return time.monotonic() - began

    with ThreadPoolExecutor(len(beginnings)) as threads:
        for begin, seconds in zip(beginnings, threads.map(seconds_until_closed, beginnings), strict=True):
            assert seconds > 0.9, begin


def test_write_timeout_closes_http2_stream(numbers: ServerProcess) -> None:
    """The client's window stays at 65,535 bytes, so no socket write blocks. `test_limits.py` stalls HTTP/1."""
    before = metric(numbers, 'pullquote_failures_total{cause="slow_reader"}')
    # More than the window holds.
    body = json.dumps(embed_body(["x 1"] * 8_000), separators=(",", ":")).encode()
    fields = [*start_of("POST", "/embed"), ("content-type", "application/json"), ("accept", RAW)]
    with numbers.connect() as connection:
        connection.sendall(preface(SETTINGS, frame(1, 4, 1, hpack.Encoder().encode(fields))))
        for start in range(0, len(body), 16_384):
            part = body[start : start + 16_384]
            connection.sendall(frame(0, int(start + len(part) == len(body)), 1, part))
        wait_for(lambda: metric(numbers, 'pullquote_failures_total{cause="slow_reader"}') == before + 1, 60)
        wait_for(lambda: metric(numbers, "pullquote_connections") == 1)


def test_client_that_does_not_read_holds_no_permit() -> None:
    with letter_server("--max-concurrent", "1", "--max-queue", "0") as server, server.connect() as connection:
        assert server.client.put("/documents/large", json={"text": "x" * 3 * WINDOW}).status_code == 201
        headers = hpack.Encoder().encode(start_of("GET", "/documents/large"))
        connection.sendall(preface(SETTINGS, frame(1, 5, 1, headers)))
        received = 0
        while received < WINDOW:
            received += len(connection.recv(WINDOW))
        # The rest of the answer waits for the client.
        small = {"query": "bread", "documents": ["Bread is baked."]}
        assert server.client.post("/highlights", json=small).status_code == 200


def test_max_connections_counts_http2(numbers: ServerProcess) -> None:
    def refused() -> bool:
        with numbers.connect() as connection:
            connection.sendall(preface(SETTINGS))
            return connection.recv(9).startswith(b"HTTP/1.1 ")

    idle = [numbers.connect() for _ in range(8)]
    try:
        for connection in idle:
            connection.sendall(preface(SETTINGS))
        wait_for(refused)
    finally:
        for connection in idle:
            connection.close()
    wait_for(lambda: not refused())


def test_shutdown_drains_http2_stream(tmp_path: Path) -> None:
    texts = ["x 1", *["gated 1"] * 3]
    with (
        numbers_server(tmp_path) as server,
        httpx.Client(base_url=server.url, http1=False, http2=True, timeout=60) as client,
    ):
        with client.stream("POST", "/embed", json=embed_body(texts), headers={"accept": RAW}) as answer:
            server.signal()
            wait_for(lambda: "stopping" in server.log)
            (tmp_path / "gate").touch()
            assert len(answer.read()) == 4 * 12 * 4
        # Otherwise the server waits two seconds for this.
        client.close()
        assert server.wait() == 0


def test_uds_mode_and_cleanup(tmp_path: Path) -> None:
    path = tmp_path / "pullquote.sock"
    with letter_server("--uds", str(path), "--uds-mode", "660") as server:
        assert server.started["uds"] == str(path)
        assert path.stat().st_mode & 0o777 == 0o660
        for http2 in (False, True):
            transport = httpx.HTTPTransport(uds=str(path), http1=not http2, http2=http2)
            with httpx.Client(transport=transport, base_url="http://any.example", timeout=60) as client:
                answer = client.post("/embed", json={"inputs": ["a", "b"]}, headers={"accept": RAW})
                assert len(answer.content) == 2 * DIMENSION * 4
                assert "swagger-ui" in client.get("/docs").text
        with raises(StartError, path), letter_server("--uds", str(path)):
            pass
        server.signal()
        assert server.wait() == 0
        assert not path.exists()
    # A killed server leaves its socket file, and the next one replaces it.
    with letter_server("--uds", str(path)) as server:
        server.process.kill()
        server.process.wait()
        assert path.is_socket()
    with letter_server("--uds", str(path)):
        assert path.stat().st_mode & 0o777 == 0o600
