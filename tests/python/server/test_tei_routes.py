"""Routes of Text Embeddings Inference besides /embed and /rerank, and those of infinity and Exa that are refused or small."""

import re
import time
from typing import Any

import numpy as np
import pytest

from pullquote import Highlighter
from support.messages import names_all
from support.server_process import ServerProcess, letter_server, running_server

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


@pytest.mark.parametrize("path", ["/embed_sparse", "/predict"])
def test_routes_of_other_models_are_424(server: ServerProcess, path: str) -> None:
    answer = server.client.post(path, json={"inputs": "a"})
    assert (answer.status_code, answer.json()["error_type"]) == (424, "Backend")


def test_embed_all_returns_a_vector_for_each_token(server: ServerProcess) -> None:
    """Its mean is what /embed returns; that they are those of transformers is in `integration/test_encoder_parity.py`."""
    tokens = server.client.post("/tokenize", json={"inputs": SENTENCES}).json()
    found = server.client.post("/embed_all", json={"inputs": SENTENCES})
    assert [len(text) for text in found.json()] == [len(text) for text in tokens]
    pooled = server.client.post("/embed", json={"inputs": SENTENCES, "normalize": False}).json()
    for text, vector in zip(found.json(), pooled, strict=True):
        assert np.abs(np.mean(text, axis=0) - vector).max() < 1e-5
    assert (found.headers["x-truncated"], found.headers["x-compute-tokens"]) == ("0", str(sum(map(len, tokens))))
    ids = [[token["id"] for token in text] for text in tokens]
    assert server.client.post("/embed_all", json={"inputs": ids}).json() == found.json()
    bare = server.client.post("/embed_all", json={"inputs": SENTENCES[0], "add_special_tokens": False}).json()
    assert len(bare[0]) == len(tokens[0]) - 2


def test_embed_all_truncates_as_embed(server: ServerProcess) -> None:
    long = "bread " * 300 + "moon " * 300
    cut = server.client.post("/embed_all", json={"inputs": long})
    left = server.client.post("/embed_all", json={"inputs": long, "truncation_direction": "Left"}).json()[0]
    assert (np.shape(cut.json()), np.shape(left)) == ((1, 256, 384), (256, 384))
    assert cut.headers["x-truncated"] == "1"
    assert np.abs(np.array(left) - cut.json()[0]).max() > 0.1
    refused = server.client.post("/embed_all", json={"inputs": [SENTENCES[0], long], "truncate": False})
    assert (refused.status_code, refused.json()["error_type"]) == (413, "Validation")
    assert names_all(refused.json()["error"], "inputs[1]", 602, 256)


def test_embed_all_tokens_are_limited_by_max_queue_bytes_and_need_the_encoder() -> None:
    with running_server("--max-body-bytes", "1048576", "--max-queue-bytes", "1048576") as small:
        assert small.client.post("/embed_all", json={"inputs": ["bread"] * 20}).status_code == 200
        refused = small.client.post("/embed_all", json={"inputs": ["bread"] * 30})
        assert (refused.status_code, refused.json()["error_type"]) == (413, "Validation")
        assert names_all(refused.json()["error"], "inputs", 90, 2**20 // 2 // (384 * 20))
    with letter_server() as letters:
        answer = letters.client.post("/embed_all", json={"inputs": "a"})
        assert (answer.status_code, answer.json()["error_type"]) == (424, "Backend")
        other = letters.client.post("/pooling", json={"input": "a", "task": "token_embed"})
        assert (other.status_code, other.json()["error"]["message"][:31]) == (400, "Unsupported task: 'token_embed'")


@pytest.mark.parametrize(
    ("path", "body", "texts"),
    [
        ("/embed", {"inputs": SENTENCES}, SENTENCES),
        ("/embed_all", {"inputs": SENTENCES}, SENTENCES),
        ("/", {"inputs": SENTENCES[0]}, SENTENCES[:1]),
        ("/similarity", {"inputs": {"source_sentence": "漢字", "sentences": SENTENCES}}, ["漢字", *SENTENCES]),
        ("/rerank", {"query": "bread", "texts": SENTENCES}, ["bread", *SENTENCES]),
        ("/invocations", {"inputs": SENTENCES}, SENTENCES),
    ],
)
@pytest.mark.parametrize("accept", ["application/json", "application/octet-stream"])
def test_answers_have_headers_of_tei(
    server: ServerProcess, path: str, body: dict[str, Any], texts: list[str], accept: str
) -> None:
    answer = server.client.post(path, json=body, headers={"accept": accept})
    assert answer.status_code == 200
    assert answer.headers["x-compute-type"] == "cpu"
    assert int(answer.headers["x-compute-characters"]) == sum(map(len, texts))
    assert int(answer.headers["x-compute-tokens"]) > len(texts)
    parts = [int(answer.headers[f"x-{part}-time"]) for part in ("tokenization", "queue", "inference")]
    assert sum(parts) <= int(answer.headers["x-total-time"]) == int(answer.headers["x-compute-time"])


def test_headers_of_tei_are_on_its_answers_only(server: ServerProcess) -> None:
    for path, body in (("/v1/embeddings", {"input": "a"}), ("/rerank", {"query": "a", "documents": ["b"]})):
        answer = server.client.post(path, json=body)
        assert "x-compute-tokens" in answer.headers
        assert not {"x-compute-type", "x-compute-characters", "x-tokenization-time"} & set(answer.headers), path
    with letter_server() as letters:
        unknown = letters.client.post("/embed", json={"inputs": "a"})
        assert ("x-compute-type" in unknown.headers, unknown.headers["x-compute-characters"]) == (False, "1")


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
    assert (info["max_document_bytes"], info["max_body_bytes"]) == (8 * 1024**2, 32 * 1024**2)
    assert info["tokenization_workers"] >= 1


def test_model_is_named_by_a_hash_of_its_files(server: ServerProcess, highlighter: Highlighter) -> None:
    assert highlighter.model_id is not None
    assert re.fullmatch("[0-9a-f]{32}", highlighter.model_id)
    (listed,) = server.client.get("/v1/models").json()["data"]
    one = server.client.get(f"/v1/models/{listed['id']}").json()
    info = server.client.get("/info").json()
    assert {info["model_sha"], listed["model_sha"], one["model_sha"]} == {highlighter.model_id}


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
