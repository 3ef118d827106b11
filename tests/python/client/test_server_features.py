"""Features that only clients have: vector types, stored documents, vectors of passages."""

import asyncio
import pickle
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from pullquote import AsyncClient, Client, Highlighter, Highlights, errors
from pullquote.client import EmbeddingDtype, StoredDocument
from support.client_comparison import HTML, TEXTS, assert_same
from support.fake_http_server import Answer, fake_server
from support.messages import names_all, raises
from support.server_process import ServerProcess

DTYPES: list[EmbeddingDtype] = ["float32", "float16", "bfloat16", "int8", "binary"]
PAGES = ["Bread is baked from flour. The moon is white. Ovens are hot.", "The moon is far away. So is the sun."]
QUERY = "How is bread made?"

# A call of either client, by method name.
Call = Callable[..., Any]


@pytest.fixture(params=["Client", "AsyncClient"])
def call(request: pytest.FixtureRequest, server: ServerProcess) -> Iterator[Call]:
    if request.param == "Client":
        with Client(server.url, rows_per_request=3) as client:
            yield lambda name, *arguments, **options: getattr(client, name)(*arguments, **options)
        return

    async def once(name: str, *arguments: Any, **options: Any) -> Any:
        async with AsyncClient(server.url, rows_per_request=3) as client:
            return await getattr(client, name)(*arguments, **options)

    yield lambda name, *arguments, **options: asyncio.run(once(name, *arguments, **options))


def expected(vectors: NDArray[np.float32], dtype: str) -> NDArray[Any]:
    """The same conversion in numpy."""
    match dtype:
        case "float16":
            return vectors.astype(np.float16)
        case "bfloat16":
            bits = vectors.view(np.uint32)
            return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        case "int8":
            return np.clip(np.rint(vectors * 127), -127, 127).astype(np.int8)
        case "binary":
            return np.packbits(vectors > 0, axis=1)
    return vectors


@pytest.mark.parametrize("dtype", DTYPES)
def test_embed_embedding_dtype(call: Call, dtype: EmbeddingDtype) -> None:
    texts = [f"{text} {number}" for number in range(3) for text in TEXTS]
    for role in ("passage", "query"):
        found = call("embed", texts, role=role, embedding_dtype=dtype)
        by_the_book = expected(call("embed", texts, role=role), dtype)
        assert (found.dtype, found.shape) == (by_the_book.dtype, by_the_book.shape)
        assert np.array_equal(found, by_the_book)
        assert found.flags.c_contiguous
        assert found.flags.writeable


def test_unknown_embedding_dtype_is_error(call: Call) -> None:
    wrong: list[tuple[Any, type[Exception], list[object]]] = [
        ("int4", errors.InvalidArgumentError, ["embedding_dtype", "int4", *DTYPES]),
        (3, errors.InvalidTypeError, ["embedding_dtype"]),
    ]
    for dtype, error, names in wrong:
        with raises(error, *names):
            call("embed", ["a"], embedding_dtype=dtype)
        with raises(error, *names):
            call("highlights", QUERY, PAGES, return_vectors=True, embedding_dtype=dtype)
    with raises(errors.InvalidArgumentError, "embedding_dtype", "return_vectors"):
        call("highlights", QUERY, PAGES, embedding_dtype="int8")
    with raises(errors.InvalidTypeError, "return_vectors"):
        call("highlights", QUERY, PAGES, return_vectors="yes")


@pytest.mark.parametrize("dtype", DTYPES)
def test_return_vectors_match_embed(call: Call, highlighter: Highlighter, dtype: EmbeddingDtype) -> None:
    options: dict[str, Any] = {"pairing": "all", "highlight_length": 1, "explain": True, "context": 1}
    queries = [QUERY, "Where is the moon?"]
    found: Highlights = call("highlights", queries, PAGES, return_vectors=True, embedding_dtype=dtype, **options)
    plain = highlighter.highlights(queries, PAGES, **options)
    assert found.vectors is not None
    assert found.query_vectors is not None
    passages = [highlight.text for listed in found for highlight in listed]
    of_passages, of_queries = call("embed", passages), call("embed", queries, role="query")
    for ours, theirs in ((found.vectors, of_passages), (found.query_vectors, of_queries)):
        by_the_book = expected(theirs, dtype)
        assert (ours.dtype, ours.shape) == (by_the_book.dtype, by_the_book.shape)
        if dtype == "float32":
            assert np.abs(ours - theirs).max() < 1e-5
        else:
            # The texts shared other batches, so values near a rounding edge may differ.
            assert np.mean(ours != by_the_book) < 0.05
    assert found.work.encoded > plain.work.encoded
    assert plain.vectors is None
    assert plain.query_vectors is None


def test_return_vectors_without_passages_is_empty(call: Call) -> None:
    found = call("highlights", QUERY, PAGES, min_score=1.0, return_vectors=True, embedding_dtype="float16")
    assert found.vectors.shape == (0, 384)
    assert (found.query_vectors.shape, found.query_vectors.dtype) == ((1, 384), np.float16)


@pytest.fixture
def stored(server: ServerProcess) -> Iterator[list[StoredDocument]]:
    ids = ["bread/and moon", "漢字"]
    with Client(server.url) as client:
        for name, text in zip(ids, PAGES, strict=True):
            client.put_document(name, text, title="a title of its own")
        client.put_document("page", HTML)
        yield [StoredDocument(name) for name in ids]
        for name in [*ids, "page"]:
            client.delete_document(name)


def passages(found: Highlights) -> list[list[Any]]:
    return [list(listed) for listed in found]


@pytest.mark.parametrize("returns_texts", [False, True])
def test_stored_documents_match_sent_texts(
    call: Call, highlighter: Highlighter, stored: list[StoredDocument], returns_texts: bool
) -> None:
    options: dict[str, Any] = {"context": 1, "explain": True, "titles": ["Bread", None, None], "highlight_length": 1}
    of_server = highlighter.highlights(
        QUERY, [PAGES[0], TEXTS[0], PAGES[1]], **options | {"titles": ["Bread", None, "a title of its own"]}
    )
    found = call("highlights", QUERY, [stored[0], TEXTS[0], stored[1]], return_texts=returns_texts, **options)
    if returns_texts:
        assert_same(found, of_server)
        assert found.text_fragment(found[0][0]) == of_server.text_fragment(of_server[0][0])
        return
    assert found.texts == ["", TEXTS[0], ""]
    for name in ("spans", "contexts", "sources", "pages", "windows"):
        assert np.array_equal(getattr(found, name), getattr(of_server, name)), name
    for ours, theirs in zip(passages(found), passages(of_server), strict=True):
        for our, their in zip(ours, theirs, strict=True):
            assert (our.text, our.before, our.after, our.matches) == (
                their.text,
                their.before,
                their.after,
                their.matches,
            )
    assert found.text_fragment(found[1][0])
    with raises(errors.InvalidArgumentError, "page 0", "return_texts"):
        found.text_fragment(found[0][0])
    with raises(errors.InvalidArgumentError, "page 2", "return_texts"):
        found.selectors(found[2][0])


@pytest.mark.usefixtures("stored")
def test_put_documents_splits_what_a_server_does_not_take_at_once(call: Call) -> None:
    documents = {f"split/{number}": f"The moon is {number}." for number in range(1001)}
    documents |= {f"split/{name}": name * 8_000_000 for name in "abc"}
    put = call("put_documents", documents)
    assert (put.created, put.replaced) == (1004, 0)
    assert call("list_documents", "split/").total == 1004
    assert call("delete_documents", "split/") == 1004


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("returns_texts", [False, True])
def test_stored_html_document_is_parsed_by_server(call: Call, highlighter: Highlighter, returns_texts: bool) -> None:
    options: dict[str, Any] = {"format": "html", "explain": True}
    theirs = highlighter.highlights("bread", [HTML], **options)
    ours = call("highlights", "bread", [StoredDocument("page")], return_texts=returns_texts, **options)
    assert [one.text for one in ours[0]] == [one.text for one in theirs[0]]
    assert np.array_equal(ours.sources, theirs.sources)
    assert (ours.texts == theirs.texts) is returns_texts
    # A page that was sent always comes back with its text.
    both = call("highlights", "bread", [StoredDocument("page"), HTML], return_texts=returns_texts, **options)
    assert both.texts[1] == theirs.texts[0]


def test_missing_stored_document_is_an_error_of_its_page(call: Call, stored: list[StoredDocument]) -> None:
    expected = call("highlights", QUERY, stored)
    with pytest.warns(errors.UsageWarning, match="nowhere"):
        found = call("highlights", QUERY, [StoredDocument("nowhere"), *stored])
    assert (list(found.errors), found[0], found.ids) == ([0], [], ["nowhere", *(one.id for one in stored)])
    assert names_all(found.errors[0], "nowhere")
    assert [[one.text for one in page] for page in found[1:]] == [[one.text for one in page] for page in expected]
    again = pickle.loads(pickle.dumps(found))  # noqa: S301
    assert (expected.errors, again.errors) == ({}, found.errors)
    with raises(errors.NotFoundError, "nowhere"):
        call("highlights", QUERY, [StoredDocument("nowhere")])
    with raises(errors.InvalidTypeError, "texts[0]"):
        call("highlights", QUERY, [StoredDocument(cast(Any, 3))])
    with raises(errors.InvalidTypeError, "texts[0]"):
        call("embed", stored)


# ---- servers with faulty answers: the correct answer, changed


@pytest.fixture(scope="module")
def honest(server: ServerProcess) -> Answer:
    asked = {"query": QUERY, "documents": PAGES, "return_vectors": True}
    answer = server.client.post("/highlights", json=asked, headers={"accept": "multipart/form-data"})
    return Answer(headers={"content-type": answer.headers["content-type"]}, body=answer.content)


def test_multipart_answer_is_parsed(honest: Answer) -> None:
    with fake_server(lambda _: honest) as server, Client(server.url) as client:
        found = client.highlights(QUERY, PAGES, return_vectors=True)
        assert found.vectors is not None
        assert len(found.vectors) == len(found.scores) > 0
        assert server.requests[0].headers["accept"] == "multipart/form-data"
        assert server.requests[0].body["embedding_dtype"] == "float32"


def rows(answer: Answer) -> int:
    return int(answer.body.partition(b"x-embedding-shape: ")[2].partition(b",")[0])


LIES: dict[str, tuple[Callable[[Answer], bytes], list[object]]] = {
    "a row less": (lambda a: a.body.replace(b"shape: %d," % rows(a), b"shape: %d," % (rows(a) - 1), 1), ["rows"]),
    "a shorter vector": (lambda a: a.body.replace(b",384", b",383", 1), ["shape"]),
    "two lengths": (
        lambda a: a.body.replace(b"shape: 1,384", b"shape: 1,192").replace(
            b"content-length: 1536", b"content-length: 768"
        ),
        ["shape"],
    ),
    "another type": (lambda a: a.body.replace(b"dtype: float32", b"dtype: float16"), ["shape"]),
    "no type": (lambda a: a.body.replace(b"x-embedding-dtype", b"x-embedding-stype"), ["x-embedding-dtype"]),
    "big-endian": (lambda a: a.body.replace(b"little", b"biggie"), ["byte order"]),
    "no vectors": (lambda a: a.body.replace(b'name="queries"', b'name="nothing"'), ["nothing"]),
    "twice": (lambda a: a.body.replace(b'name="queries"', b'name="vectors"'), ["vectors"]),
    "NaN": (lambda a: a.body.replace(a.body[-120:-116], b"\xff\xff\xff\xff"), ["finite"]),
    "cut": (lambda a: a.body[: len(a.body) // 2], []),
    "no form": (lambda _: b"nothing of the kind", []),
    "bad JSON": (lambda a: a.body.replace(b'{"results"', b'["results"', 1), []),
}


@pytest.mark.parametrize("lie", LIES)
def test_inconsistent_multipart_answer_is_bad_answer(honest: Answer, lie: str) -> None:
    change, names = LIES[lie]
    body = change(honest)
    assert body != honest.body
    answer = Answer(headers=honest.headers, body=body)
    with fake_server(lambda _: answer) as server, Client(server.url) as client:
        with raises(errors.BadAnswerError, server.url, *names):
            client.highlights(QUERY, PAGES, return_vectors=True)
        assert len(server.requests) == 1


def test_return_vectors_from_server_without_vectors_is_bad_answer(server: ServerProcess) -> None:
    plain = server.client.post("/highlights", json={"query": QUERY, "documents": PAGES})
    answer = Answer(headers={"content-type": "application/json"}, body=plain.content)
    with fake_server(lambda _: answer) as liar, Client(liar.url, max_answer_bytes=100_000) as client:
        with raises(errors.BadAnswerError, "multipart/form-data"):
            client.highlights(QUERY, PAGES, return_vectors=True)
        # A form that is too long is not read to its end.
        liar.answer = lambda _: Answer(headers={"content-type": "multipart/form-data; boundary=b"}, body=b" " * 100_001)
        with raises(errors.BadAnswerError, 100000):
            client.highlights(QUERY, PAGES, return_vectors=True)
