"""OpenTelemetry: the spans of requests, and collectors that do not answer."""

import json
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.fake_web import FakeWeb, fake_web
from support.messages import raises
from support.server_process import ServerProcess, StartError, letter_server, wait_for

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
PRIVATE = "the oven's own secret"


@pytest.fixture
def collector() -> Iterator[FakeWeb]:
    with fake_web() as made:
        made.pages["/v1/traces"] = (200, {"content-type": "application/x-protobuf"}, b"")
        yield made


def spans(collector: FakeWeb) -> list[tuple[dict[str, str], Any]]:
    """Every received span, with its resource's attributes."""
    found = []
    for path, headers, body in collector.requests:
        assert (path, headers["content-type"]) == ("/v1/traces", "application/x-protobuf")
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            of = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
            found += [(of, span) for scope in resource.scope_spans for span in scope.spans]
    return found


def attributes(span: Any) -> dict[str, Any]:
    return {
        attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value")) for attribute in span.attributes
    }


def ask(server: ServerProcess, path: str, body: dict[str, Any], **headers: str) -> Any:
    return server.client.post(path, json=body, headers=headers)


def test_otlp_spans_of_requests(collector: FakeWeb) -> None:
    with letter_server("--otlp-endpoint", collector.url, "--upstream", collector.url) as server:
        asked = {"query": PRIVATE, "documents": [{"id": "a", "text": f"Bread is baked. {PRIVATE} is heat."}]}
        traceparent = f"00-{TRACE}-{CALLER}-01"
        answer = ask(server, "/highlights", asked, traceparent=traceparent, tracestate="them=1,others=2")
        assert answer.status_code == 200
        alone = ask(server, "/embed", {"inputs": ["bread"]})
        failed = ask(server, "/embed", {"inputs": 5})
        unsampled = ask(server, "/embed", {"inputs": ["bread"]}, traceparent=f"00-{TRACE}-{CALLER}-00")
        collector.json("/search", {"results": []})
        ask(server, "/search", {"query": "bread"}, traceparent=traceparent, tracestate="them=1,others=2")
        forwarded = next(headers for path, headers, _ in collector.requests if path == "/search")
        collector.requests = [asked for asked in collector.requests if asked[0] != "/search"]
        server.client.get("/health")
        # The server sends the last spans when it stops.
        server.signal()
        assert server.wait() == 0
        log = server.log
    told = spans(collector)
    assert {of["service.name"] for of, _ in told} == {"pullquote"}
    by_name: dict[str, list[Any]] = {}
    for _, span in told:
        by_name.setdefault(span.name, []).append(span)
    assert set(by_name) == {"POST /highlights", "POST /embed", "POST /search", "queue", "inference"}

    (request,) = by_name["POST /highlights"]
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, CALLER)
    assert answer.headers["traceparent"] == f"00-{TRACE}-{request.span_id.hex()}-01"
    assert request.kind == request.SPAN_KIND_SERVER
    assert request.trace_state == "them=1,others=2"
    known = attributes(request)
    assert (known["http.request.method"], known["http.route"], known["http.response.status_code"]) == (
        "POST",
        "/highlights",
        200,
    )
    assert known["pullquote.windows"] >= 1
    assert known["pullquote.tokens"] > 0
    assert 0 < known["pullquote.waiting"] < 60
    parts = [
        span for name in ("queue", "inference") for span in by_name[name] if span.parent_span_id == request.span_id
    ]
    assert [part.name for part in parts] == ["queue", "inference"]
    for part in parts:
        assert part.trace_id == request.trace_id
        # A start is the end minus the duration, read from two clocks at two moments.
        assert request.start_time_unix_nano <= part.start_time_unix_nano + 5_000_000_000
        assert part.end_time_unix_nano <= request.end_time_unix_nano

    # A request without traceparent starts a trace; an unsampled one has no span.
    embeds = {span.trace_id.hex(): span for span in by_name["POST /embed"]}
    assert len(embeds) == 2
    assert TRACE not in embeds
    assert alone.headers["traceparent"].split("-")[1] in embeds
    assert unsampled.headers["traceparent"].startswith(f"00-{TRACE}-")
    refused = embeds[failed.headers["traceparent"].split("-")[1]]
    assert attributes(refused)["error.type"] == "invalid_body"
    assert attributes(refused)["http.response.status_code"] == failed.status_code

    # The request to the upstream has this request's span as parent.
    (search,) = by_name["POST /search"]
    assert forwarded["traceparent"] == f"00-{TRACE}-{search.span_id.hex()}-01"
    assert forwarded["tracestate"] == "them=1,others=2"
    assert PRIVATE not in "".join(str(span) for _, span in told) + log


def test_otel_environment_variables(collector: FakeWeb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "passages")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=ours")
    with letter_server("--otlp-endpoint", collector.url + "/") as server:
        assert ask(server, "/embed", {"inputs": "bread"}).status_code == 200
        server.signal()
        assert server.wait() == 0
    told = spans(collector)
    assert {(of["service.name"], of["deployment.environment.name"]) for of, _ in told} == {("passages", "test")}
    assert {headers["x-tenant"] for _, headers, _ in collector.requests} == {"ours"}


@pytest.mark.slow
def test_unreachable_otlp_endpoint_does_not_delay_requests() -> None:
    """One endpoint accepts and never answers; at the other nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        for address in (f"http://127.0.0.1:{port}", "http://127.0.0.1:9"):
            with letter_server("--otlp-endpoint", address) as server:
                for _ in range(50):
                    assert ask(server, "/embed", {"inputs": "bread"}).status_code == 200
                server.signal()
                assert server.wait() == 0


def test_unreachable_otlp_endpoint_is_logged_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with fake_web() as collector, letter_server("--otlp-endpoint", collector.url) as server:
        collector.pages["/v1/traces"] = (503, {}, b"")

        def has_batches(count: int) -> bool:
            return len({body for _, _, body in collector.requests}) == count

        # Each has a batch of its own.
        for count in range(1, 6):
            assert ask(server, "/embed", {"inputs": "bread"}).status_code == 200
            wait_for(partial(has_batches, count))
            wait_for(lambda: "did not reach the collector" in server.log)
            assert server.log.count("did not reach the collector") == 1, count
        # Nor does the library say it again, when its retries are over.
        assert not [line for line in server.log.splitlines() if "WARN" in line and "once a minute" not in line]


@pytest.mark.parametrize("address", ["localhost:4317", "nowhere", "", "ftp://localhost"])
def test_invalid_otlp_endpoint_stops_start(address: str) -> None:
    with raises(StartError, "--otlp-endpoint", json.dumps(address)), letter_server("--otlp-endpoint", address):
        pass
