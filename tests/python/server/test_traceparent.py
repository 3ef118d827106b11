"""W3C Trace Context in answers and logs."""

import json
import re

import pytest

from support.server_process import ServerProcess, letter_server, wait_for

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


def test_traceparent_keeps_trace_id_with_own_span_id(server: ServerProcess) -> None:
    spans = set()
    for path in ("/live", "/nowhere", "/live"):
        header = server.client.get(path, headers={"traceparent": PARENT}).headers["traceparent"]
        found = re.fullmatch(rf"00-{TRACE}-([0-9a-f]{{16}})-01", header)
        assert found, header
        spans.add(found[1])
    assert len(spans) == 3
    assert "b7ad6b7169203331" not in spans
    unsampled = server.client.get("/live", headers={"traceparent": PARENT[:-1] + "0"})
    assert unsampled.headers["traceparent"].endswith("-00")


@pytest.mark.parametrize("value", ["", "x", PARENT + "-more", PARENT.upper(), PARENT.replace(TRACE, "0" * 32)], ids=str)
def test_invalid_traceparent_is_ignored(server: ServerProcess, value: str) -> None:
    answer = server.client.get("/live", headers={"traceparent": value})
    assert answer.status_code == 200
    assert "traceparent" not in answer.headers


def test_log_has_trace_id() -> None:
    with letter_server("--log-format", "json") as server:
        server.client.get("/live", headers={"traceparent": PARENT, "x-request-id": "traced"})
        server.client.get("/live", headers={"traceparent": "nonsense", "x-request-id": "plain"})
        wait_for(lambda: '"plain"' in server.log)
        lines = {line.get("request_id"): line for line in map(json.loads, server.log.splitlines())}
    assert lines["traced"]["trace_id"] == TRACE
    assert "trace_id" not in lines["plain"]
