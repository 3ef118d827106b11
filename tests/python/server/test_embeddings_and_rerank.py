"""The routes of OpenAI, Text Embeddings Inference and rerankers, with the official client if there is one."""

import base64
from typing import Any

import numpy as np
import openai
import pytest

from pullquote import Highlighter
from support.messages import names_all, raises
from support.server_process import ServerProcess

TEXTS = ["Bread is baked from flour.", "The moon is white.", "漢字とかな 🎉"]


@pytest.fixture
def client(server: ServerProcess) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0)


def test_openai_client_embeddings_match_library(client: openai.OpenAI, highlighter: Highlighter) -> None:
    """The client requests base64."""
    answer = client.embeddings.create(input=TEXTS, model="text-embedding-3-small")
    vectors = np.array([row.embedding for row in answer.data], dtype=np.float32)
    assert np.abs(vectors - highlighter.embed(TEXTS)).max() < 1e-5
    assert [row.index for row in answer.data] == [0, 1, 2]
    assert answer.model == "all-MiniLM-L6-v2"
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 10


def test_encoding_format_float_matches_base64(client: openai.OpenAI, server: ServerProcess) -> None:
    floats = client.embeddings.create(input="one", model="m", encoding_format="float").data[0].embedding
    packed = server.client.post("/v1/embeddings", json={"input": "one", "model": "m", "encoding_format": "base64"})
    data = base64.b64decode(packed.json()["data"][0]["embedding"])
    assert np.array_equal(np.frombuffer(data, "<f4"), np.array(floats, dtype=np.float32))


def test_embeddings_of_token_ids_match_text(client: openai.OpenAI, server: ServerProcess) -> None:
    text = TEXTS[0]
    ids = [token["id"] for token in server.client.post("/tokenize", json={"inputs": text}).json()[0]]
    of_text, of_ids, of_bare_ids = (
        client.embeddings.create(input=asked, model="m").data[0].embedding for asked in (text, ids, [ids[1:-1]])
    )
    assert np.abs(np.array(of_text) - of_ids).max() < 1e-6
    assert np.abs(np.array(of_text) - of_bare_ids).max() < 1e-6


@pytest.mark.parametrize(
    ("body", "param", "names"),
    [
        ({"input": []}, "input", []),
        ({"input": [[]]}, "input[0]", []),
        ({"input": ["a"] * 2049}, "input", [2049, 2048]),
        ({"input": "a", "dimensions": 100}, "dimensions", [384, 100]),
        # The token ##ing, which cannot start a text.
        ({"input": [[2075]]}, "input[0]", []),
        ({"input": [[4000000000]]}, "input[0]", []),
        ({"input": {"text": "a"}}, "input", ["token ids"]),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format", ["hex", "float", "base64"]),
    ],
    ids=str,
)
def test_invalid_embeddings_request_is_openai_error(
    client: openai.OpenAI, body: dict[str, Any], param: str, names: list[object]
) -> None:
    with raises(openai.UnprocessableEntityError, *names) as caught:
        client.embeddings.create(model="m", **({"encoding_format": "float"} | body))
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"


def test_dimensions_equal_to_model(client: openai.OpenAI) -> None:
    assert len(client.embeddings.create(input="a", model="m", dimensions=384).data[0].embedding) == 384


def test_models_lists_one_model(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["all-MiniLM-L6-v2"]
    assert client.models.retrieve("all-MiniLM-L6-v2").owned_by == "pullquote"
    with raises(openai.NotFoundError, "gpt-9"):
        client.models.retrieve("gpt-9")


def test_embed_matches_library(server: ServerProcess, highlighter: Highlighter) -> None:
    one = server.client.post("/embed", json={"inputs": TEXTS[0]}).json()
    many = server.client.post("/embed", json={"inputs": TEXTS, "normalize": True, "truncate": False}).json()
    assert np.abs(np.array(one, dtype=np.float32) - highlighter.embed(TEXTS[:1])).max() < 1e-5
    assert np.abs(np.array(many, dtype=np.float32) - highlighter.embed(TEXTS)).max() < 1e-5


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"inputs": []}, ["inputs"]),
        ({"inputs": ["short", "long " * 600], "truncate": False}, ["1 of 2", 256]),
        ({"inputs": "a", "normalize": False}, ["normalize"]),
        ({"inputs": "a", "truncation_direction": "Left"}, ["truncation_direction"]),
    ],
    ids=str,
)
def test_invalid_embed_request_is_tei_error(server: ServerProcess, body: dict[str, Any], names: list[object]) -> None:
    answer = server.client.post("/embed", json=body)
    assert answer.status_code == 422
    assert answer.json()["error_type"] == "Validation"
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
    asked = {"model": "m", "query": query, "documents": DOCUMENTS, "top_n": 2, "return_documents": True}
    answer = server.client.post(path, json=asked).json()
    assert [row["index"] for row in answer["results"]] == list(expected[:2])
    assert answer["results"][0]["document"] == {"text": DOCUMENTS[1]}
    assert np.allclose([row["relevance_score"] for row in answer["results"]], cosines[expected[:2]], atol=1e-5)
    assert answer["usage"]["total_tokens"] > 10


def test_rerank_texts_as_tei(server: ServerProcess) -> None:
    asked = {"query": "How is bread made?", "texts": DOCUMENTS, "return_text": True}
    ranks = server.client.post("/rerank", json=asked).json()
    assert ranks[0].keys() == {"index", "score", "text"}
    assert ranks[0]["index"] == 1
    assert [rank["score"] for rank in ranks] == sorted((rank["score"] for rank in ranks), reverse=True)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"query": "a"}, ["documents", "texts"]),
        ({"query": " ", "texts": ["a"]}, ["query"]),
        ({"query": "a", "documents": []}, ["documents"]),
        ({"query": "a", "documents": ["b"], "top_n": 0}, ["top_n"]),
    ],
    ids=str,
)
def test_invalid_rerank_request_is_error_for_each_client(
    server: ServerProcess, body: dict[str, Any], names: list[object]
) -> None:
    answer = server.client.post("/rerank", json=body)
    assert answer.status_code == 422
    assert all(names_all(answer.json()[field], *names) for field in ("error", "message", "detail"))
