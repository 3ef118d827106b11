"""The files of `deploy` ask for metrics that a server has."""

import json
import re
from pathlib import Path

import prometheus_client.parser
import pytest

from support.server_process import ServerProcess

DEPLOY = Path(__file__).parents[3] / "deploy"
PANELS = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text(encoding="utf-8"))["panels"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
# What Prometheus adds to each sample.
ADDED = {"instance", "job", "le"}


@pytest.fixture(scope="module")
def labels(server: ServerProcess) -> dict[str, set[str]]:
    """The labels of each metric, after an answer and a failure."""
    for body in ({"query": "bread", "documents": ["Bread is baked."]}, {}):
        server.client.post("/highlights", json=body)
    text = server.client.get("/metrics", headers={"accept": "text/plain"}).text
    found: dict[str, set[str]] = {}
    for family in prometheus_client.parser.text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.mark.parametrize("query", QUERIES)
def test_dashboard_query_names_metrics_and_labels_of_metrics_route(query: str, labels: dict[str, set[str]]) -> None:
    names = re.findall(r"pullquote_\w+", query)
    assert names
    grouped = {label for group in re.findall(r"by \((.*?)\)", query) for label in re.split(r",\s*", group)}
    selected = set(re.findall(r"(\w+)[!=]~?\"", query))
    for name in names:
        assert name in labels, name
        assert grouped | selected <= labels[name] | ADDED


def test_autoscaler_reads_metric_of_metrics_route(labels: dict[str, set[str]]) -> None:
    (name,) = re.findall(r"metric: \{name: (\w+)\}", (DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
    assert name in labels
