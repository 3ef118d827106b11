"""The bodies of vLLM's plugins match those of ``POST /highlights`` of ``pullquote serve``, valid and invalid."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pullquote import errors
from pullquote._models.choice import embedded_model
from pullquote.engine import Hosted
from pullquote.vllm._bodies import InvalidRequestError, error_response, kind_of, read_body
from pullquote.vllm._settings import Settings
from support.fake_id_encoder import DIMENSION, encoder
from support.messages import raises
from support.server_process import ServerProcess, running_server

SETTINGS = Settings()
MOON = "Cats sleep a lot. The moon is 384,400 km away. Bread is baked."
HTML = "<title>Caf&eacute;</title><h1>Caf&eacute;</h1><p>Bread &amp; butter 🍞 cost 3 €.</p><p>The moon is white.</p>"
TABLE = "# Prices\n\n| item | price |\n|---|---|\n| bread | 3 |\n| milk | 2 |\n\nThe moon is far."
BODIES: list[dict[str, Any]] = [
    {"query": "How far is the moon?", "documents": [MOON]},
    {
        "query": "bread",
        "documents": [{"id": "a", "title": "Bread", "text": MOON}, {"text": ""}, HTML],
        "format": "auto",
    },
    {"query": ["moon", "bread"], "documents": [MOON, HTML], "pairing": "all"},
    {"query": ["moon"], "documents": [MOON, HTML], "pairing": "all"},
    {"query": ["moon", "bread"], "documents": [MOON]},
    {"query": ["moon", "bread"], "documents": [MOON, HTML], "pairing": "each", "effort": "full"},
    {"query": ["moon", "bread"], "documents": [MOON, HTML], "fuse": True, "context": 1, "explain": True},
    {
        "query": "moon",
        "documents": [HTML],
        "format": "html",
        "return_texts": True,
        "return_vectors": False,
        "lexical_weight": 0.3,
        "offsets": "codepoint",
    },
    {"query": "moon", "documents": [MOON], "min_score": 0.99, "timeout": 20, "priority": 3},
    {"query": "cost of bread", "documents": [HTML], "format": "html", "offsets": "utf16", "return_blocks": True},
    {
        "query": "moon",
        "documents": [MOON, "Köln 🌙 Mond"],
        "offsets": "byte",
        "pre_tags": ["<b>"],
        "post_tags": ["</b>"],
    },
    {"query": "moon & bread", "documents": [f"{MOON} A & B."], "pre_tags": "<b>", "encoder": "default"},
    {"query": "price of bread", "documents": [TABLE], "format": "markdown", "top_k": 1},
    {"query": "moon", "documents": [MOON], "max_chars": 3},
]


@pytest.fixture(scope="module")
def id_server() -> Iterator[ServerProcess]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
        model = str(embedded_model())
        with running_server("--model", model, "--encoder", "support.fake_id_encoder:encoder", device=None) as server:
            yield server


@pytest.fixture(scope="module")
def hosted() -> Iterator[Hosted]:
    with Hosted(embedded_model(), DIMENSION) as hosted:
        yield hosted


@pytest.mark.parametrize("body", BODIES, ids=lambda body: json.dumps(body)[:60])
def test_answers_match_server(id_server: ServerProcess, hosted: Hosted, body: dict[str, Any]) -> None:
    call = hosted.start_body(read_body(json.dumps(body).encode(), SETTINGS), queued=0.5)
    batches = call.advance()
    while call.result is None:
        batches = call.advance([(batch.ticket, encoder.encode_ids(batch.ids, batch.lengths)) for batch in batches])
    ours = json.loads(call.result)
    assert ours["timings"]["queue"] == 0.5
    theirs = id_server.client.post("/highlights", json=body)
    assert theirs.status_code == 200, theirs.text
    # Cached pages and times differ between the two.
    for one in (expected := theirs.json()), ours:
        for unsteady in ("encoded", "tokens"):
            del one["usage"][unsteady]
        assert set(one.pop("timings")) == {"queue", "cutting", "tokenizing", "waiting", "ranking"}
    assert rounded(ours) == rounded(expected)
    assert [list(page) for page in ours["results"]] == [list(page) for page in expected["results"]]


def rounded(value: Any) -> Any:
    """Scores differ in their last bits with the batch."""
    if isinstance(value, float):
        return pytest.approx(value, abs=2e-5)
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return {name: rounded(one) for name, one in value.items()} if isinstance(value, dict) else value


WRONG: list[tuple[Any, str | None]] = [
    ([], None),
    ({"documents": [MOON]}, "query"),
    ({"query": "moon"}, "documents"),
    ({"query": 3, "documents": [MOON]}, "query"),
    ({"query": ["moon", 3], "documents": [MOON]}, "query"),
    ({"query": [], "documents": [MOON]}, "query"),
    ({"query": ["moon"] * 65, "documents": [MOON]}, "query"),
    ({"query": "moon", "documents": []}, "documents"),
    ({"query": "moon", "documents": MOON}, "documents"),
    ({"query": "moon", "documents": [MOON, 3]}, "documents[1]"),
    ({"query": "moon", "documents": [{"text": None}]}, "documents[0]"),
    ({"query": "moon", "documents": [{"text": MOON, "url": "b"}]}, "documents[0].url"),
    ({"query": "moon", "documents": [MOON] * 1001}, "documents"),
    ({"query": "moon", "documents": ["x" * (8 * 1024 * 1024 + 1)]}, "documents[0]"),
    ({"query": "moon", "documents": [MOON], "tpo_k": 3}, "tpo_k"),
    ({"query": "moon", "documents": [MOON], "titles": ["a"]}, "titles"),
    ({"query": "moon", "documents": [MOON], "offsets": "utf32"}, "offsets"),
    ({"query": "moon", "documents": [MOON], "return_texts": 1}, "return_texts"),
    ({"query": "moon", "documents": [MOON], "top_k": 0}, "top_k"),
    ({"query": "moon", "documents": [MOON], "top_k": "many"}, "top_k"),
    ({"query": ["moon", "bread"], "documents": [MOON, HTML]}, "pairing"),
]
# What the server answers, and a host does not: it stores nothing and returns no vectors.
WRONG_HERE: list[tuple[Any, str]] = [
    ({"query": "moon", "documents": [{"id": "a"}]}, "documents[0]"),
    ({"query": "moon", "documents": {"ids": ["a"]}}, "documents[0]"),
    ({"query": "moon", "documents": [MOON], "return_vectors": True}, "return_vectors"),
]


@pytest.mark.parametrize(("body", "field"), WRONG, ids=lambda part: json.dumps(part)[:60])
def test_refusals_match_server(id_server: ServerProcess, body: Any, field: str | None) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read_body(json.dumps(body).encode(), SETTINGS)
    status, told, headers = error_response(refused.value, "id")
    assert (told["request_id"], told["error"].get("field")) == ("id", field)
    theirs = id_server.client.post("/highlights", json=body)
    assert (status, told["error"]) == (theirs.status_code, theirs.json()["error"])
    assert headers["x-error-kind"] == theirs.headers["x-error-kind"]


@pytest.mark.parametrize(("body", "field"), WRONG_HERE, ids=lambda part: json.dumps(part)[:60])
def test_host_stores_no_documents_and_returns_no_vectors(body: Any, field: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read_body(json.dumps(body).encode(), SETTINGS)
    assert (refused.value.status, refused.value.kind, refused.value.field) == (422, "invalid_body", field)


@pytest.mark.parametrize("body", [b"", b"{", b'{"query": "a"} x', b'{"query": ' + b"[" * 100_000])
def test_malformed_json_is_malformed_body(body: bytes) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read_body(body, SETTINGS)
    assert (int(refused.value.status), refused.value.kind) == (400, "malformed_body")


def test_error_kinds_match_openapi(server: ServerProcess) -> None:
    names = {
        kind_of(getattr(errors, name)())
        for name in errors.__all__
        if name != "PullquoteError" and not name.endswith("Warning")
    }
    document = server.client.get("/openapi.json").json()
    kinds = set(document["components"]["schemas"]["NativeFailure"]["properties"]["error"]["properties"]["kind"]["enum"])
    assert names <= kinds
    assert error_response(errors.OverloadedError("full"), "")[2]["retry-after"] == "1"
    assert error_response(errors.DeadlineExceededError("late"), "")[0] == 504


def test_settings_from_additional_config() -> None:
    assert Settings.of({}) == Settings.of(None) == Settings.of({"other": 1}) == SETTINGS
    assert Settings.of({"pullquote": {"max_queries": 3, "timeout": 5}}).max_queries == 3
    assert (SETTINGS.max_documents, SETTINGS.max_document_bytes, SETTINGS.timeout) == (1000, 8 * 1024 * 1024, 60.0)
    for wrong in (
        {"max_querys": 3},
        {"max_queries": 0},
        {"timeout": 0},
        {"threads": 1.5},
        {"threads": True},
        {"timeout": "1"},
        3,
    ):
        with raises(errors.InvalidArgumentError, "additional_config"):
            Settings.of({"pullquote": wrong})
