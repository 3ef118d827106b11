"""The routes of vLLM and Cohere."""

import base64
import importlib.metadata
from typing import Any

import numpy as np
import pytest

from pullquote import Highlighter
from support.messages import names_all
from support.server_process import ServerProcess

QUERIES = ["How is bread made?", "What colour is the moon?"]
DOCUMENTS = ["Bread is baked from flour.", "The moon is white."]
LONG = "bread " * 600


@pytest.mark.parametrize("names", [("queries", "documents"), ("queries", "items"), ("text_1", "text_2")])
@pytest.mark.parametrize("path", ["/score", "/v1/score"])
def test_score_compares_pairs(
    server: ServerProcess, highlighter: Highlighter, names: tuple[str, str], path: str
) -> None:
    queries = highlighter.embed(QUERIES, role="query")
    cosines = queries @ highlighter.embed(DOCUMENTS).T
    for asked, expected in (
        ((QUERIES[0], DOCUMENTS[0]), cosines[0, :1]),
        ((QUERIES[0], DOCUMENTS), cosines[0]),
        ((QUERIES, DOCUMENTS), cosines.diagonal()),
    ):
        answer = server.client.post(path, json=dict(zip(names, asked, strict=True))).json()
        assert [row["index"] for row in answer["data"]] == list(range(len(expected)))
        assert np.allclose([row["score"] for row in answer["data"]], expected, atol=1e-5)
        assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > 5


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"queries": "a"}, ["documents"]),
        ({"queries": ["a", "b"], "documents": ["c"]}, [2, 1]),
        ({"queries": LONG, "documents": ["c"]}, [602, 256, "queries[0]"]),
        ({"queries": "a", "documents": "b", "truncate_prompt_tokens": 257}, [257, 256, "smaller truncation size"]),
        ({"queries": "a", "documents": "b", "use_activation": False}, ["use_activation"]),
    ],
    ids=["no documents", "counts", "long", "too much", "raw"],
)
def test_invalid_score_request_is_vllm_error(server: ServerProcess, body: dict[str, Any], names: list[object]) -> None:
    answer = server.client.post("/score", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["code"]) == (400, "BadRequestError", 400)
    assert names_all(error["message"], *names)


def test_pooling_embeds(server: ServerProcess, highlighter: Highlighter) -> None:
    body = {"input": DOCUMENTS, "task": "embed"}
    answer = server.client.post("/pooling", json=body).json()
    vectors = np.array([row["data"] for row in answer["data"]], np.float32)
    assert np.abs(vectors - highlighter.embed(DOCUMENTS)).max() < 1e-5
    packed = server.client.post("/pooling", json=body | {"encoding_format": "base64"}).json()["data"]
    assert np.array_equal(np.frombuffer(base64.b64decode(packed[0]["data"]), "<f4"), vectors[0])
    for task in ("classify", "token_classify", "plugin"):
        refused = server.client.post("/pooling", json=body | {"task": task})
        assert refused.status_code == 400
        assert refused.json()["error"]["message"].startswith(f"Unsupported task: {task!r}")


def test_pooling_token_embed_returns_a_vector_for_each_token(server: ServerProcess) -> None:
    raw = server.client.post("/embed_all", json={"inputs": DOCUMENTS}).json()
    body = {"input": DOCUMENTS, "task": "token_embed", "model": "all-MiniLM-L6-v2"}
    answer = server.client.post("/pooling", json=body).json()
    assert [(row["object"], row["index"]) for row in answer["data"]] == [("pooling", 0), ("pooling", 1)]
    assert answer["usage"]["prompt_tokens"] == sum(map(len, raw))
    plain = server.client.post("/pooling", json=body | {"use_activation": False}).json()
    assert [row["data"] for row in plain["data"]] == raw
    packed = server.client.post("/pooling", json=body | {"encoding_format": "base64", "embed_dtype": "float16"}).json()
    for tokens, normalized, bytes_of in zip(raw, answer["data"], packed["data"], strict=True):
        lengths = np.linalg.norm(tokens, axis=1, keepdims=True)
        assert np.abs(tokens / lengths - normalized["data"]).max() < 1e-6
        halves = np.frombuffer(base64.b64decode(bytes_of["data"]), "<f2").reshape(-1, 384)
        assert np.abs(halves - np.array(normalized["data"])).max() < 1e-3


@pytest.mark.parametrize(
    ("path", "change", "names"),
    [
        ("/pooling", {"input": LONG}, ["input[0]", 602, 256]),
        ("/pooling", {"encoding_format": "bytes"}, ["encoding_format", "base64"]),
        ("/pooling", {"dimensions": 16}, ["dimensions", 384, 16]),
        ("/pooling", {"embed_dtype": "int8", "encoding_format": "base64", "use_activation": False}, ["int8"]),
        ("/v1/embeddings", {}, ["input_type", "/pooling"]),
    ],
)
def test_invalid_token_embed_request_is_400(
    server: ServerProcess, path: str, change: dict[str, Any], names: list[object]
) -> None:
    refused = server.client.post(path, json={"input": "a", "task": "token_embed"} | change)
    assert refused.status_code == 400
    assert names_all(refused.json()["error"]["message"], *names)


def test_invocations_answer_what_the_body_asks(server: ServerProcess) -> None:
    for path, body in (
        ("/v1/embeddings", {"input": "a"}),
        ("/embed", {"inputs": ["a"]}),
        ("/rerank", {"query": "a", "documents": ["b"]}),
        ("/rerank", {"query": "a", "texts": ["b"]}),
        ("/score", {"text_1": "a", "text_2": "b"}),
    ):
        own, invoked = (server.client.post(route, json=body) for route in (path, "/invocations"))
        assert invoked.status_code == 200, path
        drop = {"id", "created"}
        if isinstance(own.json(), dict):
            assert {k: v for k, v in own.json().items() if k not in drop} == {
                k: v for k, v in invoked.json().items() if k not in drop
            }
        else:
            assert own.json() == invoked.json()
    assert server.client.post("/invocations", json={"made": "up"}).status_code == 400
    assert server.client.post("/invocations", json={"inputs": []}).json()["error_type"] == "Empty"


def test_tokenize_prompt_as_vllm(server: ServerProcess) -> None:
    tokens = server.client.post("/tokenize", json={"inputs": "Bread is baked."}).json()[0]
    answer = server.client.post("/tokenize", json={"prompt": "Bread is baked.", "model": "all-MiniLM-L6-v2"}).json()
    assert answer["tokens"] == [token["id"] for token in tokens]
    assert (answer["count"], answer["max_model_len"], answer["token_strs"]) == (len(tokens), 256, None)
    body = {"prompt": "Bread is baked.", "return_token_strs": True}
    assert server.client.post("/tokenize", json=body).json()["token_strs"][:2] == ["[CLS]", "bread"]


def test_tokenize_content_as_llama_cpp(server: ServerProcess) -> None:
    inner = server.client.post("/tokenize", json={"inputs": "bread", "add_special_tokens": False}).json()[0]
    for body, length in (({"content": "bread"}, 1), ({"content": "bread", "add_special": True}, 3)):
        tokens = server.client.post("/tokenize", json=body).json()["tokens"]
        assert (len(tokens), inner[0]["id"] in tokens) == (length, True)
    pieces = server.client.post("/tokenize", json={"content": "bread", "with_pieces": True}).json()["tokens"]
    assert pieces == [{"id": inner[0]["id"], "piece": "bread"}]
    both = server.client.post("/tokenize", json={"content": "a", "prompt": "b"})
    assert both.status_code == 422


@pytest.mark.parametrize(
    ("path", "field"), [("/detokenize", "prompt"), ("/detokenize", "content"), ("/v1/detokenize", "text")]
)
def test_detokenize_returns_the_text_of_tokens(server: ServerProcess, path: str, field: str) -> None:
    tokens = server.client.post("/v1/tokenize", json={"text": "bread is baked"}).json()["tokens"]
    assert server.client.post(path, json={"tokens": tokens}).json()[field] == "bread is baked"
    refused = server.client.post(path, json={"tokens": [4_000_000]})
    assert (refused.status_code, names_all(refused.json()["message"], 4_000_000)) == (400, True)
    assert server.client.post(path, json={"tokens": tokens, "model": "gpt-9"}).status_code == 404


def test_version(server: ServerProcess) -> None:
    assert server.client.get("/version").json() == {"version": importlib.metadata.version("pullquote")}


@pytest.mark.parametrize("path", ["/v1/embeddings", "/pooling"])
@pytest.mark.parametrize("field", ["encoding_format", "embed_dtype", "endianness"])
def test_unknown_choice_is_named_as_by_vllm(server: ServerProcess, path: str, field: str) -> None:
    answer = server.client.post(path, json={"input": "a", field: "made_up"})
    assert answer.status_code == 400
    assert names_all(answer.json()["error"]["message"], field, "made_up", "literal_error")


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_cohere_embedding_types(server: ServerProcess, highlighter: Highlighter, version: str) -> None:
    types = ["float", "int8", "uint8", "binary", "ubinary", "base64"]
    body = {"texts": DOCUMENTS, "input_type": "search_document", "embedding_types": types}
    answer = server.client.post(f"/{version}/embed", json=body).json()
    vectors = highlighter.embed(DOCUMENTS)
    embeddings = answer["embeddings"]
    assert np.abs(np.array(embeddings["float"], np.float32) - vectors).max() < 1e-5
    floats = np.array(embeddings["float"], np.float32)
    int8 = np.round(floats * 127).astype(int)
    assert np.array_equal(embeddings["int8"], int8)
    assert np.array_equal(embeddings["uint8"], int8 + 128)
    bits = np.packbits(floats > 0, axis=1).astype(int)
    assert np.array_equal(embeddings["ubinary"], bits)
    assert np.array_equal(embeddings["binary"], bits - 128)
    assert np.array_equal([np.frombuffer(base64.b64decode(row), "<f4") for row in embeddings["base64"]], floats)
    assert answer["texts"] == DOCUMENTS
    assert answer["meta"]["api_version"]["version"] == version[1]
    assert answer["meta"]["billed_units"]["input_tokens"] > 5
    plain = server.client.post(f"/{version}/embed", json={"texts": DOCUMENTS}).json()["embeddings"]
    assert np.array_equal(np.array(plain if version == "v1" else plain["float"], np.float32), floats)


def test_cohere_truncate(server: ServerProcess) -> None:
    text = " ".join(f"alpha{i}" for i in range(300)) + " moon " * 300

    def ask(truncate: str) -> Any:
        return server.client.post("/v2/embed", json={"texts": [text], "truncate": truncate})

    start, end = (np.array(ask(truncate).json()["embeddings"]["float"][0]) for truncate in ("START", "END"))
    assert float(start @ end) < 0.9
    assert names_all(ask("END").json()["meta"]["warnings"][0], "1 of 1", 256)
    assert ask("NONE").status_code == 400


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({}, ["texts"]),
        ({"texts": []}, ["texts"]),
        ({"texts": ["a"], "input_type": "nonexistent_type"}, ["Unsupported input_type", "search_query"]),
        ({"texts": ["a"], "embedding_types": ["fp8"]}, ["embedding_types[0]", "fp8", "ubinary"]),
        ({"texts": ["a"], "embedding_types": []}, ["embedding_types"]),
        ({"inputs": [{"content": [{"type": 0, "text": "a"}]}]}, ["inputs[0].content[0]", "text"]),
        ({"texts": ["a"], "output_dimension": 100}, ["dimensions", 100]),
    ],
    ids=str,
)
def test_invalid_cohere_request_is_error_for_each_client(
    server: ServerProcess, body: dict[str, Any], names: list[object]
) -> None:
    answer = server.client.post("/v2/embed", json=body)
    assert answer.status_code == 400
    assert names_all(answer.json()["message"], *names)
    assert names_all(answer.json()["error"]["message"], *names)


def test_rerank_documents_with_any_fields(server: ServerProcess) -> None:
    documents: list[dict[str, Any]] = [
        {"title": "Moon", "body": "It is white."},
        {"title": "Bread", "body": "It is baked.", "pages": 3},
    ]
    asked = {"query": "How is bread baked?", "documents": documents, "return_documents": True}
    answers = [server.client.post(f"/{version}/rerank", json=asked).json() for version in ("v1", "v2")]
    assert [answer["meta"]["api_version"]["version"] for answer in answers] == ["1", "2"]
    best = answers[0]["results"][0]
    assert best["document"] == {"text": "It is baked.\nBread", **documents[1]}
    titles = server.client.post("/v1/rerank", json=asked | {"rank_fields": ["title"]}).json()["results"][0]
    assert (titles["index"], titles["document"]["text"]) == (1, "Bread")
    whole = [{"text": "Bread is baked.", "url": "https://example.com"}]
    (row,) = server.client.post("/v1/rerank", json=asked | {"documents": whole}).json()["results"]
    assert row["document"] == whole[0]
