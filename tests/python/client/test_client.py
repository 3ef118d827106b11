"""`Client` has the calls, results and errors of `Highlighter`."""

import inspect
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from pullquote import AsyncClient, Client, Highlighter, errors
from pullquote._request.options import Format
from pullquote.client import Document, PutDocuments
from pullquote.errors import TruncationWarning
from support.bad_calls import BAD_CALL_IDS, BAD_CALLS
from support.client_comparison import HTML, TEXTS, assert_same
from support.fake_letter_encoder import DIMENSION
from support.messages import pattern, raises
from support.server_process import ServerProcess, letter_server, running_server, wait_for

MARKDOWN = "# Bread\n\nIt is baked from *flour*. Ovens are hot.\n\n- The moon\n- is white\n"


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url) as made:
        yield made


ONLY_SERVERS = {
    "highlights": ["files", "password", "return_texts", "return_vectors", "embedding_dtype"],
    "embed": ["embedding_dtype"],
}


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("name", ["highlights", "embed", "process", "parse_pieces"])
def test_client_calls_have_highlighter_signatures(kind: type, name: str) -> None:
    ours, theirs = (inspect.signature(getattr(owner, name)) for owner in (kind, Highlighter))
    parameters = list(ours.parameters.values())
    more = [parameters.pop().name for _ in ONLY_SERVERS.get(name, [])][::-1]
    assert more == ONLY_SERVERS.get(name, [])
    for our, their in zip(parameters, theirs.parameters.values(), strict=True):
        # Files may take the place of texts.
        default = () if name == "highlights" and our.name == "texts" else their.default
        assert (our.name, our.kind, our.default) == (their.name, their.kind, default)
    is_async = kind is AsyncClient and name != "parse_pieces"
    assert inspect.iscoroutinefunction(getattr(kind, name)) == is_async


def test_client_and_async_client_have_same_calls() -> None:
    def calls(kind: type) -> dict[str, list[str]]:
        names = [name for name in dir(kind) if not name.startswith("_")]
        of_each = {name: inspect.signature(getattr(kind, name)).parameters.values() for name in names}
        # In an event loop, pages may come from an asynchronous generator.
        return {name: [str(each).replace("AsyncPages", "Pages") for each in of_each[name]] for name in names}

    assert calls(Client) == calls(AsyncClient)
    assert {"highlights", "embed", "close"} <= calls(Client).keys()


def test_client_embed_matches_highlighter(client: Client, highlighter: Highlighter) -> None:
    roles: list[Literal["passage", "query"]] = ["passage", "query"]
    for role in roles:
        ours, theirs = client.embed(TEXTS, role=role), highlighter.embed(TEXTS, role=role)
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        assert np.abs(ours - theirs).max() < 1e-5
        assert ours.flags.c_contiguous
        assert ours.flags.writeable


TABLE = "name,price,stock\n" + "\n".join(f"bun {number},{number % 7},{number % 5}" for number in range(60))

CALLS: list[dict[str, Any]] = [
    {"query": "How is bread made?", "texts": TEXTS},
    {"query": "How is bread made?", "texts": TEXTS, "explain": True, "context": 1, "order": "position"},
    {"query": ["bread", "moon"], "texts": TEXTS, "pairing": "all", "top_k": 1, "explain": True},
    {"query": ["bread", "moon", "kana", "nothing"], "texts": TEXTS, "pairing": "each"},
    {"query": ["bread", "moon"], "texts": TEXTS, "fuse": True, "explain": True},
    {"query": "How is bread made?", "texts": [HTML, MARKDOWN, TEXTS[0]], "format": "auto", "context": 1},
    {"query": "bread", "texts": [HTML], "format": "html", "explain": True},
    {"query": "bread", "texts": [MARKDOWN], "format": "markdown", "max_chars": 40},
    {"query": "price of bun 44", "texts": [TABLE, TEXTS[0]]},
    {"query": "bread", "texts": TEXTS, "titles": ["Bread", None, "字", None], "lexical_weight": 0.2, "effort": "full"},
    {"query": "bread", "texts": TEXTS, "unit": "word", "highlight_length": 2, "expand": False, "dedupe": "none"},
    {"query": "bread", "texts": (text for text in TEXTS), "min_score": 0.99},
]


@pytest.mark.parametrize(
    "call", CALLS, ids=lambda call: " ".join(name for name in call if name not in {"query", "texts"}) or "plain"
)
def test_client_highlights_match_highlighter(client: Client, highlighter: Highlighter, call: dict[str, Any]) -> None:
    texts = list(call["texts"])
    assert_same(client.highlights(**call | {"texts": texts}), highlighter.highlights(**call | {"texts": texts}))


def test_client_sends_formats_that_a_server_detects(client: Client, highlighter: Highlighter) -> None:
    call: dict[str, Any] = {"query": "bread", "texts": [HTML, MARKDOWN, TEXTS[0]]}
    given: list[Format] = ["html", "auto", "text"]
    assert_same(client.highlights(**call, format=given), highlighter.highlights(**call, format=given))
    with raises(errors.InvalidArgumentError, "format", "texts[2]", "markdown"):
        client.highlights(**call, format=["html", "markdown", "markdown"])


def test_client_refuses_count_tokens(client: Client) -> None:
    with raises(errors.InvalidArgumentError, "count_tokens", "server"):
        client.highlights("bread", TEXTS, max_tokens=9, count_tokens=len)


def test_client_highlights_of_real_pages_match_highlighter(
    client: Client, highlighter: Highlighter, pages: dict[str, str]
) -> None:
    call: dict[str, Any] = {"query": "Who?", "texts": list(pages.values()), "explain": True}
    assert_same(client.highlights(**call), highlighter.highlights(**call))


@pytest.mark.parametrize(("change", "error", "names"), BAD_CALLS, ids=BAD_CALL_IDS)
def test_client_invalid_call_raises_highlighter_error(
    client: Client, change: dict[str, Any], error: type[Exception], names: list[object]
) -> None:
    arguments: dict[str, Any] = {"query": "Where?", "texts": ["Here it is. There it was."]} | change
    with raises(error, *names):
        client.highlights(**arguments)


def test_client_invalid_embed_raises_highlighter_error(client: Client, highlighter: Highlighter) -> None:
    calls: list[tuple[Any, dict[str, Any]]] = [
        ([], {}),
        ("text", {}),
        ([3], {}),
        (["\ud800"], {}),
        (["a"], {"role": "writer"}),
        (["a"], {"timeout": -1}),
        (["a"], {"rolle": "query"}),
    ]
    for texts, options in calls:
        raised = []
        for owner in (client, highlighter):
            with pytest.raises((errors.PullquoteError, TypeError)) as caught:
                owner.embed(texts, **options)
            raised.append(caught)
        assert raised[0].type is raised[1].type
        of_client, ours = (caught.value.args[0] for caught in raised)
        assert of_client.replace("Client.", "") == ours.replace("Highlighter.", "")


def test_client_parse_pieces_is_local(client: Client, highlighter: Highlighter) -> None:
    text = "One. Two. Three."
    assert client.parse_pieces(text, 2).tolist() == highlighter.parse_pieces(text, 2).tolist()
    with raises(errors.InvalidArgumentError, "token"):
        client.parse_pieces(text, unit="token")


def test_client_rerank_documents_and_health(client: Client, highlighter: Highlighter) -> None:
    query = "How is bread made?"
    cosines = highlighter.embed(TEXTS) @ highlighter.embed([query], role="query")[0]
    ranks = client.rerank(query, TEXTS, top_n=2)
    assert [rank.index for rank in ranks] == list(np.argsort(-cosines)[:2])
    assert ranks[0].text == TEXTS[ranks[0].index]
    assert np.allclose([rank.score for rank in ranks], np.sort(cosines)[::-1][:2], atol=1e-5)
    for id in ("plain", "https://example.com/a?b=c#d", "a b/../é%2F", "漢字"):  # noqa: A001 - the wire's word
        text_hash = client.put_document(id, TEXTS[2], title="字")
        assert client.get_document(id) == Document(id, TEXTS[2], "字", text_hash)
        client.delete_document(id)
        with raises(errors.NotFoundError, "document"):
            client.get_document(id)
    many = {"plain": TEXTS[0], "漢字": TEXTS[1]}
    assert client.put_documents(many) == PutDocuments(created=2, replaced=0)
    again = [*many.items(), ("new", TEXTS[2])]
    assert client.put_documents(again, titles=[None, "字", None]) == PutDocuments(created=1, replaced=2)
    assert client.put_documents([TEXTS[0]], ids=["plain"]) == PutDocuments(created=0, replaced=1)
    assert [(client.get_document(id).text, client.get_document(id).title) for id, _ in again] == [  # noqa: A001
        (TEXTS[0], None),
        (TEXTS[1], "字"),
        (TEXTS[2], None),
    ]
    for id, _ in again:  # noqa: A001
        client.delete_document(id)
    with raises(errors.InvalidArgumentError, "top_n"):
        client.rerank(query, TEXTS, top_n=0)
    assert client.health() == {client._names: None}


def test_client_lists_and_deletes_documents_by_prefix(client: Client) -> None:
    names = [f"list/{number} &=é?" for number in range(3)]
    client.put_documents({name: f"Text of {name}." for name in names}, titles=["T", None, None])
    first = client.list_documents("list/", limit=2)
    assert ([entry.id for entry in first.documents], first.total, first.next) == (names[:2], 3, names[1])
    listed = first.documents[0]
    assert (listed.title, listed.format, listed.text_hash) == ("T", "text", client.get_document(names[0]).text_hash)
    assert listed.stored_at is not None
    assert listed.bytes == len(names[0].encode() + f"TText of {names[0]}.".encode())
    rest = client.list_documents("list/", after=first.next)
    assert ([entry.id for entry in rest.documents], rest.total, rest.next) == (names[2:], 3, None)
    with raises(errors.InvalidArgumentError, "limit", 0):
        client.list_documents(limit=0)
    with raises(errors.InvalidArgumentError, "prefix"):
        client.delete_documents("")
    assert client.delete_documents("list/1") == 1
    client.put_document("kept", "a")
    assert client.delete_documents("list/") == 2
    assert client.delete_all_documents() >= 1
    assert client.list_documents().total == 0


@pytest.mark.parametrize(
    ("texts", "options", "error", "names"),
    [
        (["a"], {}, errors.InvalidArgumentError, ["id"]),
        ({"a": "b"}, {"ids": ["c"]}, errors.InvalidArgumentError, ["ids"]),
        ({"a": "b"}, {"titles": ["c", "d"]}, errors.InvalidArgumentError, ["titles", 2, 1]),
        ({"a": 3}, {}, errors.InvalidTypeError, ["a", "int"]),
        ([("a", "b"), (3, "c")], {}, errors.InvalidTypeError, ["ids[1]", "int"]),
        ({"": "b"}, {}, errors.InvalidArgumentError, ["documents[0].id"]),
        ({}, {}, errors.InvalidArgumentError, ["documents"]),
    ],
)
def test_client_invalid_put_documents(
    client: Client, texts: Any, options: dict[str, Any], error: type[Exception], names: list[object]
) -> None:
    with raises(error, *names):
        client.put_documents(texts, **options)


def test_server_errors_raise_their_class(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("right\n")
    with letter_server("--api-keys-file", str(keys), "--store-documents", "1", "--max-inputs", "3") as own:
        with (
            Client(own.url, api_key="wrong") as stranger,
            pytest.raises(errors.UnauthorizedError),
        ):
            stranger.embed(["a"])
        with Client(own.url, api_key="right", headers={"x-request-id": "seen-by-the-server"}) as known:
            known.put_document("1", "a")
            with pytest.raises(errors.StoreFullError):
                known.put_document("2", "b")
            with raises(errors.StoreFullError, "documents[1]"):
                known.put_documents({"1": "c", "2": "b"})
            with raises(errors.InvalidArgumentError, 4, 3):
                known.embed(["a"] * 4)
            assert "right" not in repr(known)
            wait_for(lambda: "seen-by-the-server" in own.log)
            with (
                raises(errors.UnavailableError, "http://127.0.0.1:1"),
                Client("http://127.0.0.1:1") as unreachable,
            ):
                unreachable.embed(["a"])
        with Client([own.url, "http://127.0.0.1:1"], api_key="right", rows_per_request=1) as several:
            assert several.embed(["a"] * 20).shape == (20, DIMENSION)


@pytest.mark.parametrize(
    ("url", "settings", "error", "names"),
    [
        ([], {}, errors.InvalidArgumentError, ["url"]),
        ("127.0.0.1:8080", {}, errors.InvalidArgumentError, ["127.0.0.1:8080"]),
        ("ftp://host", {}, errors.InvalidArgumentError, ["url", "ftp://host"]),
        ("http://me:secret@host", {}, errors.InvalidArgumentError, ["url"]),
        ("http://host?key=1", {}, errors.InvalidArgumentError, ["url"]),
        ("unix:run", {}, errors.InvalidArgumentError, ["run"]),
        (3, {}, errors.InvalidTypeError, ["url", 3]),
        ([3], {}, errors.InvalidTypeError, ["url", "[3]"]),
        ("http://host", {"timeout": 0}, errors.InvalidArgumentError, ["timeout", 0]),
        ("http://host", {"timeout": "1"}, errors.InvalidTypeError, ["timeout", '"1"']),
        ("http://host", {"retries": -1}, errors.InvalidArgumentError, ["retries"]),
        ("http://host", {"max_in_flight": 0}, errors.InvalidArgumentError, ["max_in_flight"]),
        ("http://host", {"retry_budget": 2.0}, errors.InvalidArgumentError, ["retry_budget"]),
        ("http://host", {"wire_dtype": "int8"}, errors.InvalidArgumentError, ["wire_dtype", "int8"]),
        ("http://host", {"wire_dtype": "int4"}, errors.InvalidArgumentError, ["int4"]),
        ("http://host", {"api_key": "line\nend"}, errors.InvalidArgumentError, ["api_key"]),
        ("http://host", {"headers": {"a b": "c"}}, errors.InvalidArgumentError, ["a b"]),
        ("http://host", {"headers": {"a": 3}}, errors.InvalidTypeError, ["headers"]),
        ("http://host", {"ca_certs": "/nowhere"}, errors.InvalidArgumentError, ["/nowhere"]),
        ("http://host", {"ca_certs": __file__}, errors.InvalidArgumentError, ["ca_certs"]),
        ("http://host", {"timeouts": 3}, TypeError, ["timeouts"]),
    ],
    ids=str,
)
def test_invalid_client_setting_is_error(
    url: Any, settings: dict[str, Any], error: type[Exception], names: list[object]
) -> None:
    with raises(error, *names) as caught:
        Client(url, **settings)
    assert "secret" not in str(caught.value)
    assert "line\nend" not in str(caught.value)


def test_client_cannot_be_pickled(client: Client) -> None:
    with pytest.raises(TypeError):
        pickle.dumps(client)


LENGTHS = """import numpy as np
def encode(texts):
    return np.array([[len(text), 2.0, 3.0] for text in texts], dtype=np.float32)
"""


def test_client_embed_keeps_vector_lengths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/embed` normalizes by default, as Text Embeddings Inference does."""
    (tmp_path / "lengths.py").write_text(LENGTHS)
    monkeypatch.chdir(tmp_path)
    with running_server("--encoder", "lengths:encode", device=None) as own, Client(own.url) as client:
        assert client.embed(["a", "bbb"]).tolist() == [[1.0, 2.0, 3.0], [3.0, 2.0, 3.0]]


def test_client_warns_of_truncation_as_highlighter(client: Client, highlighter: Highlighter) -> None:
    for owner in (client, highlighter):
        with pytest.warns(TruncationWarning, match=pattern(1, 2)):
            owner.embed(["long " * 600, "short"])


@pytest.mark.parametrize(
    ("query", "answered"), [("How far is the moon?", True), ("How do I reset my password?", False)]
)
def test_answered_through_server(client: Client, highlighter: Highlighter, query: str, answered: bool) -> None:
    pages = ["Bread is baked from flour. Ovens are hot.", "The moon is 384,400 km away."]
    assert client.highlights(query, pages).answered is answered
    assert highlighter.highlights(query, pages).answered is answered
