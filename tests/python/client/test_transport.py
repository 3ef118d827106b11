"""`Client` on the wire: splitting, TLS, proxies, Unix sockets, OpenAI's route, signals and forks."""

import _thread
import base64
import contextlib
import json
import multiprocessing
import os
import signal
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trustme

from pullquote import Client, errors
from support.fake_http_server import (
    DIMENSION,
    Answer,
    Request,
    fake_server,
    float_bytes,
    raw_vectors,
    vectors,
)
from support.messages import pattern, raises
from support.server_process import wait_for

TEXTS = [f"text {number}" for number in range(500)]


def stalled(_: Request) -> Answer:
    return Answer(held=True)


def test_rows_per_request_splits_and_vectors_are_received_in_place() -> None:
    with fake_server() as server, Client(server.url, rows_per_request=7) as client:
        found = client.embed(TEXTS)
        # The array is the memory that Rust wrote.
        assert type(found.base).__name__ == "PySliceContainer"
        assert np.array_equal(found, vectors(TEXTS))
        assert len(server.requests) == -(-len(TEXTS) // 7)
        assert max(len(request.texts) for request in server.requests) == 7
        assert all("octet-stream" in request.headers["accept"] for request in server.requests)


def test_bytes_per_request_splits_requests() -> None:
    texts = ["a" * 60, "b" * 60, "c" * 1000, "d"]
    with fake_server() as server, Client(server.url, bytes_per_request=130) as client:
        assert np.array_equal(client.embed(texts), vectors(texts))
        assert sorted(len(request.texts) for request in server.requests) == [1, 1, 2]


def test_max_in_flight_bounds_threads_of_one_client() -> None:
    with fake_server() as server, Client(server.url, max_in_flight=8) as client, ThreadPoolExecutor(16) as threads:
        found = list(threads.map(lambda text: client.embed([text]), TEXTS))
        assert np.array_equal(np.concatenate(found), vectors(TEXTS))
        assert 1 < server.busy <= 8


def test_gil_is_released_while_client_waits() -> None:
    with fake_server(lambda _: Answer(503, held=True)) as server, Client(server.url, retries=0) as client:
        raised: list[BaseException] = []

        def call() -> None:
            try:
                client.embed(["a"])
            except errors.PullquoteError as error:
                raised.append(error)

        caller = threading.Thread(target=call)
        caller.start()
        wait_for(lambda: len(server.requests) == 1)
        # The server is in this process, so it could not answer either while a call kept the GIL.
        assert caller.is_alive()
        server.release()
        caller.join(60)
        assert isinstance(raised[0], errors.UnavailableError)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Python's handler, because a shell ignores SIGINT in background jobs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_call_and_closes_connection() -> None:
    with fake_server(stalled) as server, Client(server.url) as client:

        def interrupt() -> None:
            wait_for(lambda: len(server.requests) == 1)
            _thread.interrupt_main(signal.SIGINT)

        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        # The server never answers.
        with pytest.raises(KeyboardInterrupt):
            client.embed(["a"])
        interrupting.join()
        wait_for(lambda: server.open == 0)
        server.answer = raw_vectors
        assert np.array_equal(client.embed(["a"]), vectors(["a"]))


def test_client_timeout_is_deadline_exceeded() -> None:
    with fake_server(stalled) as server, Client(server.url) as client:
        with raises(errors.DeadlineExceededError, "timeout"):
            client.embed(["a"], timeout=0.1)
        wait_for(lambda: server.open == 0)
        asked = int(server.requests[0].headers["request-timeout-ms"])
        assert 0 < asked <= 100
        assert server.requests[0].headers.get("request-priority") in {None, "0"}


def test_close_ends_client_calls_of_other_threads() -> None:
    with fake_server(stalled) as server, Client(server.url) as client, ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(client.embed, ["a"]) for _ in range(4)]
        wait_for(lambda: len(server.requests) == 4)
        client.close()
        for call in calls:
            with pytest.raises(errors.ClosedError):
                call.result(10)


FORKED: dict[str, Any] = {}


def child(queue: Any) -> None:
    try:
        FORKED["client"].embed(["a"])
    except errors.ForkedError as error:
        queue.put(type(error).__name__)
    FORKED.clear()
    with Client(FORKED_URL[0]) as fresh:
        queue.put(fresh.embed(["a"]).tolist())


FORKED_URL: list[str] = []


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_client_in_fork_raises_forked_error() -> None:
    with fake_server() as server, Client(server.url) as client:
        client.embed(["a"])
        FORKED["client"], FORKED_URL[:] = client, [server.url]
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        assert queue.get(timeout=60) == "ForkedError"
        assert queue.get(timeout=60) == vectors(["a"]).tolist()
        process.join(60)
        assert process.exitcode == 0
        assert np.array_equal(client.embed(["a"]), vectors(["a"]))


def test_ca_certs_are_the_only_trusted_authorities(tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(secured)
    trusted, untrusted = tmp_path / "trusted.pem", tmp_path / "untrusted.pem"
    authority.cert_pem.write_to_path(trusted)
    other.cert_pem.write_to_path(untrusted)
    with fake_server(secured=secured) as server:
        with Client(server.url, ca_certs=trusted) as client:
            assert np.array_equal(client.embed(TEXTS), vectors(TEXTS))
        for others in (untrusted, None):
            client = Client(server.url, retries=0, ca_certs=others)
            with client, raises(errors.UnavailableError, "certificate"):
                client.embed(["a"])


class Proxy(BaseHTTPRequestHandler):
    """A proxy that answers itself."""

    asked: list[tuple[str, str | None]] = []  # noqa: RUF012 - shared on purpose

    def do_POST(self) -> None:
        self.asked.append((self.path, self.headers.get("proxy-authorization")))
        self.rfile.read(int(self.headers["content-length"]))
        body = b"[[1.5, 2.5]]"
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def test_proxy_with_credentials() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        with Client("http://nowhere.invalid", proxy=f"http://me:word@127.0.0.1:{proxy.server_port}") as client:
            assert client.embed(["a"]).tolist() == [[1.5, 2.5]]
            assert "word" not in repr(client)
        proxy.shutdown()
        thread.join()
    assert Proxy.asked == [("http://nowhere.invalid/embed", "Basic " + base64.b64encode(b"me:word").decode())]


class Tunnel(socketserver.StreamRequestHandler):
    """A proxy that forwards encrypted bytes."""

    asked: list[tuple[str, bool]] = []  # noqa: RUF012 - shared on purpose

    def handle(self) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.rfile.readline()
        method, place, _ = head.decode().split(" ", 2)
        self.asked.append((f"{method} {place}", b"Basic " + base64.b64encode(b"me:word") in head))
        host, port = place.split(":")
        with socket.create_connection((host, int(port))) as target:
            self.request.sendall(b"HTTP/1.1 200 Go on\r\n\r\n")
            back = threading.Thread(target=carry, args=(target, self.request))
            back.start()
            carry(self.request, target)
            back.join()


def carry(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(65536):
            sink.sendall(part)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)


def test_proxy_tunnels_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(secured)
    trusted = tmp_path / "trusted.pem"
    authority.cert_pem.write_to_path(trusted)
    with fake_server(secured=secured) as server, socketserver.ThreadingTCPServer(("127.0.0.1", 0), Tunnel) as proxy:
        proxy.daemon_threads = True
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        address = f"http://me:word@127.0.0.1:{proxy.server_address[1]}"
        with Client(server.url, proxy=address, ca_certs=trusted) as client:
            assert np.array_equal(client.embed(TEXTS), vectors(TEXTS))
        proxy.shutdown()
        thread.join()
        assert set(Tunnel.asked) == {(f"CONNECT 127.0.0.1:{server.port}", True)}
        assert all("proxy-authorization" not in request.headers for request in server.requests)


@pytest.mark.skipif(not hasattr(socketserver, "UnixStreamServer"), reason="this system has no Unix sockets")
def test_unix_socket_url(tmp_path: Path) -> None:
    class OnSocket(Proxy):
        client_address = ("", 0)

    path = tmp_path / "socket"
    with socketserver.ThreadingUnixStreamServer(str(path), OnSocket) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        for url in (f"unix:{path}", f"unix://{path}"):
            with Client(url) as client:
                assert client.embed(["a"]).tolist() == [[1.5, 2.5]]
        server.shutdown()
        thread.join()


def openai(row: Callable[[int, Any], Any]) -> Callable[[Request], Answer]:
    """A server with only OpenAI's route."""

    def answer(request: Request) -> Answer:
        if request.path != "/v1/embeddings":
            return Answer(404, {"content-type": "application/json"}, b'{"detail": "Not Found"}')
        assert request.body["encoding_format"] == "base64"
        rows = [
            {"object": "embedding", "index": index, "embedding": row(index, values)}
            for index, values in enumerate(vectors(request.texts))
        ]
        body = json.dumps({"object": "list", "data": rows[::-1], "model": request.body.get("model")}).encode()
        return Answer(headers={"content-type": "application/json; charset=utf-8"}, body=body)

    return answer


@pytest.mark.parametrize("suffix", ["", "/v1", "/v1/"])
@pytest.mark.parametrize(
    "row",
    [
        lambda _, values: base64.b64encode(float_bytes(values)).decode(),
        lambda _, values: [float(value) for value in values],
    ],
    ids=["base64", "float"],
)
def test_openai_route_as_fallback(row: Callable[[int, Any], Any], suffix: str) -> None:
    with fake_server(openai(row)) as server, Client(server.url + suffix, model="m", rows_per_request=64) as client:
        assert np.array_equal(client.embed(TEXTS), vectors(TEXTS))
        assert {request.body.get("model") for request in server.requests if request.path == "/v1/embeddings"} == {"m"}
        with raises(errors.InvalidArgumentError, "role"):
            client.embed(["a"], role="query")


def test_server_without_embedding_routes_is_not_found() -> None:
    with fake_server(lambda _: Answer(404, body=b"no")) as server, Client(server.url) as client:
        with raises(errors.NotFoundError, server.url, 404):
            client.embed(["a"])
        assert [request.path for request in server.requests] == ["/embed", "/v1/embeddings"]
        # After a 404 from both routes, the client tries /embed again.
        server.answer = raw_vectors
        assert np.array_equal(client.embed(["a"], role="query"), vectors(["a"]))
        assert server.requests[-1].path == "/embed"


def test_concurrent_calls_discover_openai_route() -> None:
    together = threading.Barrier(8)
    honest = openai(lambda _, values: base64.b64encode(float_bytes(values)).decode())

    def answer(request: Request) -> Answer:
        # All callers get a 404 before one of them knows of the other route.
        return (
            Answer(404, {"content-type": "text/plain"}, b"no", held=True)
            if request.path == "/embed"
            else honest(request)
        )

    def call(client: Client, text: str) -> Any:
        together.wait(30)
        return client.embed([text])

    with fake_server(answer) as server, Client(server.url, model="m") as client, ThreadPoolExecutor(8) as threads:
        calls = threads.map(lambda text: call(client, text), TEXTS[:8])
        wait_for(lambda: len(server.requests) == 8)
        server.release()
        found = list(calls)
        assert np.array_equal(np.concatenate(found), vectors(TEXTS[:8]))


@pytest.mark.parametrize(("dtype", "numpy"), [("float16", np.float16), ("bfloat16", None)])
def test_wire_dtype_returns_float32(dtype: Any, numpy: Any) -> None:
    def narrow(request: Request) -> Answer:
        answer = raw_vectors(request)
        assert request.body["embedding_dtype"] == dtype
        exact = vectors(request.texts)
        halves = exact.astype(numpy) if numpy else (exact.view(np.uint32) >> 16).astype("<u2")
        return Answer(headers=answer.headers | {"x-embedding-dtype": dtype}, body=halves.tobytes())

    with fake_server(narrow) as server, Client(server.url, wire_dtype=dtype) as client:
        found = client.embed(TEXTS)
        assert found.dtype == np.float32
        assert np.abs(found - vectors(TEXTS)).max() < (0.01 if numpy else 0.05)


def test_x_truncated_header_is_truncation_warning() -> None:
    def cut(request: Request) -> Answer:
        answer = raw_vectors(request)
        return Answer(headers=answer.headers | {"x-truncated": "2"}, body=answer.body)

    warned = pytest.warns(errors.TruncationWarning, match=pattern(4, 500))
    with fake_server(cut) as server, Client(server.url, rows_per_request=250) as client, warned:
        client.embed(TEXTS)


def test_too_few_rows_is_bad_answer() -> None:
    def wrong(request: Request) -> Answer:
        answer = raw_vectors(request)
        return Answer(headers=answer.headers | {"x-embedding-shape": f"1,{DIMENSION}"}, body=answer.body)

    with fake_server(wrong) as server, Client(server.url) as client, pytest.raises(errors.BadAnswerError) as caught:
        client.embed(["a", "b"])
    assert str(caught.value).startswith(f"the answer of {server.url} cannot be used: it claims 1 rows")


@pytest.mark.parametrize("counts", [{"created": 1, "replaced": 0}, {"created": 2**64 - 1, "replaced": 3}, {}])
def test_counts_of_other_documents_are_bad_answer(counts: dict[str, int]) -> None:
    def wrong(request: Request) -> Answer:
        assert request.body == {"documents": [{"id": "a", "text": "b"}, {"id": "c", "title": "t", "text": "d"}]}
        return Answer(body=json.dumps(counts).encode())

    with fake_server(wrong) as server, Client(server.url) as client, pytest.raises(errors.BadAnswerError):
        client.put_documents({"a": "b", "c": "d"}, titles=[None, "t"])


def test_client_threads_start_with_first_call_and_end_with_close() -> None:
    def tasks() -> int:
        return len(os.listdir("/proc/self/task"))  # noqa: PTH208

    with fake_server() as server:
        before = tasks()
        client = Client(server.url)
        assert tasks() == before
        client.embed(["a"])
        assert tasks() > before
        client.close()
        wait_for(lambda: tasks() <= before)
