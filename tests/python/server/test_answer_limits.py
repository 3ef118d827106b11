"""Answers, queries and named texts are bounded by what a request sends."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from support.messages import names_all
from support.server_process import ServerProcess, letter_server, metric

MULTIPLE, LEAST = 80, 2**20
MOON = "".join(f"The moon is {number}. " for number in range(2_500))
HEADED = f"# {'moon ' * 4_000}\n\n{MOON}"
QUEUE = 40 * 2**20


@pytest.fixture(scope="module")
def letters() -> Iterator[ServerProcess]:
    with letter_server("--max-queue-bytes", str(QUEUE)) as server:
        yield server


def highlights(document: str, **options: Any) -> dict[str, Any]:
    return {"query": "moon is", "documents": [document]} | options


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (highlights(MOON, context=2_500, top_k=2_500, highlight_length=1), "context"),
        (highlights(HEADED, top_k=1_000, highlight_length=1, format="markdown"), "top_k"),
        (highlights(MOON, top_k=2_500, pre_tags="<" * 5_000, post_tags=">"), "pre_tags"),
        (highlights(MOON, top_k=2_500, pre_tags="<" * 5_000, post_tags=">", context=1), "context"),
    ],
    ids=["context", "breadcrumbs", "pre_tags", "both"],
)
def test_answer_over_multiple_of_request_is_400(letters: ServerProcess, asked: dict[str, Any], field: str) -> None:
    for accept in ("application/json", "application/x-ndjson"):
        answer = letters.client.post("/highlights", json=asked, headers={"accept": accept})
        error = answer.json()["error"]
        assert (answer.status_code, error["kind"], error.get("field")) == (400, "invalid_argument", field), error
        assert names_all(error["message"], field, "top_k")
    assert letters.client.post("/highlights", json=highlights(MOON)).status_code == 200


@pytest.mark.parametrize(
    "asked",
    [
        highlights("a b.\n" * 20_000, top_k=20_000, highlight_length=1),
        highlights(MOON, top_k=2_500, highlight_length=1, context=5, explain=True, pre_tags="<em>"),
        highlights("# a\n\nb\n\n" * 5_000, format="markdown", return_blocks=True, return_texts=True),
        {
            "query": [f"moon {number}" for number in range(64)],
            "documents": ["The moon is white."] * 300,
            "pairing": "all",
        },
    ],
    ids=["short lines", "all options", "blocks", "pairing"],
)
def test_answer_in_proportion_to_request_is_written(letters: ServerProcess, asked: dict[str, Any]) -> None:
    answer = letters.client.post("/highlights", json=asked)
    assert answer.status_code == 200, answer.text[:500]
    queries = len(asked["query"]) if isinstance(asked["query"], list) else 1
    assert len(answer.content) <= MULTIPLE * len(json.dumps(asked)) * queries + LEAST
    assert int(answer.headers["content-length"]) == len(answer.content)


def test_page_of_several_queries_has_text_and_blocks_once(letters: ServerProcess) -> None:
    pages = ["# Moon\n\nThe moon is white.", "Bread is baked."]
    body = highlights("", query=["moon", "bread"], documents=pages, format="markdown", pairing="all")
    whole = letters.client.post("/highlights", json=body | {"return_texts": True, "return_blocks": True}).json()
    assert [(page["query"], page["index"]) for page in whole["results"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [page.get("text") for page in whole["results"]] == [*pages, None, None]
    assert [len(page.get("blocks", [])) for page in whole["results"]] == [2, 1, 0, 0]
    each = body | {"pairing": "each", "return_texts": True}
    assert [page["text"] for page in letters.client.post("/highlights", json=each).json()["results"]] == pages


def test_return_vectors_are_limited_by_max_queue_bytes() -> None:
    with letter_server("--max-body-bytes", "1048576", "--max-queue-bytes", "1048576") as small:
        least = {"return_vectors": True, "top_k": 10_000, "highlight_length": 1}
        assert small.client.post("/highlights", json=highlights("The moon is.", **least)).status_code == 200
        error = small.client.post("/highlights", json=highlights(MOON * 2, **least)).json()["error"]
        assert (error["kind"], error["field"]) == ("invalid_argument", "return_vectors")
        assert "top_k" in error["message"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/tokenize", {"inputs": "[" * 400_000}, 413),
        ("/tokenize", {"inputs": ["[" * 100_000] * 4}, 413),
        ("/tokenize", {"inputs": "[" * 200_000}, 200),
        ("/tokenize", {"prompt": "[" * 200_000, "return_token_strs": True}, 200),
        ("/tokenize", {"content": "[" * 200_000, "with_pieces": True}, 200),
        ("/v1/tokenize", {"text": "[" * 200_000}, 200),
    ],
)
def test_tokens_of_large_texts_are_written_or_refused(
    letters: ServerProcess, path: str, body: dict[str, Any], status: int
) -> None:
    answer = letters.client.post(path, json=body)
    assert answer.status_code == status, answer.text[:500]
    if status == 413:
        assert answer.json()["error_type"] == "Validation"
        assert names_all(answer.json()["error"], "inputs", QUEUE // 2, "shorter")
    else:
        assert answer.text.count("[") >= 200_000


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/highlights", {"query": "{}", "documents": ["a"]}, "query"),
        ("/highlights", {"query": ["a", "{}"], "documents": ["a"]}, "query[1]"),
        ("/rerank", {"query": "{}", "documents": ["a"]}, "query"),
        ("/v2/rerank", {"query": "{}", "documents": ["a"]}, "query"),
        ("/rerank", {"query": "{}", "texts": ["a"]}, "query"),
        ("/search", {"query": "{}"}, "query"),
        ("/contents", {"ids": ["a"], "highlights": {"query": "{}"}}, "highlights.query"),
        ("/predictions/semantic_highlighter", {"question": "{}", "context": "a"}, "question"),
    ],
)
def test_query_over_max_query_bytes_is_refused(
    letters: ServerProcess, path: str, body: dict[str, Any], field: str
) -> None:
    def post(length: int) -> httpx.Response:
        return letters.client.post(path, content=json.dumps(body).replace("{}", "é" * (length // 2)))

    letters.client.headers["content-type"] = "application/json"
    assert post(2**16).status_code == 200, post(2**16).text
    refused = post(2**16 + 2)
    assert refused.status_code in {400, 413, 422}
    assert names_all(refused.text, field, 2**16, 2**16 + 2, "max-query-bytes")


def test_named_texts_count_as_sent(letters: ServerProcess) -> None:
    """A few bytes of ids may stand for much text: it may be answered, but is limited like bodies."""
    large = "The moon is white. " * 200_000
    assert letters.client.put("/documents/large", json={"text": large}).status_code == 201
    assert letters.client.get("/documents/large").json()["text"] == large
    body = {"query": "moon", "documents": {"ids": ["large"]}, "return_texts": True, "top_k": 1}
    assert letters.client.post("/highlights", json=body).json()["results"][0]["text"] == large
    many = {"query": "moon", "documents": {"ids": ["large"] * 100}}
    for path in ("/highlights", "/rerank"):
        refused = letters.client.post(path, json=many)
        assert refused.status_code == 413, refused.text[:300]
        assert names_all(refused.text, QUEUE, "max-queue-bytes")
    refused = letters.client.post("/contents", json={"ids": ["large"] * 100, "text": True})
    assert refused.status_code == 413, refused.text[:300]
    fields = {"documents": [{"a": large}], "rank_fields": ["a"] * 1_000, "query": "moon"}
    refused = letters.client.post("/rerank", json=fields)
    assert (refused.status_code, "documents[0]" in refused.text) == (400, True)
    assert metric(letters, "pullquote_requests_running") == 0
