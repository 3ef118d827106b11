"""`pullquote serve`: start, request ids and times, logs, and shutdown."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from support.gated_server import gated_server, open_gate
from support.messages import raises
from support.server_process import (
    ServerProcess,
    StartError,
    letter_server,
    read_until_closed,
    wait_for,
    wait_for_running,
)

MOON = "The moon is white. Bread is baked from flour."
ASKED = {"query": "How is bread made?", "documents": [MOON], "highlight_length": 1, "top_k": 1}


def test_serve_json_line_has_url_model_and_devices(server: ServerProcess) -> None:
    assert server.started["model"] == "all-MiniLM-L6-v2"
    assert server.started["dtype"] == "float32"
    assert server.started["devices"] == ["cpu"]
    assert server.started["url"].startswith("http://127.0.0.1:")
    assert server.client.get("/live").json() == {"live": True}


def test_answers_have_request_id_and_times(server: ServerProcess) -> None:
    answer = server.client.post("/highlights", json=ASKED)
    assert len(answer.headers["x-request-id"]) == 32
    times = [float(answer.headers[name]) for name in ("x-queue-time", "x-inference-time", "x-total-time")]
    assert all(time >= 0 for time in times)
    assert times[0] + times[1] <= times[2]
    named = server.client.get("/live", headers={"x-request-id": "mine-1"})
    assert named.headers["x-request-id"] == "mine-1"


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [("GET", "/nowhere", 404, "not_found"), ("GET", "/highlights", 405, "method_not_allowed")],
)
def test_unknown_route_and_method_are_json_errors(
    server: ServerProcess, method: str, path: str, status: int, kind: str
) -> None:
    answer = server.client.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error"]["kind"] == kind
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("method", "path", "part"),
    [("PUT", "/documents/https://x.y/z", "/documents/https%3A%2F%2Fx.y%2Fz"), ("GET", "/robots.txt", "/docs")],
)
def test_unknown_route_of_an_address_or_a_file_has_a_short_hint(
    server: ServerProcess, method: str, path: str, part: str
) -> None:
    answer = server.client.request(method, path, json={"text": "a"})
    assert answer.status_code == 404
    assert part in answer.json()["error"]["message"]
    assert len(answer.content) < 250


def test_sizes_may_have_units() -> None:
    with letter_server("--max-body-bytes", "1MiB", "--max-document-bytes", "2.5kb", "--store-bytes", "4M") as server:
        info = server.client.get("/info").json()
        assert (info["max_body_bytes"], info["max_document_bytes"]) == (1_048_576, 2500)
    for wrong in ("8parsecs", "-1", "MiB", "1.5.5"):
        with raises(StartError, "--max-body-bytes", wrong), letter_server("--max-body-bytes", wrong):
            pass


def test_log_has_request_ids_and_no_texts(server: ServerProcess) -> None:
    word = "xylophonic"
    server.client.post("/highlights", json=ASKED | {"documents": [word]}, headers={"x-request-id": "seen-in-the-log"})
    server.client.post("/highlights", json={word: word}, headers={"x-request-id": "failed-in-the-log"})
    server.client.get(f"/{word}", headers={"x-request-id": "lost-in-the-log"})
    wait_for(lambda: "lost-in-the-log" in server.log)
    assert "seen-in-the-log" in server.log
    assert word not in server.log


def test_log_format_json() -> None:
    with letter_server("--log-format", "json") as server:
        server.client.get("/live", headers={"x-request-id": "one"})
        wait_for(lambda: '"one"' in server.log)
        lines = [json.loads(line) for line in server.log.splitlines()]
    line = next(line for line in lines if line.get("request_id") == "one")
    assert (line["message"], line["route"], line["status"]) == ("request", "/live", 200)


def test_log_has_the_work_of_an_answer_in_lines() -> None:
    pages = ["Bread is baked. " * 2000, "The moon is far. " * 2000, "Rivers run. " * 2000]
    with letter_server("--log-format", "json") as server:
        headers = {"x-request-id": "lines", "accept": "application/x-ndjson"}
        answer = server.client.post("/highlights", json=ASKED | {"documents": pages}, headers=headers)
        usage = json.loads(answer.text.splitlines()[-1])["usage"]
        wait_for(lambda: "the answer ended" in server.log)
        lines = [json.loads(line) for line in server.log.splitlines()]
    counted = [
        (line["windows"], line["tokens"]) for line in lines if line.get("request_id") == "lines" and "tokens" in line
    ]
    assert counted == [(usage["windows"], usage["tokens"])]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_first_signal_drains_accepted_requests(number: signal.Signals, tmp_path: Path) -> None:
    body = {"query": "Who?", "documents": ["Bread is baked.", "blocker", "The moon is far."]}
    with gated_server(tmp_path) as server, server.connect() as waiting:
        waiting.sendall(b"GET /live HTTP/1.1\r\nhost: localhost\r\n")
        found: list[httpx.Response] = []
        caller = threading.Thread(target=lambda: found.append(server.client.post("/highlights", json=body)))
        caller.start()
        wait_for_running(server)
        server.signal(number)
        wait_for(lambda: "stopping" in server.log)
        waiting.sendall(b"\r\n")
        late = read_until_closed(waiting)
        waiting.close()
        assert late.startswith(b"HTTP/1.1 503 ")
        assert b'"kind":"shutting_down"' in late
        open_gate(tmp_path)
        caller.join()
        assert found[0].status_code == 200
        assert [page["highlights"][0]["text"] for page in found[0].json()["results"]] == body["documents"]
        with pytest.raises(OSError, match="refused"):
            server.connect()
        assert server.wait() == 0


def test_second_signal_stops_at_once(tmp_path: Path) -> None:
    with gated_server(tmp_path) as server, server.connect() as connection:
        body = json.dumps({"query": "Who?", "documents": ["blocker"]}).encode()
        head = f"POST /highlights HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
        connection.sendall(head.encode() + b"content-type: application/json\r\n\r\n" + body)
        wait_for_running(server)
        server.signal()
        # `timeout` sends its signal to the process and to its group: that is one.
        server.signal()
        wait_for(lambda: "stopping" in server.log)
        assert server.process.poll() is None

        def ends() -> bool:
            server.signal()
            return server.process.poll() is not None

        # The encoder never returns.
        wait_for(ends)
        assert server.process.returncode == 130
        assert read_until_closed(connection) == b""


def test_requests_that_came_before_a_signal_are_all_answered() -> None:
    """Each of many connections has sent a request that the server has not read when the signal comes."""
    request = b"GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with letter_server() as server, contextlib.ExitStack() as stack:
        connections = [stack.enter_context(server.connect()) for _ in range(60)]
        for connection in connections:
            connection.sendall(request)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        server.process.send_signal(signal.SIGSTOP)
        for connection in connections:
            connection.sendall(request)
        late = [stack.enter_context(server.connect()) for _ in range(20)]
        for connection in late:
            connection.sendall(request)
        server.signal()
        server.process.send_signal(signal.SIGCONT)
        for connection in connections + late:
            assert read_until_closed(connection).startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 503 "))
        assert server.wait() == 0


# Runs the server with a socket of its own as systemd hands one over: file descriptor 3.
ACTIVATE = """
import os, socket, sys
listener = socket.create_server(("127.0.0.1", 0))
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
command = [sys.executable, "-m", "pullquote", "serve", "--json", "--encoder", "support.fake_letter_encoder:letters"]
print(listener.getsockname()[1], flush=True)
os.execv(sys.executable, command)
"""


def test_systemd_socket_and_notification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    )
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        with subprocess.Popen([sys.executable, "-c", ACTIVATE], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            assert manager.recv(1000) == b"READY=1\n"
            assert httpx.get(f"http://127.0.0.1:{port}/live").json() == {"live": True}
            process.terminate()
            assert manager.recv(1000) == b"STOPPING=1\n"
            assert process.wait(60) == 0


def test_api_key_from_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLQUOTE_API_KEY", "from-outside")
    with letter_server() as server:
        for key, status in (("from-outside", 200), ("other", 401)):
            answer = server.client.post("/embed", json={"inputs": "a"}, headers={"x-api-key": key})
            assert answer.status_code == status


def test_port_in_use_is_error(server: ServerProcess) -> None:
    port = server.url.rsplit(":", 1)[1]
    with raises(StartError, f"127.0.0.1:{port}"), letter_server("--port", port):
        pass
