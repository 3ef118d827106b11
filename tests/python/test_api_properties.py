"""Requests that are made up from the OpenAPI document: whatever comes, a server answers what the document says it does."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.config import SchemathesisConfig

from serving import Serving, serving

# Small limits are reached, and the document names those of its own server.
LIMITS = {
    "max-documents": "4",
    "max-queries": "3",
    "max-inputs": "4",
    "max-document-bytes": "1000",
    "max-body-bytes": "100000",
    "timeout": "20",
}

# What no schema can say: that lists are as long as each other, that a step is no longer than a window, that ids of tokens
# are those of a text. Whoever asks for a millisecond gets 504.
ACCEPTED = ["2xx", 400, 404, 422, 504]

CONFIG = {
    "checks": {
        "not_a_server_error": {"expected-statuses": ["2xx", "3xx", "4xx", 504]},
        "positive_data_acceptance": {"expected-statuses": ACCEPTED},
    },
}

ASKED = {
    "query": "How is bread made?",
    "documents": ["The moon is white. Bread is baked."],
    "highlight_length": 1,
    "top_k": 1,
}


@pytest.fixture(scope="module")
def small() -> Iterator[Serving]:
    options = [part for name, value in LIMITS.items() for part in (f"--{name}", value)]
    with serving("--dtype", "float32", *options) as server:
        yield server


@pytest.fixture(scope="module")
def api(small: Serving) -> Any:
    return schemathesis.openapi.from_url(f"{small.url}/openapi.json", config=SchemathesisConfig.from_dict(CONFIG))


@pytest.fixture
def steady(small: Serving) -> Iterator[None]:
    """A request that must be answered as ever when all is over."""

    def ask() -> list[str]:
        answer = small.client.post("/highlights", json=ASKED)
        return [highlight["text"] for highlight in answer.json()["results"][0]["highlights"]]

    assert ask() == ["Bread is baked."]
    yield
    assert ask() == ["Bread is baked."]
    assert small.client.get("/health").json() == {"healthy": True}
    assert "panicked" not in small.log


made_up = schemathesis.pytest.from_fixture("api")


@pytest.mark.usefixtures("steady")
@made_up.parametrize()
@settings(max_examples=12, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_answers_are_those_of_the_document(case: Any) -> None:
    case.call_and_validate()
