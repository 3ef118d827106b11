"""Texts over the model's limit: refused or cut as each API does, and never without a word."""

from typing import Any

import numpy as np
import pytest

from pullquote import Highlighter
from support.messages import names_all
from support.server_process import ServerProcess

# 602 tokens with the special ones; the model takes 256.
LONG = "bread " * 600
START, END = "Bread is baked from flour. ", "The moon is white and has no air. "


def vector(answer: Any) -> Any:
    return np.array(answer.json()["data"][0]["embedding"], np.float32)


@pytest.mark.parametrize(
    "asked", [{"truncate": True}, {"auto_truncate": True}, {"truncate_prompt_tokens": -1}], ids=str
)
def test_truncation_that_is_asked_for_is_said(server: ServerProcess, asked: dict[str, Any]) -> None:
    answer = server.client.post("/v1/embeddings", json={"input": ["short", LONG], **asked})
    assert (answer.status_code, answer.headers["x-truncated"]) == (200, "1")
    assert answer.json()["usage"]["truncated"] == 1
    assert answer.json()["usage"]["prompt_tokens"] == 256 + 3


def test_routes_that_truncate_by_default_say_so(server: ServerProcess) -> None:
    asked: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("/embeddings", {"input": LONG}, {"truncate": False}),
        ("/embed", {"inputs": LONG}, {"truncate": False}),
        ("/", {"inputs": LONG}, {"truncate": False}),
        ("/similarity", {"inputs": {"source_sentence": "a", "sentences": [LONG]}}, {"parameters": {"truncate": False}}),
        ("/v2/embed", {"texts": [LONG]}, {"truncate": "NONE"}),
        ("/rerank", {"query": LONG, "texts": ["a"]}, {"truncate": False}),
    ]
    for path, body, refusing in asked:
        answer = server.client.post(path, json=body)
        assert (answer.status_code, answer.headers["x-truncated"]) == (200, "1"), path
        refused = server.client.post(path, json=body | refusing)
        assert refused.status_code == (400 if path in ("/embeddings", "/v2/embed") else 413), path
        assert names_all(refused.text, 602, 256), path
    headers = server.client.post("/embed", json={"inputs": ["a", "a"]}).headers
    assert (headers["x-truncated"], headers["x-compute-tokens"]) == ("0", "6")


@pytest.mark.parametrize(("side", "kept"), [("left", END), ("right", START)])
def test_truncation_side_keeps_the_other_end(
    server: ServerProcess, highlighter: Highlighter, side: str, kept: str
) -> None:
    text = START + "the " * 300 + END
    tokens = len(server.client.post("/tokenize", json={"inputs": kept}).json()[0])
    expected = highlighter.embed([kept])[0]
    body = {"input": text, "truncate_prompt_tokens": tokens}
    for name in ("truncation_side", "truncation_direction"):
        answer = server.client.post("/v1/embeddings", json=body | {name: side})
        assert np.abs(vector(answer) - expected).max() < 1e-5
        assert answer.json()["usage"]["prompt_tokens"] == tokens
    tei = server.client.post("/embed", json={"inputs": "x " * 300 + text, "truncation_direction": side.title()}).json()
    whole = server.client.post("/embed", json={"inputs": "x " * 300 + text}).json()
    assert (np.abs(np.array(tei) - np.array(whole)).max() > 1e-2) == (side == "left")


@pytest.mark.parametrize("tokens", [257, 0, 2, -2])
def test_truncate_prompt_tokens_that_cannot_be_is_refused(server: ServerProcess, tokens: int) -> None:
    answer = server.client.post("/v1/embeddings", json={"input": "a", "truncate_prompt_tokens": tokens})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "truncate_prompt_tokens")
    # The field is vLLM's, and so is the error.
    assert answer.json()["error"]["type"] == "BadRequestError"
    assert names_all(answer.text, tokens, 256)


def test_rerank_reads_long_documents_to_their_end(server: ServerProcess) -> None:
    """The answer is beyond the model's limit."""
    query = "How is bread made?"
    filler = "The harbour was quiet in the morning, and the boats lay still. " * 60
    documents = [filler + "Bread is baked from flour, water and yeast.", filler, "The moon is white."]
    for body in ({"documents": documents}, {"texts": documents}):
        answer = server.client.post("/rerank", json={"query": query, **body}).json()
        ranks = answer["results"] if isinstance(answer, dict) else answer
        scores = {rank["index"]: rank.get("relevance_score", rank.get("score")) for rank in ranks}
        assert ranks[0]["index"] == 0
        assert scores[0] > 0.3 > scores[1]
    cut = server.client.post("/rerank", json={"query": query, "documents": documents, "max_tokens_per_doc": 200}).json()
    scores = {row["index"]: row["relevance_score"] for row in cut["results"]}
    assert scores[0] == pytest.approx(scores[1], abs=0.02)


def test_rerank_refuses_long_queries_of_documents(server: ServerProcess) -> None:
    answer = server.client.post("/rerank", json={"query": LONG, "documents": ["a"]})
    assert answer.status_code == 400
    assert names_all(answer.text, 602, 256)
    assert "Please reduce the length of the input prompt" in answer.text
