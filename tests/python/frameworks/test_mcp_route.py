"""`/mcp` of `pullquote serve`, with the SDK's own client over HTTP."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")
pytest.importorskip("fpdf")

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

import pullquote
from frameworks.mcp_client import call, error, session, tools
from frameworks.sample_documents import epub, pdf, three_pages
from support.fake_web import ARTICLE, FakeWeb, fake_web
from support.gated_server import gated_server, open_gate
from support.messages import names_all
from support.server_process import ServerProcess, letter_server, metric, running_server, wait_for, wait_for_running
from support.sources import BREAD, MOON, QUESTION, TEXTS

FETCH = ("--fetch", "--fetch-allow", "127.0.0.1/32")


@pytest.fixture(scope="module")
def web() -> Iterator[FakeWeb]:
    with fake_web() as made:
        yield made


@pytest.fixture(scope="module")
def serving() -> Iterator[ServerProcess]:
    """A server that fetches, and stores two documents."""
    with running_server("--dtype", "float32", *FETCH) as server:
        with pullquote.Client(server.url) as client:
            client.put_document("moon", MOON, title="Moon")
            client.put_document("https://example.org/bread", BREAD)
        yield server


@pytest.mark.parametrize("fetch", [True, False])
def test_tools_take_urls_only_with_fetching(serving: ServerProcess, fetch: bool) -> None:
    if fetch:
        found = tools(f"{serving.url}/mcp")
    else:
        with letter_server() as server:
            found = tools(f"{server.url}/mcp")
    assert list(found) == ["highlights", "locate", "cite", "search", "fetch"]
    arguments = {"query", "texts", "max_tokens", "max_passages", *(["urls"] if fetch else [])}
    assert set(found["highlights"].input_schema["properties"]) == arguments
    assert found["highlights"].annotations.open_world_hint == fetch
    assert all(tool.annotations.read_only_hint for tool in found.values())


TABLE = "| Planet | Distance |\n|---|---|\n" + "".join(f"| Nr {row} | {row} km |\n" for row in range(40))
HTML = "<h1>Café 🍞</h1><p>Cats sleep.</p><p>The Moon is 384,400 km away from the Earth.</p>"


@pytest.mark.parametrize("limits", [{}, {"max_passages": 1}, {"max_tokens": 20}])
def test_highlights_answers_with_the_best_first(serving: ServerProcess, limits: dict[str, int]) -> None:
    answer = call(f"{serving.url}/mcp", "highlights", query=QUESTION, texts=[*TEXTS, HTML, TABLE], **limits)
    assert (answer["answered"], answer["note"], answer["truncated"]) == (True, "", True)
    assert "384,400 km" in answer["passages"][0]["text"]
    scores = [passage["score"] for passage in answer["passages"]]
    assert scores == sorted(scores, reverse=True)
    answer = call(f"{serving.url}/mcp", "highlights", query="How far is Nr 17?", texts=[TABLE], max_passages=1)
    assert "Planet" in answer["passages"][0]["header"]
    # White space between passages is no more text.
    answer = call(f"{serving.url}/mcp", "highlights", query=QUESTION, texts=["Cats sleep.\n\nThe Moon is far. "])
    assert (len(answer["passages"]), answer["truncated"]) == (2, False)


def test_nothing_that_answers_is_said_in_words(serving: ServerProcess) -> None:
    for texts, limits, words in (
        ([BREAD], {}, ["words", "nearest"]),
        ([""], {}, ["no text"]),
        ([BREAD], {"max_tokens": 1}, ["max_tokens=1"]),
    ):
        answer = call(f"{serving.url}/mcp", "highlights", query="Who won the match in Lagos?", texts=texts, **limits)
        assert answer["answered"] is False
        assert names_all(answer["note"], *words)
        assert "failed" not in answer["note"]


BOOK = {"moon.xhtml": "<p>The distance of the Moon is about thirty times the diameter of the Earth.</p>"}
REPORTS = {"/report.pdf": pdf(three_pages), "/broken.pdf": b"%PDF-1.7 nothing"}


def test_urls_are_fetched_with_the_servers_guard(serving: ServerProcess, web: FakeWeb) -> None:
    article, book = web.page("/article", ARTICLE), web.page("/book", epub(BOOK), "application/epub+zip")
    report, broken = (web.page(path, data, "application/pdf") for path, data in REPORTS.items())
    urls = [article, report, book, broken, "http://10.1.2.3/", "ftp://example.org/"]
    url = f"{serving.url}/mcp"
    answer = call(url, "highlights", query=QUESTION, urls=urls, texts=[BREAD], max_passages=20)
    passages = {passage["source"]: passage for passage in reversed(answer["passages"])}
    assert set(passages) >= {report, book}
    assert (passages[report]["page"], passages[book]["page"]) == (2, None)
    assert "384,400 km" in passages[report]["text"]
    assert {failed["source"] for failed in answer["failed"]} == set(urls[3:])
    assert all(failed["reason"] for failed in answer["failed"])
    (passage,) = call(url, "highlights", query="How is bread baked?", urls=[article], max_passages=1)["passages"]
    # The heading of the passage, which only the source of the page has.
    assert passage["text"].startswith("Café bread\n\n")
    assert "Bread is baked from flour & water 🍞." in passage["text"]
    text = serving.client.post("/contents", json={"urls": [article], "text": True}).json()["results"][0]["text"]
    assert text[passage["start"] : passage["end"]] == passage["text"]
    failed = call(f"{serving.url}/mcp", "highlights", query=QUESTION, urls=["http://10.1.2.3/"])
    assert (failed["answered"], failed["passages"], failed["total_tokens"]) == (False, [], 0)


def test_search_and_fetch_read_stored_documents(serving: ServerProcess) -> None:
    bread = "https://example.org/bread"
    found = call(f"{serving.url}/mcp", "search", query="How is bread baked?")
    assert found["results"] == [
        {"id": bread, "title": bread, "url": bread},
        {"id": "moon", "title": "Moon", "url": "moon"},
    ]
    page = call(f"{serving.url}/mcp", "fetch", id="moon")
    assert (page["id"], page["title"], page["text"], page["url"]) == ("moon", "Moon", MOON, "moon")


def test_twins_are_named_with_their_places(serving: ServerProcess) -> None:
    text = "The Moon is 384,400 km away from the Earth."
    answer = call(f"{serving.url}/mcp", "highlights", query=QUESTION, texts=[text, f"# Moon\n\n{text}"])
    [passage] = answer["passages"]
    [twin] = passage["twins"]
    assert (passage["source"], twin["source"]) == ("texts[0]", "texts[1]")
    assert 0 <= twin["start"] < twin["end"]


def test_mistakes_are_results_that_the_agent_can_read(serving: ServerProcess) -> None:
    url = f"{serving.url}/mcp"
    cases: list[tuple[str, dict[str, Any], list[Any]]] = [
        ("highlights", {"texts": [MOON]}, ["query"]),
        ("highlights", {"query": " ", "texts": [MOON]}, ["query"]),
        ("highlights", {"query": QUESTION}, ["texts"]),
        ("highlights", {"query": QUESTION, "texts": "not a list"}, ["texts", "not a list"]),
        ("highlights", {"query": QUESTION, "texts": [3]}, ["texts[0]", 3]),
        ("highlights", {"query": QUESTION, "texts": [MOON], "max_tokens": 0}, ["max_tokens", 0]),
        ("highlights", {"query": QUESTION, "texts": [MOON], "max_passages": "many"}, ["max_passages", "many"]),
        ("highlights", {"query": QUESTION, "texts": ["a"] * 1001}, ["texts", 1001, 1000]),
        ("highlights", {"query": QUESTION, "urls": ["https://example.org/"] * 101}, ["urls", 101, 100]),
        ("highlights", {"query": QUESTION, "files": ["/etc/passwd"]}, ["files", "--folder"]),
        ("highlights", {"query": QUESTION, "texts": [MOON], "max_token": 5}, ["max_token", "max_tokens"]),
        ("highlights", {"query": QUESTION, "texts": [MOON], "documents": []}, ["documents", "texts"]),
        ("search", {"query": QUESTION, "top_k": 3}, ["top_k", "query"]),
        ("search", {"query": ""}, ["query"]),
        ("fetch", {}, ["id"]),
        ("fetch", {"id": "nothing"}, ["nothing"]),
        ("nowhere", {}, ["nowhere"]),
    ]
    for tool, arguments, named in cases:
        assert names_all(error(url, tool, **arguments), *named), (tool, arguments)


def test_urls_need_fetching_and_documents_a_store() -> None:
    with letter_server("--store-documents", "0") as server:
        url = f"{server.url}/mcp"
        said = error(url, "highlights", query=QUESTION, urls=["https://example.org/"])
        assert names_all(said, "urls", "--fetch")
        for tool, arguments in (("search", {"query": "bread"}), ("fetch", {"id": "bread"})):
            assert names_all(error(url, tool, **arguments), "--store-documents", 0)
        assert call(url, "highlights", query="bread", texts=[BREAD])["passages"]
    with letter_server() as server:
        assert call(f"{server.url}/mcp", "search", query="bread") == {"results": []}


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
def test_versions_of_the_protocol(serving: ServerProcess, mode: str) -> None:
    async def use(client: Client) -> Any:
        if mode != "2026-07-28":  # without a handshake
            assert client.server_info is not None
            assert (client.server_info.name, client.server_info.version) == ("pullquote", pullquote.__version__)
        return await client.call_tool("highlights", {"query": QUESTION, "texts": TEXTS})

    found = session(f"{serving.url}/mcp", use, mode=mode)
    assert "384,400 km" in found.structured_content["passages"][0]["text"]


async def call_with_key(url: str, key: str | None, mode: Any) -> Any:
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        return await client.call_tool("highlights", {"query": "bread", "texts": [BREAD]})


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_server_with_keys_wants_one(mode: str) -> None:
    with letter_server("--api-key", "k3y") as server:
        assert asyncio.run(call_with_key(server.url, "k3y", mode)).structured_content["passages"]
        for key in (None, "other"):
            with pytest.raises((MCPError, ExceptionGroup)) as refused:
                asyncio.run(call_with_key(server.url, key, mode))
            errors = refused.value.exceptions if isinstance(refused.value, ExceptionGroup) else [refused.value]
            assert "valid key" in str(errors)


def test_client_that_hangs_up_cancels_its_tool(tmp_path: Path) -> None:
    arguments = {"query": "Who?", "texts": ["blocker"]}
    with gated_server(tmp_path) as server:
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "highlights", "arguments": arguments},
        }
        sent = json.dumps(body).encode()
        head = f"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(sent)}\r\n\r\n"
        with server.connect() as connection:
            connection.sendall(head.encode() + sent)
            wait_for_running(server)
        # The encoder still holds the texts.
        wait_for(lambda: metric(server, "pullquote_requests_running") == 0)
        assert metric(server, 'pullquote_failures_total{cause="cancelled"}') == 1
        open_gate(tmp_path)
        assert call(f"{server.url}/mcp", "search", query="bread") == {"results": []}
