"""OpenAI's routes with OpenAI's own client. Each test imports it, because that takes seconds (`conftest.py`)."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pullquote import Highlighter
from support.messages import names_all, raises
from support.server_process import ServerProcess, letter_server

if TYPE_CHECKING:
    from openai import OpenAI

MODEL = "all-MiniLM-L6-v2"
TEXTS = ["Bread is baked from flour.", "The moon is white.", "漢字とかな 🎉"]


def client_of(server: ServerProcess, api_key: str = "any") -> OpenAI:
    from openai import OpenAI

    return OpenAI(base_url=f"{server.url}/v1", api_key=api_key, max_retries=0)


@pytest.fixture
def client(server: ServerProcess) -> OpenAI:
    return client_of(server)


def test_openai_client_embeddings_match_library(client: OpenAI, highlighter: Highlighter) -> None:
    """The client requests base64."""
    answer = client.embeddings.create(input=TEXTS, model=MODEL)
    vectors = np.array([row.embedding for row in answer.data], dtype=np.float32)
    assert np.abs(vectors - highlighter.embed(TEXTS)).max() < 1e-5
    assert [row.index for row in answer.data] == [0, 1, 2]
    assert answer.model == "all-MiniLM-L6-v2"
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 10


def test_openai_client_reads_base64_and_octet_stream(client: OpenAI, server: ServerProcess) -> None:
    vectors = np.array(server.client.post("/embed", json={"inputs": TEXTS}).json(), np.float32)
    assert np.array_equal([row.embedding for row in client.embeddings.create(input=TEXTS, model=MODEL).data], vectors)
    raw = client.embeddings.with_raw_response.create(
        input=TEXTS, model=MODEL, encoding_format="float", extra_headers={"accept": "application/octet-stream"}
    )
    assert raw.content == vectors.tobytes()


def test_encoding_format_float_matches_base64(client: OpenAI, server: ServerProcess) -> None:
    floats = client.embeddings.create(input="one", model=MODEL, encoding_format="float").data[0].embedding
    packed = server.client.post("/v1/embeddings", json={"input": "one", "model": MODEL, "encoding_format": "base64"})
    data = base64.b64decode(packed.json()["data"][0]["embedding"])
    assert np.array_equal(np.frombuffer(data, "<f4"), np.array(floats, dtype=np.float32))


def test_embeddings_of_token_ids_match_text(client: OpenAI, server: ServerProcess) -> None:
    text = TEXTS[0]
    ids = [token["id"] for token in server.client.post("/tokenize", json={"inputs": text}).json()[0]]
    of_text, of_ids, of_mixed = (
        client.embeddings.create(input=asked, model=MODEL).data[0].embedding for asked in (text, ids, [ids, text])
    )
    assert np.abs(np.array(of_text) - of_ids).max() < 1e-6
    assert np.abs(np.array(of_text) - of_mixed).max() < 1e-6


def test_add_special_tokens_false_takes_ids_as_they_are(client: OpenAI, server: ServerProcess) -> None:
    ids = [token["id"] for token in server.client.post("/tokenize", json={"inputs": TEXTS[0]}).json()[0]]
    bare: dict[str, Any] = {"add_special_tokens": False}
    of_text, of_ids, of_whole = (
        client.embeddings.create(input=asked, model=MODEL, extra_body=bare) for asked in (TEXTS[0], ids[1:-1], ids)
    )
    assert np.abs(np.array(of_text.data[0].embedding) - of_ids.data[0].embedding).max() < 1e-6
    assert of_text.usage.prompt_tokens == of_ids.usage.prompt_tokens == len(ids) - 2
    whole = client.embeddings.create(input=TEXTS[0], model=MODEL).data[0].embedding
    assert np.abs(np.array(whole) - of_whole.data[0].embedding).max() < 1e-6
    assert np.abs(np.array(whole) - of_ids.data[0].embedding).max() > 1e-3


def test_token_ids_of_another_tokenizer_are_refused(client: OpenAI) -> None:
    """The ids that OpenAI's tokenizer has for single words, as LangChain sends them."""
    from openai import BadRequestError

    for ids in ([15339], [14957], [68, 1014], [4438, 374, 19692, 1903, 30]):
        for asked in (ids, [ids, ids]):
            with raises(BadRequestError, "add_special_tokens", "check_embedding_ctx_length"):
                client.embeddings.create(input=asked, model=MODEL)
    with raises(BadRequestError, 100257):
        client.embeddings.create(input=[101, 100257, 102], model=MODEL)


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
    client: OpenAI, body: dict[str, Any], param: str, names: list[object]
) -> None:
    from openai import BadRequestError

    with raises(BadRequestError, *names) as caught:
        client.embeddings.create(model=MODEL, **({"encoding_format": "float"} | body))
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"


def test_openai_route_refuses_long_texts_with_their_length(client: OpenAI) -> None:
    from openai import BadRequestError

    with pytest.raises(BadRequestError) as caught:
        # 602 tokens with the special ones; the model takes 256.
        client.embeddings.create(input=["short", "bread " * 600], model=MODEL)
    assert caught.value.param == "input"
    # What tests of OpenAI, vLLM and llama.cpp look for.
    assert names_all(caught.value.message, "input[1]", 602, 256, "maximum context length", "too large")


def test_dimensions_equal_to_model(client: OpenAI) -> None:
    assert len(client.embeddings.create(input="a", model=MODEL, dimensions=384).data[0].embedding) == 384


def test_models_lists_one_model(client: OpenAI) -> None:
    from openai import NotFoundError

    assert [model.id for model in client.models.list()] == ["all-MiniLM-L6-v2"]
    assert client.models.retrieve("all-MiniLM-L6-v2").owned_by == "pullquote"
    with raises(NotFoundError, "gpt-9"):
        client.models.retrieve("gpt-9")


def test_openai_client_api_key() -> None:
    from openai import AuthenticationError

    with letter_server("--api-key", "first-key", "--api-key", "second-key") as server:
        with client_of(server, "second-key") as client:
            assert len(client.embeddings.create(input="a", model="letters").data) == 1
        with client_of(server, "no-key") as client, pytest.raises(AuthenticationError):
            client.embeddings.create(input="a", model="letters")
