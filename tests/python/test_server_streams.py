"""HTTP/2 and Unix sockets: the bounds of connections hold there too."""

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import hpack
import httpx
import pytest

from lettering import DIMENSION
from numbers_server import asked, serving_numbers
from serving import Serving, answers, metric, serving_letters, wait_for

RAW = "application/octet-stream"


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving_numbers(tmp_path_factory.mktemp("encoder")) as server:
        yield server


def preface(*frames: bytes) -> bytes:
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"".join(frames)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


SETTINGS = frame(4, 0, 0)


def test_http2_is_spoken_with_who_begins_it(server: Serving) -> None:
    with httpx.Client(base_url=server.url, http1=False, http2=True, timeout=60) as client:
        for _ in range(3):
            answer = client.post("/embed", json={"inputs": "a"})
            assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
        assert client.get("/live").json() == {"live": True}
        assert client.post("/embed", content=b"{", headers={"content-type": "application/json"}).status_code == 400
    # What only begins like it is no request.
    with server.connect() as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n")
        assert not answers(connection).startswith(b"HTTP/1.1 2")
    # In two parts.
    with server.connect() as connection:
        connection.sendall(preface()[:7])
        time.sleep(0.1)
        connection.sendall(preface(SETTINGS)[7:])
        assert connection.recv(9)[3] == 4


@pytest.mark.parametrize("begin", [b"", b"GE", b"PRI * HT", preface(), preface(SETTINGS)])
def test_a_connection_that_asks_nothing_is_closed(numbers: Serving, begin: bytes) -> None:
    began = time.monotonic()
    with numbers.connect() as connection:
        connection.settimeout(20)
        if begin:
            connection.sendall(begin)
        answers(connection)
    assert 1.5 < time.monotonic() - began < 15


@pytest.mark.parametrize("http2", [False, True])
def test_a_client_that_takes_nothing_of_its_answer_is_hung_up_on(numbers: Serving, http2: bool) -> None:
    """Of HTTP/2 it says itself how much it takes: 65,535 bytes, and then nothing, so that no write ever stands still."""
    before = metric(numbers, 'pullquote_failures_total{cause="slow_reader"}')
    # More than the system takes, or of HTTP/2 than a client takes that has said nothing of it; its body needs no more either.
    body = json.dumps(asked(["x 1"] * (8_000 if http2 else 100_000)), separators=(",", ":")).encode()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.connect(numbers.address)
        if http2:
            fields = [
                (":method", "POST"),
                (":path", "/embed"),
                (":scheme", "http"),
                (":authority", "localhost"),
                ("content-type", "application/json"),
                ("accept", RAW),
            ]
            connection.sendall(preface(SETTINGS, frame(1, 4, 1, hpack.Encoder().encode(fields))))
            for start in range(0, len(body), 16_384):
                part = body[start : start + 16_384]
                connection.sendall(frame(0, int(start + len(part) == len(body)), 1, part))
        else:
            head = f"POST /embed HTTP/1.1\r\nhost: localhost\r\naccept: {RAW}\r\ncontent-type: application/json\r\n"
            connection.sendall(head.encode() + f"content-length: {len(body)}\r\n\r\n".encode() + body)
        wait_for(lambda: metric(numbers, 'pullquote_failures_total{cause="slow_reader"}') == before + 1, 60)
        wait_for(lambda: metric(numbers, "pullquote_connections") == 1)


def test_connections_of_http2_have_places_like_all(numbers: Serving) -> None:
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


def test_a_server_that_stops_answers_what_http2_asked(tmp_path: Path) -> None:
    with (
        serving_numbers(tmp_path) as server,
        httpx.Client(base_url=server.url, http1=False, http2=True, timeout=60) as client,
    ):
        with client.stream("POST", "/embed", json=asked(["slow 1"] * 9), headers={"accept": RAW}) as answer:
            server.signal()
            assert len(answer.read()) == 9 * 12 * 4
        assert server.wait() == 0


def test_a_unix_socket_is_the_owners_and_goes_with_the_server(tmp_path: Path) -> None:
    path = tmp_path / "pullquote.sock"
    with serving_letters("--uds", str(path), "--uds-mode", "660") as server:
        assert server.started["uds"] == str(path)
        assert path.stat().st_mode & 0o777 == 0o660
        for http2 in (False, True):
            transport = httpx.HTTPTransport(uds=str(path), http1=not http2, http2=http2)
            with httpx.Client(transport=transport, base_url="http://any.example", timeout=60) as client:
                answer = client.post("/embed", json={"inputs": ["a", "b"]}, headers={"accept": RAW})
                assert len(answer.content) == 2 * DIMENSION * 4
                assert "swagger-ui" in client.get("/docs").text
        with pytest.raises(AssertionError, match="another server answers there"), serving_letters("--uds", str(path)):
            pass
        server.signal()
        assert server.wait() == 0
        assert not path.exists()
    # Killed, it leaves its file behind; the next one takes it over.
    with serving_letters("--uds", str(path)) as server:
        server.process.kill()
        server.process.wait()
        assert path.is_socket()
    with serving_letters("--uds", str(path)):
        assert path.stat().st_mode & 0o777 == 0o600
