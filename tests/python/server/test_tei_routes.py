"""Routes of Text Embeddings Inference besides /embed and /rerank, and those of infinity and Exa that are refused or small."""

import time
from typing import Any

import numpy as np
import pytest

from pullquote import Highlighter
from support.messages import names_all
from support.server_process import ServerProcess, letter_server

SENTENCES = ["The moon is white.", "Bread is baked from flour."]


def test_root_embeds_and_compares(server: ServerProcess, highlighter: Highlighter) -> None:
    vectors = highlighter.embed(SENTENCES)
    embedded = server.client.post("/", json={"inputs": SENTENCES}).json()
    assert np.abs(np.array(embedded, np.float32) - vectors).max() < 1e-5
    compared = {"inputs": {"source_sentence": "How is bread made?", "sentences": SENTENCES}}
    expected = vectors @ highlighter.embed(["How is bread made?"])[0]
    for path in ("/", "/similarity"):
        assert np.allclose(server.client.post(path, json=compared).json(), expected, atol=1e-5)
    with letter_server("--api-key", "k") as keyed:
        assert keyed.client.get("/").status_code == 200
        assert keyed.client.post("/", json={"inputs": "a"}).status_code == 401


@pytest.mark.parametrize("path", ["/embed_all", "/embed_sparse", "/predict"])
def test_routes_of_other_models_are_424(server: ServerProcess, path: str) -> None:
    answer = server.client.post(path, json={"inputs": "a"})
    assert (answer.status_code, answer.json()["error_type"]) == (424, "Backend")


def test_lists_in_place_of_objects_are_refused(server: ServerProcess) -> None:
    """serde takes a list for the fields of an object, in their order."""
    sentences = {"source_sentence": "a", "sentences": ["b"]}
    for path, body, field in (
        ("/similarity", {"inputs": ["a", ["b"]]}, "inputs"),
        ("/similarity", {"inputs": sentences, "parameters": [True, "Left", None]}, "parameters"),
        ("/v2/embed", {"inputs": [[[{"type": "text", "text": "a"}]]]}, "inputs[0]"),
        ("/contents", {"documents": [["id", None, None, "text"]]}, "documents[0]"),
        ("/highlights", {"query": "a", "documents": [["id", None, "text"]]}, "documents[0]"),
    ):
        answer = server.client.post(path, json=body)
        assert answer.status_code in {400, 422}, path
        assert names_all(answer.text, field), path
    one = server.client.post("/", json={"inputs": ["a"]}).json()
    assert np.array(one).shape == (1, 384)


@pytest.mark.parametrize(
    ("inputs", "status", "kind"),
    [
        ([], 422, "Validation"),
        ({"source_sentence": "a"}, 422, "Validation"),
        ({"source_sentence": "a", "sentences": []}, 400, "Empty"),
    ],
    ids=str,
)
def test_invalid_similarity_request_is_tei_error(server: ServerProcess, inputs: Any, status: int, kind: str) -> None:
    answer = server.client.post("/similarity", json={"inputs": inputs})
    assert (answer.status_code, answer.json()["error_type"]) == (status, kind)


def test_decode_returns_the_texts_of_ids(server: ServerProcess) -> None:
    lists = [
        [token["id"] for token in tokens]
        for tokens in server.client.post("/tokenize", json={"inputs": SENTENCES}).json()
    ]
    assert server.client.post("/decode", json={"ids": lists}).json() == [text.lower() for text in SENTENCES]
    (whole,) = server.client.post("/decode", json={"ids": lists[0], "skip_special_tokens": False}).json()
    assert whole.startswith("[CLS]")
    assert server.client.post("/decode", json={"ids": []}).status_code == 422
    refused = server.client.post("/decode", json={"ids": [4_000_000]})
    assert refused.status_code == 422
    assert names_all(refused.json()["error"], 4_000_000)


def test_info_has_all_fields(server: ServerProcess) -> None:
    info = server.client.get("/info").json()
    required = "model_id model_sha model_dtype model_type max_concurrent_requests max_input_length max_batch_tokens"
    required += " max_batch_requests max_client_batch_size auto_truncate tokenization_workers version sha docker_label"
    assert set(required.split()) <= info.keys()
    assert info["tokenization_workers"] >= 1


def test_ping_and_health_have_the_time(server: ServerProcess) -> None:
    for path in ("/ping", "/health"):
        assert abs(server.client.get(path).json()["unix"] - time.time()) < 60
    with letter_server("--api-key", "k") as keyed:
        assert keyed.client.get("/ping").status_code == 200


def test_models_have_stats(server: ServerProcess) -> None:
    for path in ("/models", "/v1/models"):
        (model,) = server.client.get(path).json()["data"]
        assert model["stats"].keys() == {"queue_fraction", "queue_absolute", "results_pending", "batch_size"}
        assert model["capabilities"] == ["embed", "rerank"]


@pytest.mark.parametrize("path", ["/findSimilar", "/answer"])
def test_exa_routes_without_an_index_of_the_web_are_refused(server: ServerProcess, path: str) -> None:
    answer = server.client.post(path, json={"url": "https://example.com", "query": "a"})
    assert answer.status_code == 501
    assert answer.json()["tag"] == "NOT_IMPLEMENTED"
    assert "/search" in answer.json()["error"]
