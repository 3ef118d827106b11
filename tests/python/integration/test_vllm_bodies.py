"""The bodies of vLLM's plugins match those of ``POST /highlights`` of ``pullquote serve``, valid and invalid."""

import json
from typing import Any

import pytest

from pullquote import Highlighter, errors
from pullquote.vllm._settings import Settings
from pullquote.vllm.bodies import InvalidRequestError, error_response, kind_of, parse, response_body, validate
from support.messages import raises
from support.server_process import ServerProcess

SETTINGS = Settings()
MOON = "Cats sleep a lot. The moon is 384,400 km away. Bread is baked."
HTML = "<title>Caf&eacute;</title><h1>Caf&eacute;</h1><p>Bread &amp; butter 🍞 cost 3 €.</p><p>The moon is white.</p>"
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
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: json.dumps(body)[:60])
def test_answers_match_server(server: ServerProcess, highlighter: Highlighter, body: dict[str, Any]) -> None:
    asked = parse(json.dumps(body).encode(), SETTINGS)
    ours = response_body(asked, highlighter.highlights(asked.query, asked.texts, **asked.options), 0.0)
    theirs = server.client.post("/highlights", json=body)
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
    ({"query": ["moon", 3], "documents": [MOON]}, "query[1]"),
    ({"query": [], "documents": [MOON]}, "query"),
    ({"query": ["moon"] * 65, "documents": [MOON]}, "query"),
    ({"query": "moon", "documents": []}, "documents"),
    ({"query": "moon", "documents": MOON}, "documents"),
    ({"query": "moon", "documents": [MOON, 3]}, "documents[1]"),
    ({"query": "moon", "documents": [{"id": "a"}]}, "documents[0]"),
    ({"query": "moon", "documents": [{"text": None}]}, "documents[0].text"),
    ({"query": "moon", "documents": [{"text": MOON, "url": "b"}]}, "documents[0].url"),
    ({"query": "moon", "documents": [MOON] * 1001}, "documents"),
    ({"query": "moon", "documents": ["x" * (8 * 1024 * 1024 + 1)]}, "documents[0]"),
    ({"query": "moon", "documents": {"ids": ["a"]}}, "documents"),
    ({"query": "moon", "documents": [MOON], "tpo_k": 3}, "tpo_k"),
    ({"query": "moon", "documents": [MOON], "titles": ["a"]}, "titles"),
    ({"query": "moon", "documents": [MOON], "offsets": "utf16"}, "offsets"),
    ({"query": "moon", "documents": [MOON], "return_texts": 1}, "return_texts"),
    ({"query": "moon", "documents": [MOON], "return_vectors": True}, "return_vectors"),
]


@pytest.mark.parametrize(("body", "field"), WRONG, ids=lambda part: json.dumps(part)[:60])
def test_invalid_field_is_named(body: Any, field: str | None) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        validate(body, SETTINGS)
    status, told, headers = error_response(refused.value, "id")
    assert (status, told["error"]["kind"], told["error"].get("field")) == (422, "invalid_body", field)
    assert told["request_id"] == "id"
    assert headers == {"x-error-kind": "invalid_body"}


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b'{"query": 1} x'])
def test_malformed_json_is_malformed_body(body: bytes) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        parse(body, SETTINGS)
    assert (int(refused.value.status), refused.value.kind) == (400, "malformed_body")


def test_failures_match_server(server: ServerProcess) -> None:
    """The same bodies are refused, with the same status, kind and field."""
    for body, field in WRONG:
        theirs = server.client.post("/highlights", json=body)
        if isinstance(body, dict) and (
            body.keys() & {"offsets", "return_vectors"} or body.get("documents") in ([{"id": "a"}], {"ids": ["a"]})
        ):
            continue  # it counts in UTF-16 too, gives vectors, and has a store
        with pytest.raises(InvalidRequestError) as refused:
            validate(body, SETTINGS)
        assert theirs.status_code == int(refused.value.status), (body, theirs.text)
        assert theirs.json()["error"]["kind"] == refused.value.kind
        if "field" in (told := theirs.json()["error"]):
            # serde names only the outer field of an untagged value.
            assert field is not None
            assert field.startswith(told["field"].split(".")[0].split("[")[0])


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
