"""Limits of a server: each has its status, and a concurrent request gets its right answer."""

import contextlib
import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from pullquote import errors
from support.gated_server import gated_server, open_gate
from support.messages import names_all, raises
from support.server_process import (
    ServerProcess,
    StartError,
    letter_server,
    metric,
    read_until_closed,
    running_server,
    wait_for,
    wait_for_running,
)

JSON = {"content-type": "application/json"}
LARGE = 16_000_000
SMALL = {"query": "bread", "documents": ["Bread is baked. The moon is white."], "highlight_length": 1, "top_k": 1}


@pytest.fixture(scope="module")
def long(whole_pages: dict[str, str]) -> dict[str, Any]:
    """A request that takes a second or two, with a body below all limits."""
    return {"query": "Who?", "documents": ["\n\n".join(whole_pages.values())[:15_000]], "effort": "full"}


@pytest.fixture(scope="module")
def narrow() -> Iterator[ServerProcess]:
    """A server with low limits."""
    options = {
        "dtype": "float32",
        "cache-bytes": "0",  # so that a page takes as long the second time
        "max-body-bytes": "200000",
        "max-queue-bytes": "400000",
        "max-concurrent": "1",
        "max-queue": "1",
        "max-connections": "12",
        "max-header-bytes": "8192",
        "header-timeout": "1",
        "body-timeout": "1",
    }
    with running_server(*(part for name, value in options.items() for part in (f"--{name}", value))) as server:
        yield server


class RequestInFlight:
    """A request and its expected answer."""

    def __init__(self, server: ServerProcess, text: str) -> None:
        self.server = server
        self.asked = {"query": "Who died?", "documents": [text]}
        self.expected = self.texts(server.client.post("/highlights", json=self.asked))

    @staticmethod
    def texts(answer: httpx.Response) -> list[str]:
        assert answer.status_code == 200, answer.text
        return [highlight["text"] for page in answer.json()["results"] for highlight in page["highlights"]]

    def during(self, act: Callable[[], None]) -> None:
        """Act while the request runs, and check its answer."""
        found: list[httpx.Response] = []
        thread = threading.Thread(
            target=lambda: found.append(httpx.post(f"{self.server.url}/highlights", json=self.asked, timeout=60))
        )
        thread.start()
        act()
        thread.join()
        assert self.texts(found[0]) == self.expected


@pytest.fixture(scope="module")
def flight(narrow: ServerProcess, whole_pages: dict[str, str]) -> RequestInFlight:
    return RequestInFlight(narrow, next(iter(whole_pages.values()))[:2_000])


def raw(server: ServerProcess, request: bytes) -> bytes:
    with server.connect() as connection:
        connection.sendall(request)
        return read_until_closed(connection)


def post(server: ServerProcess, **changes: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/highlights", json=SMALL | changes, timeout=60)


def test_max_body_bytes_is_413(narrow: ServerProcess, flight: RequestInFlight) -> None:
    def act() -> None:
        for content in (b"x" * 200_001, iter([b"x" * 50_000] * 5)):  # the second comes in chunks, its size unsaid
            answer = httpx.post(f"{narrow.url}/highlights", content=content, headers=JSON, timeout=60)
            assert (answer.status_code, answer.json()["error"]["kind"]) == (413, "body_too_large")

    # Each takes the queue's only place.
    flight.during(act)


def test_max_body_bytes_refuses_before_reading(narrow: ServerProcess) -> None:
    head = b"POST /highlights HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n"
    with narrow.connect() as connection:
        connection.sendall(head)
        assert connection.recv(12) == b"HTTP/1.1 413"


def test_max_header_bytes_is_431(narrow: ServerProcess, flight: RequestInFlight) -> None:
    def act() -> None:
        answer = raw(narrow, b"GET /live HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 20_000 + b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 431")

    flight.during(act)


def test_max_header_bytes_limits_headers_and_not_their_count(narrow: ServerProcess) -> None:
    assert narrow.client.get("/live", headers=[("x", "y")] * 1000).status_code == 200
    head = b"GET /live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n" + b"x:\r\n" * 2000 + b"\r\n"
    assert len(head) < 8192 + 4
    assert raw(narrow, head).startswith(b"HTTP/1.1 200")
    with httpx.Client(http1=False, http2=True, base_url=narrow.url) as http2:
        assert http2.get("/live", headers=[("x", "y")] * 200).status_code == 200


@pytest.mark.parametrize(
    ("codings", "status"), [("chunked", 200), ("gzip, chunked", 501), ("x, chunked", 501), ("chunked, chunked", 400)]
)
def test_transfer_coding_other_than_chunked_is_501(narrow: ServerProcess, codings: str, status: int) -> None:
    body = json.dumps(SMALL).encode()
    head = "POST /highlights HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n"
    head += f"transfer-encoding: {codings}\r\n\r\n{len(body):x}\r\n"
    answer = raw(narrow, head.encode() + body + b"\r\n0\r\n\r\n")
    assert answer.startswith(f"HTTP/1.1 {status}".encode()), answer


def test_header_timeout_closes_connection(narrow: ServerProcess, flight: RequestInFlight) -> None:
    def act() -> None:
        with narrow.connect() as connection:
            connection.sendall(b"GET /live HTTP/1.1\r\nhost: localhost\r\n")
            read_until_closed(connection)

    flight.during(act)


def test_body_timeout_is_408(narrow: ServerProcess, flight: RequestInFlight) -> None:
    head = b"POST /highlights HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"

    def act() -> None:
        answer = raw(narrow, head)
        assert answer.startswith(b"HTTP/1.1 408")
        assert b'"kind":"slow_sender"' in answer

    flight.during(act)


def test_max_queue_is_429_before_body_is_read(tmp_path: Path) -> None:
    calls: list[httpx.Response] = []

    def call() -> None:
        calls.append(post(server, documents=["blocker"]))

    with gated_server(tmp_path, "--max-concurrent", "1", "--max-queue", "1") as server:
        threads = [threading.Thread(target=call) for _ in range(2)]
        threads[0].start()
        wait_for_running(server)
        threads[1].start()
        wait_for(lambda: metric(server, "pullquote_requests_waiting") == 1)
        head = b"POST /highlights HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n"
        for _ in range(20):
            with server.connect() as connection:
                # Nothing of the body is sent.
                connection.sendall(head)
                answer = connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 429")
            assert b"\r\nretry-after: 1\r\n" in answer
            assert b'"kind":"overloaded"' in answer
        assert metric(server, 'pullquote_failures_total{cause="overloaded"}') == 20
        open_gate(tmp_path)
        for thread in threads:
            thread.join()
        assert [RequestInFlight.texts(call) for call in calls] == [["blocker"]] * 2


def post_padded(server: ServerProcess, size: int, **changes: Any) -> httpx.Response:
    """A body of `size` bytes."""
    body = json.dumps(SMALL | changes).ljust(size)
    return httpx.post(f"{server.url}/highlights", content=body, headers=JSON, timeout=60)


def test_max_queue_bytes_is_429(tmp_path: Path) -> None:
    """The memory for bodies fits one of the largest, which is queued."""
    with gated_server(tmp_path, "--max-body-bytes", "1000000", "--max-queue-bytes", "1000000") as server:
        large = threading.Thread(target=lambda: post_padded(server, 990_000, documents=["blocker"]))
        large.start()
        wait_for_running(server)
        answer = post_padded(server, 20_000)
        assert (answer.status_code, answer.json()["error"]["kind"]) == (429, "overloaded")
        # Small bodies have memory of their own.
        small = threading.Thread(target=lambda: post_padded(server, 1_000))
        small.start()
        wait_for_running(server, 2)
        # Without its body.
        with server.connect() as connection:
            connection.sendall(HEAD % b"20000")
            assert connection.recv(12) == b"HTTP/1.1 429"
        open_gate(tmp_path)
        large.join()
        small.join()
        assert post_padded(server, 20_000).status_code == 200


HEAD = b"POST /highlights HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %b\r\n\r\n"


def test_unread_bodies_take_neither_slots_nor_announced_memory() -> None:
    options = [
        "--max-concurrent",
        "1",
        "--max-queue",
        "1",
        "--max-body-bytes",
        "1000000",
        "--max-queue-bytes",
        "1000000",
    ]
    with letter_server(*options) as server, contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(server.connect()).sendall(HEAD % b"999000" + b"{")
        wait_for(lambda: metric(server, "pullquote_bodies_unread") == 20)
        assert metric(server, "pullquote_requests_waiting") == 0
        assert post_padded(server, 20_000).status_code == 200


def has_unread_bodies(server: ServerProcess, count: int) -> bool:
    return metric(server, "pullquote_bodies_unread") == count


def test_slowest_of_too_many_unread_bodies_gets_408() -> None:
    """With 16 connections, 8 bodies are read at the same time."""
    with (
        letter_server("--max-concurrent", "1", "--max-queue", "1", "--max-connections", "16") as server,
        contextlib.ExitStack() as stack,
    ):
        slow = []
        for count in range(8):
            slow.append(stack.enter_context(server.connect()))
            slow[-1].sendall(HEAD % b"1000" + b"{")
            wait_for(partial(has_unread_bodies, server, count + 1))
        assert post(server).status_code == 200
        stack.enter_context(server.connect()).sendall(HEAD % b"1000" + b"{")
        answer = read_until_closed(slow[0])
        assert answer.startswith(b"HTTP/1.1 408")
        assert b'"kind":"slow_sender"' in answer
        wait_for(partial(has_unread_bodies, server, 8))
        # The next one may take its time.
        body = json.dumps(SMALL).encode()
        slow[1].sendall(body[1:] + b" " * (1000 - len(body)))
        assert slow[1].recv(12) == b"HTTP/1.1 200"


def test_max_key_requests_is_429_for_that_key(tmp_path: Path) -> None:
    options = ["--api-key", "one", "--api-key", "other", "--max-key-requests", "2"]

    def put(key: str) -> httpx.Response:
        return httpx.put(f"{server.url}/documents/a", json={"text": "a"}, headers={"x-api-key": key}, timeout=60)

    def block() -> None:
        body = SMALL | {"documents": ["blocker"]}
        httpx.post(f"{server.url}/highlights", json=body, headers={"authorization": "Bearer one"}, timeout=60)

    with gated_server(tmp_path, *options) as server:
        threads = [threading.Thread(target=block) for _ in range(2)]
        for thread in threads:
            thread.start()
        wait_for_running(server, 2)
        answer = put("one")
        assert (answer.status_code, answer.json()["error"]["kind"]) == (429, "overloaded")
        assert answer.headers["retry-after"] == "1"
        assert names_all(answer.json()["error"]["message"], "key", 2)
        assert put("other").status_code == 201
        open_gate(tmp_path)
        for thread in threads:
            thread.join()
        assert put("one").status_code == 200


@pytest.mark.parametrize("how", ["header", "option"])
def test_request_timeout_is_504(narrow: ServerProcess, long: dict[str, Any], how: str) -> None:
    headers = {"request-timeout-ms": "150"} if how == "header" else {}
    body = long if how == "header" else long | {"timeout": 0.15}
    answer = httpx.post(f"{narrow.url}/highlights", json=body, headers=headers, timeout=60)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (504, "deadline_exceeded")
    assert RequestInFlight.texts(post(narrow)) == ["Bread is baked."]


def test_server_timeout_bounds_request_timeout(tmp_path: Path) -> None:
    with gated_server(tmp_path, "--timeout", "0.3") as server:
        body = SMALL | {"documents": ["blocker"]}
        answer = httpx.post(f"{server.url}/highlights", json=body, headers={"request-timeout-ms": "60000"}, timeout=60)
        assert answer.status_code == 504
        open_gate(tmp_path)
        assert post(server).status_code == 200


@pytest.mark.parametrize("value", ["0", "-5", "soon", "1.5"])
def test_invalid_request_timeout_header_is_400(narrow: ServerProcess, value: str) -> None:
    answer = httpx.post(f"{narrow.url}/highlights", json=SMALL, headers={"request-timeout-ms": value})
    assert answer.status_code == 400
    assert names_all(answer.json()["error"]["message"], "request-timeout-ms", value)


def test_hang_up_cancels_request(tmp_path: Path) -> None:
    body = json.dumps(SMALL | {"documents": ["blocker"]}).encode()
    head = f"POST /highlights HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    with gated_server(tmp_path, "--max-concurrent", "1") as server:
        with server.connect() as connection:
            connection.sendall(head.encode() + body)
            wait_for_running(server)
        # The gate is closed, so that the request cannot end otherwise.
        wait_for(lambda: metric(server, "pullquote_requests_running") == 0)
        assert metric(server, 'pullquote_failures_total{cause="cancelled"}') == 1
        open_gate(tmp_path)
        assert post(server).status_code == 200


@pytest.fixture(scope="module")
def impatient() -> Iterator[ServerProcess]:
    """A server with a document larger than socket buffers, and a write timeout of one second."""
    with letter_server("--write-timeout", "1", "--max-document-bytes", "32000000") as server:
        assert server.client.put("/documents/large", json={"text": "x" * LARGE}).status_code == 201
        yield server


def read_slowly(server: ServerProcess, pause: float) -> int:
    """Read the large document with pauses; returns the number of bytes."""
    with socket.socket() as connection:
        # Set before connecting, because it limits the advertised window.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.settimeout(60)
        connection.connect(server.address)
        connection.sendall(b"GET /documents/large HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        total = 0
        with contextlib.suppress(ConnectionResetError):
            for part in range(3):
                while total < LARGE // 4 * (part + 1) and (read := connection.recv(65536)):
                    total += len(read)
                time.sleep(pause)
            total += len(read_until_closed(connection))
        return total


def test_write_timeout_closes_stalled_reader(impatient: ServerProcess) -> None:
    failures = 'pullquote_failures_total{cause="slow_reader"}'
    before = metric(impatient, failures)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.connect(impatient.address)
        connection.sendall(b"GET /documents/large HTTP/1.1\r\nhost: localhost\r\n\r\n")
        wait_for(lambda: metric(impatient, failures) == before + 1)
        # Only the connection of this request is left.
        wait_for(lambda: metric(impatient, "pullquote_connections") == 1)
        connection.settimeout(60)
        assert len(read_until_closed(connection)) < LARGE
    assert len(impatient.client.get("/documents/large").json()["text"]) == LARGE


def test_write_timeout_spares_slow_reader(impatient: ServerProcess) -> None:
    """The read takes longer than the timeout, but no pause does."""
    assert read_slowly(impatient, 0.6) > LARGE


def test_max_connections_is_503(narrow: ServerProcess) -> None:
    narrow.client.get("/live")
    idle: list[socket.socket] = []
    try:
        idle = [narrow.connect() for _ in range(12)]
        wait_for(lambda: refused(narrow))
    finally:
        for connection in idle:
            connection.close()
    wait_for(lambda: not refused(narrow))
    assert metric(narrow, 'pullquote_failures_total{cause="too_many_connections"}') >= 1


def refused(server: ServerProcess) -> bool:
    with server.connect() as connection:
        connection.sendall(b"GET /live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        answer = read_until_closed(connection)
    if answer.startswith(b"HTTP/1.1 200"):
        return False
    assert answer.startswith(b"HTTP/1.1 503")
    assert b'"kind":"too_many_connections"' in answer
    return True


def test_thousand_idle_connections_do_not_block_requests(server: ServerProcess) -> None:
    idle = [server.connect() for _ in range(1000)]
    try:
        assert post(server).status_code == 200
        wait_for(lambda: metric(server, "pullquote_connections") > 1000)
    finally:
        for connection in idle:
            connection.close()


def test_connections_wait_while_server_does_not_accept() -> None:
    count = min(900, int(Path("/proc/sys/net/core/somaxconn").read_text(encoding="utf-8")))
    with letter_server() as server, contextlib.ExitStack() as stack:
        server.process.send_signal(signal.SIGSTOP)
        # With a full backlog, the last ones find no place and time out.
        waiting = [stack.enter_context(server.connect()) for _ in range(count)]
        server.process.send_signal(signal.SIGCONT)
        for connection in waiting[::100]:
            connection.sendall(b"GET /live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            assert read_until_closed(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"GET /live HTTP/9.9\r\n\r\n",
        b"POST /highlights HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
        b"POST /highlights HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST /highlights HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\nbad header\r\n\r\n",
        b"\x00" * 100 + b"\r\n\r\n",
    ],
)
def test_malformed_request_is_refused(narrow: ServerProcess, flight: RequestInFlight, request_bytes: bytes) -> None:
    def act() -> None:
        answer = raw(narrow, request_bytes)
        assert answer.startswith(b"HTTP/1.1 4") or answer == b"", answer
        assert answer.count(b"HTTP/1.1 ") <= 1

    flight.during(act)


def test_pipelined_requests_are_answered_in_order(server: ServerProcess) -> None:
    body = json.dumps(SMALL).encode()
    one = f"POST /highlights HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    last = b"GET /live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    answer = raw(server, (one.encode() + body) * 3 + last)
    assert answer.count(b"HTTP/1.1 200 OK") == 4
    assert answer.count(b"Bread is baked.") == 3
    assert answer.endswith(b'{"live":true}')


@pytest.mark.skipif(sys.platform != "linux", reason="the nice value of a thread")
@pytest.mark.parametrize("nice", [0, 7])
def test_nice_lowers_only_threads_that_compute(nice: int, whole_pages: dict[str, str]) -> None:
    with running_server("--nice", str(nice)) as server:
        threads = Path(f"/proc/{server.process.pid}/task")

        def nice_values() -> dict[str, int]:
            states = [(thread / "stat").read_text() for thread in threads.iterdir()]
            return {state.split("(")[1].split(")")[0]: int(state.rsplit(")", 1)[1].split()[16]) for state in states}

        before = nice_values()
        assert post(server, documents=["\n\n".join(whole_pages.values())[:80_000]]).status_code == 200
        usual, after = before["pullquote-http"], nice_values()
        assert set(before.values()) == {usual}
        computing = {name for name in after if name.startswith(("pullquote-cpu", "pullquote-text"))}
        assert len(computing) > 1
        # The thread of the request itself may be ending.
        lower = {name for name, value in after.items() if value == usual + nice} - {"pullquote-large"}
        assert lower == (computing if nice else set(after))


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--nice", "20"], ["--nice", 20, 19]),
        (["--max-concurrent", "0"], ["--max-concurrent", 0]),
        (["--api-keys-file", "/nowhere"], ["/nowhere"]),
        (["--store", "/nowhere/x.db"], ["/nowhere/x.db"]),
    ],
    ids=str,
)
def test_invalid_server_setting_stops_start(options: list[str], names: list[object]) -> None:
    with raises(StartError, *names) as caught, letter_server(*options):
        pass
    assert caught.value.exit_code == errors.InvalidArgumentError.exit_code
