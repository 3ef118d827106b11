"""`/mcp` as HTTP: what the server refuses before a tool is called. `frameworks/test_mcp_route.py` has the tools."""

from typing import Any

import httpx
import pytest

from support.gated_server import gated_server
from support.messages import names_all
from support.server_process import ServerProcess, letter_server, metric, running_server, wait_for

LIST = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}
SEARCH = {
    "jsonrpc": "2.0",
    "id": "a",
    "method": "tools/call",
    "params": {"name": "search", "arguments": {"query": "bread"}},
}


def post(server: ServerProcess, message: Any = LIST, **options: Any) -> httpx.Response:
    return server.client.post("/mcp", json=message, **options)


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """The status and the kind, after checking that the body is an error of JSON-RPC."""
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert (body["jsonrpc"], body["id"]) == ("2.0", None)
    assert body["error"]["message"]
    kind = body["error"]["data"]["kind"]
    assert answer.headers["x-error-kind"] == kind
    return answer.status_code, kind


def test_requests_stand_alone(server: ServerProcess) -> None:
    """Without a handshake, a session or an `Accept` header."""
    answer = post(server)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert "mcp-session-id" not in answer.headers
    body = answer.json()
    assert body["id"] == 7
    assert [tool["name"] for tool in body["result"]["tools"]] == ["highlights", "locate", "cite", "search", "fetch"]
    assert post(server, {"jsonrpc": "2.0", "id": 8, "method": "ping"}).json() == {
        "jsonrpc": "2.0",
        "id": 8,
        "result": {},
    }
    notified = post(server, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (notified.status_code, notified.content) == (202, b"")
    unknown = post(server, {"jsonrpc": "2.0", "id": 9, "method": "nothing/here"}).json()
    assert (unknown["id"], unknown["error"]["code"]) == (9, -32601)


def test_tool_has_the_times_of_a_request(server: ServerProcess) -> None:
    before = metric(server, 'pullquote_requests_total{method="POST",route="/mcp",status="200"}')
    arguments = {"query": "quinces", "texts": ["These quinces are not in a cache of vectors yet."]}
    answer = post(server, SEARCH | {"params": {"name": "highlights", "arguments": arguments}})
    assert answer.json()["result"]["structuredContent"]["passages"][0]["text"] == arguments["texts"][0]
    assert float(answer.headers["x-inference-time"]) > 0
    assert int(answer.headers["x-compute-tokens"]) > 0
    assert metric(server, 'pullquote_requests_total{method="POST",route="/mcp",status="200"}') == before + 1


@pytest.mark.parametrize(
    "body", ["", "[]", "3", "{", '{"id": 1}', '{"jsonrpc": "1.0", "id": 1, "method": "ping"}', "\xff"]
)
def test_body_that_is_no_message_is_400(server: ServerProcess, body: str) -> None:
    answer = server.client.post("/mcp", content=body.encode("latin-1"), headers={"content-type": "application/json"})
    assert refusal(answer) == (400, "malformed_body")
    assert post(server).status_code == 200


def test_other_requests_are_refused(server: ServerProcess) -> None:
    plain = server.client.post("/mcp", content=b"{}", headers={"content-type": "text/plain"})
    assert refusal(plain) == (415, "unsupported_media_type")
    for method in ("GET", "DELETE"):
        answer = server.client.request(method, "/mcp", headers={"accept": "text/event-stream"})
        assert refusal(answer) == (405, "method_not_allowed")
        assert answer.headers["allow"] == "POST"
    version = post(server, headers={"mcp-protocol-version": "1999-12-31"})
    assert refusal(version) == (400, "malformed_body")
    assert names_all(version.text, "1999-12-31")


def test_other_hosts_and_origins_are_refused(server: ServerProcess) -> None:
    for message in (LIST, SEARCH):
        assert refusal(post(server, message, headers={"host": "evil.example"})) == (421, "wrong_host")
        for origin in ("https://evil.example", "null", f"http://localhost:{server.address[1] + 1}"):
            answer = post(server, message, headers={"origin": origin})
            assert refusal(answer) == (403, "wrong_origin")
            assert names_all(answer.text, "--cors-origin", origin)
    assert post(server, headers={"origin": server.url}).status_code == 200
    with letter_server("--cors-origin", "https://agents.example") as open_server:
        answer = post(open_server, headers={"origin": "https://agents.example"})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "https://agents.example")
        assert refusal(post(open_server, headers={"origin": "https://evil.example"})) == (403, "wrong_origin")


def test_server_with_keys_wants_one() -> None:
    with letter_server("--api-key", "k3y", "--url-prefix", "/api") as server:
        for path in ("/mcp", "/api/mcp"):
            answer = server.client.post(path, json=LIST)
            assert answer.status_code == 401
            assert answer.json()["error"]["data"]["kind"] == "unauthorized"
            assert server.client.post(path, json=LIST, headers={"x-api-key": "k3y"}).status_code == 200


def test_limits_of_the_server_hold(tmp_path: Any) -> None:
    def long(length: int, **headers: str) -> httpx.Response:
        arguments = {"query": "bread", "texts": ["blocker" if length == 0 else "a" * length]}
        message = SEARCH | {"params": {"name": "highlights", "arguments": arguments}}
        return post(server, message, headers=headers)

    with gated_server(tmp_path, "--max-body-bytes", "20000", "--max-document-bytes", "9000") as server:
        assert refusal(long(30_000)) == (413, "body_too_large")
        too_long = long(10_000).json()["result"]
        assert too_long["isError"] is True
        assert names_all(too_long["content"][0]["text"], "texts[0]", 10_000, 9000)
        late = long(0, **{"request-timeout-ms": "200"}).json()["result"]
        assert late["isError"] is True
        assert "timeout" in late["content"][0]["text"]
        (tmp_path / "gate").touch()


def test_failing_encoder_is_500_and_its_error_is_not_shown(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing.py").write_text(
        "def encode(texts):\n    if 'fail' in texts:\n        raise ValueError('s3cret')\n"
        "    import numpy\n    return numpy.ones((len(texts), 2), dtype=numpy.float32)\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    with running_server("--encoder", "failing:encode", device=None) as server:
        arguments = {"query": "bread", "texts": ["fail"]}
        answer = post(server, SEARCH | {"params": {"name": "highlights", "arguments": arguments}})
        assert refusal(answer)[0] == 500
        assert "s3cret" not in answer.text
        wait_for(lambda: "s3cret" in server.log)
