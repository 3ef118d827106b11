"""The routes of OpenAI, Text Embeddings Inference and rerankers."""

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pullquote import Highlighter
from support.messages import names_all, raises
from support.server_process import ServerProcess, StartError, letter_server

MODEL = "all-MiniLM-L6-v2"
TEXTS = ["Bread is baked from flour.", "The moon is white.", "漢字とかな 🎉"]


@pytest.fixture(scope="module")
def unnormalized(highlighter: Highlighter, tmp_path_factory: pytest.TempPathFactory) -> NDArray[np.float32]:
    """The vectors of `TEXTS`, from the same model without the last of its modules, `Normalize`."""
    model = tmp_path_factory.mktemp("model")
    for file in highlighter.model.iterdir():
        (model / file.name).symlink_to(file)
    modules = json.loads((model / "modules.json").read_text())
    assert modules[-1]["type"].endswith("Normalize")
    (model / "modules.json").unlink()
    (model / "modules.json").write_text(json.dumps(modules[:-1]))
    with Highlighter(model, devices="cpu", dtype="float32") as plain:
        return plain.embed(TEXTS)


@pytest.mark.parametrize(
    "asked",
    [
        {"prompt_string": "hello world"},
        {"content": [{"type": "text", "text": "hello "}, {"type": "text", "text": "world"}]},
        ["hello world", {"prompt_string": "hello world"}],
    ],
    ids=str,
)
def test_llama_cpp_inputs_are_texts(server: ServerProcess, highlighter: Highlighter, asked: Any) -> None:
    answer = server.client.post("/v1/embeddings", json={"input": asked}).json()
    expected = highlighter.embed(["hello world"])[0]
    for row in answer["data"]:
        assert np.abs(np.array(row["embedding"], np.float32) - expected).max() < 1e-5


@pytest.mark.parametrize("body", [["hello"], "hello", 5, True], ids=str)
def test_body_that_is_no_object_is_refused(server: ServerProcess, body: Any) -> None:
    for path in ("/v1/embeddings", "/embed", "/rerank", "/v2/embed", "/score", "/highlights", "/tokenize"):
        assert server.client.post(path, json=body).status_code in (400, 422), path


@pytest.mark.parametrize(
    "asked",
    [
        {"content": "a"},
        {"content": [{"type": "image_url"}]},
        {"content": [{"type": 0, "text": "a"}]},
        [1, "a", 2],
        [{}],
    ],
    ids=str,
)
def test_other_inputs_are_refused(server: ServerProcess, asked: Any) -> None:
    answer = server.client.post("/v1/embeddings", json={"input": asked})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input")


def test_rerank_without_query_is_error_of_each_api(server: ServerProcess) -> None:
    cohere = server.client.post("/rerank", json={"documents": ["a"], "texts": None})
    assert (cohere.status_code, cohere.json()["message"]) == (400, cohere.json()["error"])
    tei = server.client.post("/rerank", json={"texts": ["a"]})
    assert (tei.status_code, tei.json().keys()) == (422, {"error", "error_type"})
    none = server.client.post("/rerank", json={"query": "a", "documents": ["a"], "max_chunks_per_doc": 0})
    assert (none.status_code, names_all(none.json()["message"], "max_chunks_per_doc", 1)) == (400, True)


def test_unknown_fields_are_named_in_a_header(server: ServerProcess) -> None:
    answer = server.client.post("/v1/embeddings", json={"input": "a", "user": "u", "made_up": 1, "other": {}})
    assert answer.headers["x-ignored-fields"] == "made_up, other"
    assert "x-ignored-fields" not in server.client.post("/embed", json={"inputs": "a"}).headers
    compared = {"inputs": {"source_sentence": "a", "sentences": ["b"]}, "parameters": {"made_up": 1}}
    nested = server.client.post("/similarity", json=compared)
    assert nested.headers["x-ignored-fields"] == "parameters.made_up"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"embd_normalize": 3}, "embd_normalize"),
        ({"embd_normalize": -1, "normalize": True}, "embd_normalize"),
        ({"normalize": False, "embedding_dtype": "int8", "encoding_format": "base64"}, "normalize"),
        ({"dimensions": 100}, "dimensions"),
        ({"input_type": "made-up"}, "input_type"),
        ({"task": "made-up"}, "task"),
        ({"prompt_name": "made-up"}, "prompt_name"),
        ({"messages": [{"role": "user", "content": "a"}]}, "messages"),
    ],
    ids=str,
)
def test_options_that_are_not_honoured_are_refused(server: ServerProcess, body: dict[str, Any], param: str) -> None:
    answer = server.client.post("/v1/embeddings", json={"input": "a", **body})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_unknown_model_is_404_and_served_names_are_known(server: ServerProcess) -> None:
    for path, body in (
        ("/v1/embeddings", {"input": "a"}),
        ("/embeddings", {"input": "a"}),
        ("/score", {"queries": "a", "documents": "b"}),
        ("/pooling", {"input": "a"}),
        ("/v2/embed", {"texts": ["a"]}),
        ("/rerank", {"query": "a", "documents": ["b"]}),
    ):
        refused = server.client.post(path, json={"model": "gpt-9", **body})
        assert refused.status_code == 404, path
        assert names_all(refused.text, "gpt-9", MODEL)
        for model in (MODEL, "", None):
            assert server.client.post(path, json={"model": model, **body}).status_code == 200, path
    with letter_server("--served-model-name", "text-embedding-3-small", "--served-model-name", "ada") as named:
        for model, status in (("ada", 200), ("text-embedding-3-small", 200), ("other", 404)):
            assert named.client.post("/v1/embeddings", json={"input": "a", "model": model}).status_code == status
        assert named.client.get("/v1/models/ada").status_code == 200
    with letter_server("--served-model-name", "*") as any_name:
        assert any_name.client.post("/v1/embeddings", json={"input": "a", "model": "x"}).status_code == 200


def test_url_prefix_serves_all_routes_under_it_too() -> None:
    with letter_server("--url-prefix", "/api/v9", "--api-key", "k") as server:
        server.client.headers["authorization"] = "Bearer k"
        for prefix in ("", "/api/v9"):
            assert server.client.post(f"{prefix}/embeddings", json={"input": "a"}).status_code == 200
            (model,) = server.client.get(f"{prefix}/models").json()["data"]
            assert model["stats"]["queue_absolute"] == 0
            assert server.client.get(f"{prefix}/live", headers={"authorization": ""}).status_code == 200
            assert server.client.post(f"{prefix}/embed", json={}, headers={"authorization": ""}).status_code == 401
            missing = server.client.get(f"{prefix}/nowhere")
            assert (missing.status_code, missing.json()["error"]["kind"]) == (404, "not_found")
    for prefix in ("api", "/v2", "/a b"):
        with raises(StartError, "--url-prefix", prefix), letter_server("--url-prefix", prefix):
            pass


def test_embed_matches_library(server: ServerProcess, highlighter: Highlighter) -> None:
    one = server.client.post("/embed", json={"inputs": TEXTS[0]}).json()
    many = server.client.post("/embed", json={"inputs": TEXTS, "normalize": True, "truncate": False}).json()
    assert np.abs(np.array(one, dtype=np.float32) - highlighter.embed(TEXTS[:1])).max() < 1e-5
    assert np.abs(np.array(many, dtype=np.float32) - highlighter.embed(TEXTS)).max() < 1e-5


def test_normalize_false_returns_vectors_before_the_normalization(
    server: ServerProcess, unnormalized: NDArray[np.float32], highlighter: Highlighter
) -> None:
    body = {"inputs": TEXTS, "normalize": False}
    numbers = server.client.post("/embed", json=body).json()
    assert np.abs(np.array(numbers, np.float32) - unnormalized).max() < 1e-4
    packed = server.client.post("/embed", json=body, headers={"accept": "application/octet-stream"}).content
    assert np.abs(np.frombuffer(packed, "<f4").reshape(len(TEXTS), -1) - unnormalized).max() < 1e-4
    for field, value in [
        ("normalize", False),
        ("normalized", False),
        ("use_activation", False),
        ("embd_normalize", -1),
    ]:
        rows = server.client.post("/v1/embeddings", json={"input": TEXTS, field: value}).json()["data"]
        assert np.abs(np.array([row["embedding"] for row in rows], np.float32) - unnormalized).max() < 1e-4, field
    lengths = np.linalg.norm(unnormalized, axis=1, keepdims=True)
    assert lengths.min() > 2
    assert np.abs(unnormalized / lengths - highlighter.embed(TEXTS)).max() < 1e-5


@pytest.mark.parametrize(
    ("body", "status", "kind", "names"),
    [
        ({"inputs": []}, 400, "Empty", ["inputs"]),
        ({"inputs": ["a"] * 2049}, 413, "Validation", [2049, 2048]),
        ({"inputs": ["short", "long " * 600], "truncate": False}, 413, "Validation", ["1 of 2", 256]),
        ({"inputs": "a", "normalize": "no"}, 422, "Validation", ["normalize"]),
        ({"inputs": "a", "truncation_direction": "Up"}, 422, "Validation", ["truncation_direction"]),
    ],
    ids=["empty", "batch", "long", "normalize", "direction"],
)
def test_invalid_embed_request_is_tei_error(
    server: ServerProcess, body: dict[str, Any], status: int, kind: str, names: list[object]
) -> None:
    answer = server.client.post("/embed", json=body)
    assert (answer.status_code, answer.json()["error_type"]) == (status, kind)
    assert names_all(answer.json()["error"], *names)


def test_tokenize_lists_tokens_with_byte_offsets(server: ServerProcess) -> None:
    text = "Weiß 漢"
    (tokens,) = server.client.post("/tokenize", json={"inputs": text}).json()
    assert [tokens[0]["text"], tokens[-1]["text"]] == ["[CLS]", "[SEP]"]
    assert tokens[0] | {"id": 0} == {"id": 0, "text": "[CLS]", "special": True, "start": None, "stop": None}
    inner = [token for token in tokens if not token["special"]]
    assert all(text.encode()[t["start"] : t["stop"]].decode() == t["text"] for t in inner)
    (bare,) = server.client.post("/tokenize", json={"inputs": [text], "add_special_tokens": False}).json()
    assert bare == inner


def test_info_describes_model(server: ServerProcess) -> None:
    info = server.client.get("/info").json()
    assert (info["model_id"], info["max_input_length"]) == ("all-MiniLM-L6-v2", 256)
    assert info["model_type"] == {"embedding": {"pooling": "mean"}}


DOCUMENTS = ["The moon is white.", "Bread is baked from flour.", "Ovens are hot."]


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank", "/v2/rerank"])
def test_rerank_documents_by_cosine(server: ServerProcess, highlighter: Highlighter, path: str) -> None:
    query = "How is bread made?"
    cosines = highlighter.embed(DOCUMENTS) @ highlighter.embed([query], role="query")[0]
    expected = np.argsort(-cosines)
    body = {"model": MODEL, "query": query, "documents": DOCUMENTS, "top_n": 2, "return_documents": True}
    answer = server.client.post(path, json=body).json()
    assert [row["index"] for row in answer["results"]] == list(expected[:2])
    assert answer["results"][0]["document"] == {"text": DOCUMENTS[1]}
    assert np.allclose([row["relevance_score"] for row in answer["results"]], cosines[expected[:2]], atol=1e-5)
    assert answer["usage"]["total_tokens"] > 10
    everything = server.client.post(path, json=body | {"top_n": 0}).json()
    assert len(everything["results"]) == 3, "as vLLM's clients mean it"


def test_return_documents_has_the_default_of_each_api(server: ServerProcess) -> None:
    """vLLM's answers of `/rerank` have documents; Cohere's under its versions do not."""
    asked = {"query": "How is bread made?", "documents": DOCUMENTS}
    for path, body, has_documents in (
        ("/rerank", asked, True),
        ("/rerank", asked | {"return_documents": False}, False),
        ("/v1/rerank", asked, False),
        ("/v2/rerank", asked, False),
    ):
        answer = server.client.post(path, json=body).json()
        assert [("document" in row) for row in answer["results"]] == [has_documents] * 3
        assert answer["object"] == "rerank"


def test_rerank_texts_as_tei(server: ServerProcess) -> None:
    body = {"query": "How is bread made?", "texts": DOCUMENTS, "return_text": True}
    ranks = server.client.post("/rerank", json=body).json()
    assert ranks[0].keys() == {"index", "score", "text"}
    assert ranks[0]["index"] == 1
    assert [rank["score"] for rank in ranks] == sorted((rank["score"] for rank in ranks), reverse=True)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"query": "a"}, ["documents", "texts"]),
        ({"query": " ", "texts": ["a"]}, ["query"]),
        ({"query": "a", "documents": []}, ["documents"]),
        ({"query": "a", "documents": ["b"], "top_n": -1}, ["top_n"]),
        (
            {"query": "a", "documents": ["b"], "max_tokens_per_doc": 0},
            ["max_tokens_per_doc must be a positive integer"],
        ),
        ({"query": "a", "documents": [1, 2]}, ["documents"]),
        ({"query": "a", "texts": ["b"], "raw_scores": True}, ["raw_scores"]),
        ({"query": "a", "documents": [{"number": 1}]}, ["documents[0]"]),
    ],
    ids=str,
)
def test_invalid_rerank_request_is_error_for_each_client(
    server: ServerProcess, body: dict[str, Any], names: list[object]
) -> None:
    answer = server.client.post("/rerank", json=body)
    if "texts" in body:
        assert (answer.status_code, answer.json()["error_type"]) == (422, "Validation")
        assert names_all(answer.json()["error"], *names)
        return
    assert answer.status_code == 400
    assert all(names_all(answer.json()[field], *names) for field in ("error", "message", "detail"))


def test_empty_and_too_many_texts_of_rerank_have_the_statuses_of_tei(server: ServerProcess) -> None:
    for texts, status, kind in ([[], 400, "Empty"], [["a"] * 1001, 413, "Validation"]):
        answer = server.client.post("/rerank", json={"query": "a", "texts": texts})
        assert (answer.status_code, answer.json()["error_type"]) == (status, kind)
