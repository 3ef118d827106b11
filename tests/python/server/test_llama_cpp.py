"""llama.cpp's own routes: `/embedding`, `/reranking` and `/v1/health`."""

import numpy as np
import pytest

from pullquote import Highlighter
from support.messages import names_all
from support.server_process import ServerProcess, letter_server

DOCUMENTS = ["The moon is white.", "Bread is baked from flour.", "Ovens are hot."]


@pytest.mark.parametrize("field", ["content", "input"])
def test_embedding_is_a_list_of_lists_of_vectors(server: ServerProcess, highlighter: Highlighter, field: str) -> None:
    answer = server.client.post("/embedding", json={field: DOCUMENTS}).json()
    assert [(row.keys(), row["index"]) for row in answer] == [({"index", "embedding"}, index) for index in range(3)]
    vectors = np.array([row["embedding"] for row in answer], np.float32)
    assert vectors.shape == (3, 1, 384)
    assert np.abs(vectors[:, 0] - highlighter.embed(DOCUMENTS)).max() < 1e-5
    (one,) = server.client.post("/embedding", json={field: DOCUMENTS[0], "embd_normalize": -1}).json()
    assert np.linalg.norm(one["embedding"][0]) > 1.5


def test_embedding_has_length_one_whatever_the_model_says() -> None:
    with letter_server() as letters:
        (row,) = letters.client.post("/embedding", json={"content": "a moon"}).json()
        (raw,) = letters.client.post("/embedding", json={"content": "a moon", "embd_normalize": -1}).json()
    assert np.linalg.norm(row["embedding"][0]) == pytest.approx(1)
    assert np.linalg.norm(raw["embedding"][0]) != pytest.approx(1)


def test_invalid_embedding_request_is_400(server: ServerProcess) -> None:
    for body, names in (
        ({"content": "bread " * 600}, ["content[0]", 602, 256]),
        ({"content": "a", "input": "b"}, ["content"]),
        ({"content": "a", "embd_normalize": 1}, ["embd_normalize", 1]),
        ({}, ["content"]),
    ):
        refused = server.client.post("/embedding", json=body)
        assert refused.status_code == 400
        assert names_all(refused.json()["error"]["message"], *names)
    ignored = server.client.post("/embedding", json={"content": "a", "encoding_format": "base64"})
    assert (ignored.status_code, ignored.headers["x-ignored-fields"]) == (200, "encoding_format")


@pytest.mark.parametrize("path", ["/reranking", "/v1/reranking"])
def test_reranking_is_rerank_without_documents(server: ServerProcess, path: str) -> None:
    body = {"query": "How is bread made?", "documents": DOCUMENTS, "top_n": 2}
    answer = server.client.post(path, json=body).json()
    assert answer["results"] == server.client.post("/v1/rerank", json=body).json()["results"]
    assert [row.keys() for row in answer["results"]] == [{"index", "relevance_score"}] * 2
    refused = server.client.post(path, json={"query": "a"})
    assert (refused.status_code, names_all(refused.json()["message"], "documents")) == (400, True)


def test_v1_health_needs_no_key() -> None:
    with letter_server("--api-key", "k") as keyed:
        answer = keyed.client.get("/v1/health")
        assert (answer.status_code, answer.json()["status"]) == (200, "ok")
        assert keyed.client.post("/embedding", json={"content": "a"}).status_code == 401
