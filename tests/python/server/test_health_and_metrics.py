"""`/live`, `/health` and `/metrics`."""

import json
import shutil
import struct
import threading
from pathlib import Path

import httpx
import prometheus_client.parser
import pytest

from pullquote._models.choice import embedded_model
from support.server_process import ServerProcess, metric, resident_bytes, running_server

ASKED = {"query": "bread", "documents": ["Bread is baked. The moon is white."]}


def test_health_and_live_of_fresh_server(server: ServerProcess) -> None:
    assert server.client.get("/health").json()["healthy"] is True
    assert server.client.get("/live").json() == {"live": True}


@pytest.fixture
def poisoned(tmp_path: Path) -> Path:
    """A copy of the embedded model with NaN in one layer."""
    copy = tmp_path / "poisoned"
    shutil.copytree(embedded_model(), copy)
    weights = copy / "model.safetensors"
    data = bytearray(weights.read_bytes())
    (length,) = struct.unpack_from("<Q", data)
    start, end = json.loads(data[8 : 8 + length])["embeddings.LayerNorm.weight"]["data_offsets"]
    data[8 + length + start : 8 + length + end] = struct.pack("<f", float("nan")) * ((end - start) // 4)
    weights.chmod(0o600)
    weights.write_bytes(data)
    return copy


def test_health_of_model_with_nan_is_503(poisoned: Path) -> None:
    with running_server("--model", str(poisoned), "--dtype", "float32") as server:
        assert server.started["model"] == "poisoned"
        answer = server.client.post("/highlights", json=ASKED)
        assert (answer.status_code, answer.json()["error"]["kind"]) == (500, "encoder")
        for _ in range(2):  # the second gets the cached result
            health = server.client.get("/health")
            assert (health.status_code, health.json()["error"]["kind"]) == (503, "unhealthy")
        assert server.client.get("/live").status_code == 200


def test_health_of_busy_server(server: ServerProcess, pages: dict[str, str]) -> None:
    body = {"query": "Who?", "documents": list(pages.values())}
    found: list[httpx.Response] = []
    call = threading.Thread(target=lambda: found.append(server.client.post("/highlights", json=body)))
    call.start()
    with httpx.Client(base_url=server.url, timeout=10) as other:
        while call.is_alive():
            assert other.get("/health").status_code == 200
    assert found[0].status_code == 200


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux shows threads")
def test_metrics_count_requests_failures_and_windows(server: ServerProcess) -> None:
    before = {name: metric(server, name) for name in COUNTED}
    assert server.client.post("/highlights", json=ASKED).status_code == 200
    assert server.client.post("/highlights", json={}).status_code == 422
    grown = {name: metric(server, name) - before[name] for name in COUNTED}
    assert grown['pullquote_requests_total{method="POST",route="/highlights",status="200"}'] == 1
    assert grown['pullquote_requests_total{method="POST",route="/highlights",status="422"}'] == 1
    assert grown['pullquote_failures_total{cause="invalid_body"}'] == 1
    assert grown['pullquote_request_duration_seconds_count{route="/highlights"}'] == 2
    assert grown["pullquote_windows_total"] >= 1
    assert grown["pullquote_tokens_encoded_total"] >= 5
    resident = metric(server, "pullquote_resident_memory_bytes")
    assert abs(resident - resident_bytes(server.process.pid)) < 50_000_000
    assert metric(server, "pullquote_cache_bytes") > 0


def test_metrics_for_text_plain_are_prometheus_text(server: ServerProcess) -> None:
    server.client.get("/live")
    answer = server.client.get("/metrics", headers={"accept": "text/plain"})
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = {family.name: family for family in prometheus_client.parser.text_string_to_metric_families(answer.text)}
    requests = families["pullquote_requests"]
    assert requests.type == "counter"
    assert any(sample.labels["route"] == "/live" and sample.value >= 1 for sample in requests.samples)
    assert {family.type for family in families.values()} == {"counter", "gauge", "histogram"}
    assert "# UNIT" not in answer.text
    assert "# EOF" not in answer.text
    for accept in ("*/*", "application/openmetrics-text; version=1.0.0, text/plain; version=0.0.4; q=0.5"):
        answer = server.client.get("/metrics", headers={"accept": accept})
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        assert answer.text.endswith("# EOF\n")


@pytest.mark.parametrize("path", ["/live", "/health", "/openapi.json", "/nowhere", "/v1/models", "/documents/none"])
def test_answers_are_nosniff(server: ServerProcess, path: str) -> None:
    answer = server.client.get(path)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]


COUNTED = [
    'pullquote_requests_total{method="POST",route="/highlights",status="200"}',
    'pullquote_requests_total{method="POST",route="/highlights",status="422"}',
    'pullquote_failures_total{cause="invalid_body"}',
    'pullquote_request_duration_seconds_count{route="/highlights"}',
    "pullquote_windows_total",
    "pullquote_tokens_encoded_total",
]


def test_metric_labels_have_no_client_values(server: ServerProcess) -> None:
    for number in range(20):
        server.client.get(f"/made-up-{number}")
        server.client.request(f"MADEUP{number}", "/live")
        server.client.get(f"/documents/made-up-{number}")
    text = server.client.get("/metrics").text
    assert "made-up" not in text.lower()
    assert "MADEUP" not in text
    assert 'route="/documents/{id}"' in text
    assert text.endswith("# EOF\n")
