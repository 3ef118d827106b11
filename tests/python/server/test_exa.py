"""`/contents` and `/search` with Exa's clients: `exa-py`, sync and async, and `exa-js`."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.messages import names_all, raises
from support.server_process import ServerProcess, letter_server, running_server

BREAD = "Bread is baked from flour and water 🍞. The oven must be hot. Bakers get up early."
MOON = "The moon is white. It goes around the earth in 27 days. Nobody lives there."
CATS = "Cats sleep most of the day. They hunt at night. A cat has four legs."
DOCUMENTS = [
    {"id": "doc:bread", "title": "Baking", "text": BREAD},
    {"id": "doc:moon", "url": "https://example.com/moon", "text": MOON},
]
NODE_MODULES = Path(__file__).parents[3] / ".make" / "exa-js" / "node_modules"


@pytest.fixture(scope="module")
def library() -> Iterator[ServerProcess]:
    """A server with three stored documents."""
    with running_server("--dtype", "float32") as server:
        for name, title, text in (("bread", "Baking", BREAD), ("moon", "The Moon", MOON), ("cats", None, CATS)):
            put = server.client.put(f"/documents/https:%2F%2Fexample.com%2F{name}", json={"title": title, "text": text})
            assert put.status_code == 201
        yield server


def exa_of(server: ServerProcess, key: str = "any-key") -> Any:
    # Imported here, because it takes seconds (`conftest.py`).
    from exa_py import Exa

    return Exa(key, base_url=server.url)


def sync_contents(server: ServerProcess, urls: list[str], **asked: Any) -> Any:
    return exa_of(server).get_contents(urls, **asked)


def async_contents(server: ServerProcess, urls: list[str], **asked: Any) -> Any:
    from exa_py import AsyncExa

    async def ask() -> Any:
        async with AsyncExa("any-key", api_base=server.url) as exa:
            return await exa.get_contents(urls, **asked)

    return asyncio.run(ask())


def ask(server: ServerProcess, path: str = "/contents", **body: Any) -> dict[str, Any]:
    answer = server.client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def refusal(server: ServerProcess, path: str, asked: dict[str, Any]) -> tuple[str, str]:
    answer = server.client.post(path, json=asked)
    assert answer.status_code == 400, answer.text
    body = answer.json()
    assert body.keys() == {"requestId", "error", "tag"}
    assert body["requestId"] == answer.headers["x-request-id"]
    return body["tag"], body["error"]


@pytest.mark.parametrize("contents", [sync_contents, async_contents])
def test_exa_py_contents_highlights_are_exact_substrings(server: ServerProcess, contents: Any) -> None:
    asked = {"query": "How is bread made?", "max_characters": 50}
    found = contents(
        server,
        ["doc:bread", "https://example.com/moon"],
        highlights=asked,
        text=True,
        extra_body={"documents": DOCUMENTS},
    )
    assert [(page.id, page.url, page.title) for page in found.results] == [
        ("doc:bread", "doc:bread", "Baking"),
        ("https://example.com/moon", "https://example.com/moon", None),
    ]
    assert [page.text for page in found.results] == [BREAD, MOON]
    assert found.results[0].highlights[0] == "Bread is baked from flour and water 🍞."
    for page in found.results:
        spans = page.extras["highlight_spans"]
        assert page.highlights
        assert [page.text[span["start"] : span["end"]] for span in spans] == page.highlights
        assert [span["score"] for span in spans] == page.highlight_scores
        assert page.highlight_scores == sorted(page.highlight_scores, reverse=True)
        assert all(0 <= score <= 1 for score in page.highlight_scores)
        assert sum(map(len, page.highlights)) <= 50
    assert [(status.id, status.status, status.source) for status in found.statuses] == [
        ("doc:bread", "success", "cached"),
        ("https://example.com/moon", "success", "cached"),
    ]


def test_contents_status_of_missing_pages(library: ServerProcess) -> None:
    found = sync_contents(library, ["https://example.com/moon", "https://example.com/none", "gopher://x"], text=True)
    assert [(page.url, page.title, page.text) for page in found.results] == [
        ("https://example.com/moon", "The Moon", MOON)
    ]
    assert [(status.status, status.error and status.error.tag) for status in found.statuses] == [
        ("success", None),
        ("error", "CRAWL_NOT_FOUND"),
        ("error", "UNSUPPORTED_URL"),
    ]
    by_id = ask(library, ids=["gopher://x"])
    assert by_id["statuses"][0]["error"]["tag"] == "CRAWL_NOT_FOUND"
    assert by_id["results"] == []


def test_exa_py_default_text_options(library: ServerProcess) -> None:
    """With highlights alone, the client also requests 10,000 characters of text."""
    (page,) = sync_contents(library, ["https://example.com/moon"], highlights=True).results
    assert (page.text, page.highlights[0] in MOON) == (MOON, True)
    (page,) = sync_contents(library, ["https://example.com/moon"], text={"max_characters": 8}).results
    assert (page.text, page.highlights, page.extras) == ("The moon", None, None)


def test_highlights_without_query_use_title(server: ServerProcess) -> None:
    text = "Cats sleep most of the day. Bread is baked from flour. The moon is white."
    titled = {"id": "a", "title": "Baking bread from flour", "text": text}
    bare = {"id": "b", "text": text}
    found = ask(
        server,
        documents=[titled, bare, {"id": "c", "text": " "}],
        highlights={"highlightsPerUrl": 1, "numSentences": 1},
    )
    assert [page["highlights"] for page in found["results"]] == [
        ["Bread is baked from flour."],
        ["Cats sleep most of the day."],
        [],
    ]
    again = ask(server, ids=["b"], documents=[bare], highlights=True)
    assert again["results"][0]["highlights"]


def test_num_sentences_and_highlights_per_url(library: ServerProcess) -> None:
    options = {"query": "What do cats do?", "num_sentences": 2, "highlights_per_url": 1}
    with pytest.warns(DeprecationWarning, match="max_characters"):
        found = sync_contents(library, ["https://example.com/cats"], highlights=options)
    assert found.results[0].highlights in (
        ["Cats sleep most of the day. They hunt at night."],
        ["They hunt at night. A cat has four legs."],
    )
    with pytest.warns(DeprecationWarning, match="max_characters"):
        found = sync_contents(
            library, ["https://example.com/cats"], highlights=options | {"num_sentences": 1, "highlights_per_url": 3}
        )
    assert sorted(found.results[0].highlights) == sorted(sentence + "." for sentence in CATS.rstrip(".").split(". "))


def test_dynamic_max_characters_is_shared_by_relevance(server: ServerProcess) -> None:
    good = " ".join(f"Bread number {number} is baked from flour and water." for number in range(8))
    documents = [{"id": "good", "text": good}, {"id": "copy", "text": good}, {"id": "poor", "text": MOON}]
    highlights = {"query": "How is bread baked?", "maxCharacters": 150}
    each = ask(server, documents=documents, highlights=highlights)
    shared = ask(server, documents=documents, highlights=highlights | {"dynamic": True})

    def spent(found: dict[str, Any]) -> list[int]:
        return [sum(map(len, page["highlights"])) for page in found["results"]]

    assert max(spent(each)) <= 150
    assert spent(each)[0] == spent(each)[1]
    assert spent(shared)[0] > 150
    assert sum(spent(shared)) <= 3 * 150
    assert spent(shared)[1] < spent(shared)[0]


def test_null_fields_are_ignored(library: ServerProcess) -> None:
    names = [
        "ids",
        "documents",
        "summary",
        "extras",
        "context",
        "livecrawl",
        "livecrawlTimeout",
        "maxAgeHours",
        "snapshotAsOf",
    ]
    nulls: dict[str, Any] = dict.fromkeys([*names, "subpages", "subpageTarget", "compliance", "flags"])
    inner = dict.fromkeys(["query", "numSentences", "highlightsPerUrl", "maxCharacters", "dynamic", "verbosity"])
    url = "https://example.com/moon"
    plain = ask(library, urls=[url], highlights=True, text=True)
    asked = ask(library, urls=[url], highlights=inner, text={"maxCharacters": None, "verbosity": None}, **nulls)
    assert asked["results"] == plain["results"]
    assert "warnings" not in asked
    nothing = ask(library, urls=[url], highlights=None, text=None)
    assert nothing["results"][0].keys() == {"id", "url", "title"}
    searched = ask(library, "/search", query="moon", numResults=None, contents=None, type=None, includeDomains=None)
    assert len(searched["results"]) == 3


def test_unsupported_options_are_warnings(library: ServerProcess) -> None:
    url = "https://example.com/moon"
    quiet: dict[str, Any] = {
        "livecrawl": "always",
        "livecrawlTimeout": 5,
        "maxAgeHours": -1,
        "filterEmptyResults": True,
        "flags": ["x"],
    }
    found = ask(library, urls=[url], summary={"query": "x"}, highlights={"stepSize": 2}, subpages=0, **quiet)
    assert [warning["path"] for warning in found["warnings"]] == ["summary", "highlights.stepSize"]
    from exa_py import ExaWarning

    with pytest.warns(ExaWarning, match="ignores the option"):
        exa_of(library).search("moon", include_domains=["example.com"])


@pytest.mark.parametrize("path", ["/contents", "/search"])
def test_unanswered_query_is_a_warning(library: ServerProcess, path: str) -> None:
    def warnings(query: str, **more: Any) -> list[tuple[str, str]]:
        highlights = {"query": query, **more}
        if path == "/search":
            found = ask(library, path, query="moon", contents={"highlights": highlights})
        else:
            found = ask(
                library, path, urls=[f"https://example.com/{name}" for name in ("bread", "moon")], highlights=highlights
            )
        assert any(result["highlights"] for result in found["results"]) == (not more)
        return [(warning["code"], warning["path"]) for warning in found.get("warnings", [])]

    place = "contents.highlights" if path == "/search" else "highlights"
    assert warnings("What is bread baked from?") == []
    assert warnings("How do I reset my password?") == [("QUERY_UNANSWERED", place)]
    # Where no passage fits, nothing is known about the page.
    assert warnings("How do I reset my password?", maxCharacters=1) == []


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ({}, [BREAD, MOON]),
        ({"text": {"maxCharacters": 5}}, ["Bread", "The m"]),
        ({"text": True, "highlights": True}, [BREAD, MOON]),
        ({"highlights": {"query": "When do bakers get up?", "maxCharacters": 30}}, ["Bakers get up early.", None]),
    ],
    ids=["alone", "text", "both", "highlights"],
)
def test_context_joins_the_contents_of_all_pages(
    library: ServerProcess, contents: dict[str, Any], expected: list[str | None]
) -> None:
    pages = [("Baking", "https://example.com/bread"), ("The Moon", "https://example.com/moon")]
    found = ask(library, urls=[url for _, url in pages], context=True, **contents)
    shown = [
        "\n".join(page["highlights"]) if text is None else text
        for text, page in zip(expected, found["results"], strict=True)
    ]
    joined = "\n\n".join(f"Title: {title}\nURL: {url}\n{text}" for (title, url), text in zip(pages, shown, strict=True))
    assert found["context"] == joined
    assert "warnings" not in found or found["warnings"][0]["code"] == "QUERY_UNANSWERED"
    brief = ask(library, urls=[url for _, url in pages], context={"maxCharacters": 9}, **contents)
    assert brief["context"] == "Title: Ba"
    assert "context" not in ask(library, urls=[url for _, url in pages], **contents)


def test_exa_py_search_context(library: ServerProcess) -> None:
    exa = exa_of(library)
    found = exa.search("How is bread made?", num_results=1, contents={"text": True, "context": {"max_characters": 60}})
    assert found.context == f"Title: Baking\nURL: https://example.com/bread\n{BREAD}"[:60]
    ignored = ask(library, "/search", query="bread", contents={"context": {"sort": "x"}})
    assert [warning["path"] for warning in ignored["warnings"]] == ["contents.context.sort"]


def test_search_ranks_stored_documents(library: ServerProcess) -> None:
    exa = exa_of(library)
    found = exa.search("What do bakers do with flour?", num_results=2, contents={"highlights": {"max_characters": 100}})
    first = found.results[0]
    assert (first.url, first.title, first.text) == ("https://example.com/bread", "Baking", None)
    assert len(found.results) == 2
    assert first.score is not None
    assert found.results[1].score is not None
    assert 1 >= first.score > found.results[1].score >= 0
    assert first.highlights
    assert first.extras is not None
    assert [BREAD[span["start"] : span["end"]] for span in first.extras["highlight_spans"]] == first.highlights
    assert found.statuses is None
    other = exa.search(
        "flour", contents={"highlights": {"query": "When do bakers get up?", "max_characters": 30}, "text": True}
    )
    assert other.results[0].highlights == ["Bakers get up early."]
    assert other.results[0].text == BREAD
    bare = exa.search("flour", contents=False)
    assert (bare.results[0].url, bare.results[0].highlights) == ("https://example.com/bread", None)


def test_body_limit_of_search_is_its_own(library: ServerProcess) -> None:
    """A search has no pages, so it may not be as large as a request with pages."""
    body = {"query": "bread", "urls": ["https://example.com/bread"], "padding": "x" * 1024 * 1024}
    refused = library.client.post("/search", json=body)
    assert refused.status_code == 413
    assert "1048576" in refused.json()["error"]
    assert library.client.post("/contents", json=body).status_code == 200


@pytest.mark.parametrize(("options", "filler"), [(["--max-documents", "2"], ""), ([], "They lie still. " * 5000)])
def test_search_in_a_large_store_ranks_by_words(options: list[str], filler: str, tmp_path: Path) -> None:
    """Large in documents or in bytes."""
    with letter_server("--store", str(tmp_path / "documents.db"), *options) as server:
        assert ask(server, "/search", query="bread")["results"] == []
        for name, text in (("a", MOON), ("b", BREAD)):
            server.client.put(f"/documents/{name}", json={"text": text})
        found = ask(server, "/search", query="How is bread baked?", contents={"highlights": True})
        assert [page["id"] for page in found["results"]] == ["b", "a"]
        server.client.put("/documents/c", json={"text": CATS + filler})
        found = ask(server, "/search", query="How is bread baked?", contents={"highlights": True})
        assert [page["id"] for page in found["results"]] == ["b"]
        assert found["results"][0]["highlights"]
        assert ask(server, "/search", query="xylophone")["results"] == []


REFUSED: list[tuple[str, dict[str, Any], list[object]]] = [
    ("/contents", {}, ["urls", "ids"]),
    ("/contents", {"ids": ["a"], "urls": ["b"]}, ["ids", "urls"]),
    ("/contents", {"urls": []}, ["urls"]),
    ("/contents", {"urls": ["a"] * 101}, ["urls", 101, 100]),
    ("/contents", {"urls": ["a", " "]}, ["urls[1]", 2048]),
    ("/contents", {"urls": ["x" * 2049]}, ["urls[0]", 2048]),
    ("/contents", {"urls": "a"}, ["urls", "string"]),
    ("/contents", {"urls": ["a"], "contents": {}}, ["contents", "/search"]),
    ("/contents", {"urls": ["a"], "highlights": 3}, ["highlights", 3]),
    ("/contents", {"urls": ["a"], "highlights": {"numSentences": 0}}, ["highlights.numSentences", 0]),
    ("/contents", {"urls": ["a"], "highlights": {"query": ""}}, ["highlights.query"]),
    ("/contents", {"documents": [{"text": "a"}]}, ["documents", "id", "url"]),
    ("/contents", {"documents": [{"id": "a"}]}, ["text"]),
    ("/contents", {"documents": [{"id": "a", "text": "b", "lang": "c"}]}, ["lang"]),
    ("/search", {}, ["query"]),
    ("/search", {"query": " "}, ["query"]),
    ("/search", {"query": "a", "highlights": True}, ["highlights", "contents"]),
    ("/search", {"query": "a", "context": True}, ["context", "contents"]),
    ("/contents", {"urls": ["a"], "context": {"maxCharacters": 0}}, ["context.maxCharacters"]),
    (
        "/search",
        {"query": "a", "contents": {"highlights": {"maxCharacters": 0}}},
        ["contents.highlights.maxCharacters"],
    ),
    ("/search", {"query": "a", "contents": {"highlights": {"dynamic": 3}}}, ["contents.highlights.dynamic"]),
]


@pytest.mark.parametrize(("path", "body", "names"), REFUSED, ids=[f"{row[0]} {row[2]}" for row in REFUSED])
def test_invalid_exa_request_is_invalid_request_body(
    server: ServerProcess, path: str, body: dict[str, Any], names: list[object]
) -> None:
    tag, message = refusal(server, path, body)
    assert tag == "INVALID_REQUEST_BODY"
    assert names_all(message, *names), message


def test_failures_have_exa_tags(server: ServerProcess) -> None:
    for count in (0, 101):
        assert refusal(server, "/search", {"query": "a", "numResults": count})[0] == "INVALID_NUM_RESULTS"
    broken = server.client.post("/contents", content=b"{", headers={"content-type": "application/json"})
    assert (broken.status_code, broken.json()["tag"]) == (400, "INVALID_REQUEST_BODY")
    assert server.client.get("/search").json()["tag"] == "METHOD_NOT_ALLOWED"
    with letter_server("--api-key", "right-key") as guarded:
        with raises(ValueError, 401, "INVALID_API_KEY"):
            exa_of(guarded, "wrong-key").search("a")
        assert exa_of(guarded, "right-key").search("a").results == []


def test_base_url_with_trailing_slash(library: ServerProcess) -> None:
    from exa_py import Exa

    exa = Exa("any-key", base_url=library.url + "/")
    assert exa.get_contents(["https://example.com/moon"], text=True).results[0].text == MOON
    assert exa.search("moon").results[0].url == "https://example.com/moon"


SCRIPT = """
const { default: Exa } = require("exa-js");
const [url, ...asked] = JSON.parse(process.argv[1]);
const exa = new Exa("any-key", url);
const one = async ([method, ...given]) => {
  try { return await exa[method](...given); } catch (error) { return { failed: error.message }; }
};
Promise.all(asked.map(one)).then((found) => console.log(JSON.stringify(found)));
"""


def test_exa_js_matches_exa_py(library: ServerProcess) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node on PATH, so exa-js cannot run")
    if not (NODE_MODULES / "exa-js").is_dir():
        pytest.skip("exa-js is not installed; make test installs it where npm is on PATH")
    highlights = {"query": "How is bread made?", "maxCharacters": 60}
    url = "https://example.com/bread"
    asked = [
        library.url,
        ["getContents", ["doc:bread"], {"documents": DOCUMENTS, "highlights": highlights}],
        ["getContents", [url, "https://example.com/none"], {"highlights": highlights, "text": True}],
        ["search", "How is bread made?", {"numResults": 1, "contents": {"highlights": highlights}}],
        ["getContents", [url], {"highlights": {"maxCharacters": 0}}],
    ]
    command = [node, "-e", SCRIPT, json.dumps(asked)]
    ran = subprocess.run(command, cwd=NODE_MODULES.parent, capture_output=True, text=True, check=True, timeout=120)
    sent, stored, searched, refused = json.loads(ran.stdout)
    expected = ask(library, ids=["doc:bread"], documents=DOCUMENTS, highlights=highlights)["results"]
    assert sent["results"] == expected
    assert "text" not in sent["results"][0]
    (page,) = stored["results"]
    assert [page["text"][span["start"] : span["end"]] for span in page["extras"]["highlightSpans"]] == page[
        "highlights"
    ]
    assert page["highlights"] == expected[0]["highlights"]
    assert [status["status"] for status in stored["statuses"]] == ["success", "error"]
    assert [page["url"] for page in searched["results"]] == [url]
    assert searched["results"][0]["highlights"] == expected[0]["highlights"]
    assert names_all(refused["failed"], "highlights.maxCharacters", 0)
