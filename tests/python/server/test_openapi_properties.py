"""Requests generated from the OpenAPI document get documented answers.

Schemathesis runs as a command, because its pytest plugin does not support pytest 9.2.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.server_process import ServerProcess, letter_server

# Low limits, which generated requests reach; the document names them.
LIMITS = {
    "max-documents": "4",
    "max-queries": "3",
    "max-inputs": "4",
    "max-document-bytes": "1000",
    "max-body-bytes": "100000",
    "timeout": "20",
}

# A request that asks for a millisecond gets 504. Documents are named that are not stored. No schema can say that a step is no
# longer than a window, nor which ids of tokens a text has; and 3.0 is an integer for schemas, but not for serde.
CONFIG = """
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 504]
positive_data_acceptance.expected-statuses = ["2xx", 404, 504]
# The default, and 413.
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]

[[operations]]
include-path = ["/contents", "/highlights", "/mcp", "/predictions/semantic_highlighter", "/search"]
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404, 422, 504]

[[operations]]
include-path = [
    "/", "/decode", "/embed", "/embedding", "/embeddings", "/invocations", "/pooling", "/prune", "/rerank", "/reranking", "/score",
    "/similarity", "/tokenize", "/detokenize", "/v1/detokenize", "/v1/embed", "/v1/embeddings", "/v1/rerank", "/v1/reranking",
    "/v1/score", "/v2/embed", "/v2/rerank",
]
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404, 413, 422, 504]

[[operations]]
include-path = ["/answer", "/embed_sparse", "/findSimilar", "/predict"]
checks.not_a_server_error.expected-statuses = ["4xx", 501, 504]
checks.positive_data_acceptance.expected-statuses = [424, 501, 504]
checks.negative_data_rejection.expected-statuses = ["4xx", 501]

# The fake encoder has no vectors of tokens.
[[operations]]
include-path = ["/embed_all"]
checks.positive_data_acceptance.expected-statuses = [400, 413, 422, 424, 504]

# Random bytes are no PDF, and the libraries for PDFs may be missing.
[[operations]]
include-path = ["/render"]
checks.not_a_server_error.expected-statuses = ["4xx", 501, 504]
checks.positive_data_acceptance.expected-statuses = [422, 501, 504]

# Its body is that of any of four routes.
[[operations]]
include-path = ["/invocations"]
checks.negative_data_rejection.enabled = false

[generation]
# Unknown headers are ignored.
allow-extra-parameters = false
deterministic = true
max-examples = 12
"""

ASKED = {
    "query": "How is bread made?",
    "documents": ["The moon is white. Bread is baked."],
    "highlight_length": 1,
    "top_k": 1,
}


@pytest.fixture
def small() -> Iterator[ServerProcess]:
    """A server that is checked again after the test."""
    options = [part for name, value in LIMITS.items() for part in (f"--{name}", value)]
    with letter_server("--api-key", "k", *options) as server:
        server.client.headers["x-api-key"] = "k"

        def ask() -> list[str]:
            answer = server.client.post("/highlights", json=ASKED)
            return [highlight["text"] for highlight in answer.json()["results"][0]["highlights"]]

        assert ask() == ["Bread is baked."]
        yield server
        assert ask() == ["Bread is baked."]
        assert server.client.get("/health").json()["healthy"] is True
        assert "panicked" not in server.log


@pytest.mark.slow
def test_generated_requests_get_documented_answers(small: ServerProcess, tmp_path: Path) -> None:
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "schemathesis.cli",
        "--config-file",
        str(config),
        "run",
        f"{small.url}/openapi.json",
    ]
    options = ["--header=Authorization: Bearer k", "--continue-on-failure", "--generation-database=none", "--no-color"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=300, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    operations = small.client.get("/openapi.json").json()["paths"].values()
    # All but /openapi.json.
    count = sum(map(len, operations)) - 1
    assert f"Tested: {count}\n" in done.stdout
    generated = re.search(r"(\d+) generated", done.stdout)
    assert generated
    assert int(generated[1]) > 1000, done.stdout
