"""The MCP server, with the SDK's own client: in memory, over standard input and output, and over HTTP."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")
pytest.importorskip("fpdf")

import httpx
from fpdf import FPDF
from mcp import Client
from mcp.client.stdio import StdioServerParameters

import pullquote
from frameworks.mcp_client import call, error, session, tools
from pullquote._cli import check_arguments, main
from pullquote.errors import InvalidArgumentError
from pullquote.mcp import make_server
from support.fake_web import ARTICLE, FakeWeb, fake_web
from support.messages import names_all, raises
from support.server_process import ServerProcess, running_server
from support.sources import BREAD, MOON, QUESTION, TEXTS, CountingHighlighter

COMMAND = [sys.executable, "-m", "pullquote", "mcp"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An allowed folder with a text and a PDF, and files outside that links lead to."""
    allowed = tmp_path / "allowed"
    (allowed / "below").mkdir(parents=True)
    (allowed / "bread.txt").write_text(BREAD, encoding="utf-8")
    (allowed / ".secret.txt").write_text(MOON, encoding="utf-8")
    report = FPDF()
    report.set_font("Helvetica", size=12)
    for text in ("Salt is mined in Poland.", "The Moon is 384,400 km away from the Earth."):
        report.add_page()
        report.multi_cell(0, 6, text)
    report.output(str(allowed / "below" / "moon.pdf"))
    (tmp_path / "outside.txt").write_text(MOON, encoding="utf-8")
    (allowed / "below" / "link.txt").symlink_to(tmp_path / "outside.txt")
    (allowed / "out").symlink_to(tmp_path)
    return allowed


def test_texts_of_a_call_are_one_call_of_highlights(counting: CountingHighlighter) -> None:
    answer = call(make_server(counting), "highlights", query=QUESTION, texts=TEXTS, max_passages=2)
    assert counting.calls == [4]
    assert answer["answered"] is True
    assert len(answer["passages"]) == 2
    assert answer["passages"][0]["source"] == "texts[0]"
    for passage in answer["passages"]:
        text = TEXTS[int(passage["source"][6:-1])]
        assert text[passage["start"] : passage["end"]] == passage["text"]
        assert 0 <= passage["score"] <= 1
        assert passage["page"] is None
    assert answer["truncated"] is True
    assert answer["failed"] == []


def test_budget_and_tokens_count_in_the_models_tokens(source: pullquote.Highlighter | pullquote.Client) -> None:
    url = source._names if isinstance(source, pullquote.Client) else None
    server = make_server(source, url=url)
    small = call(server, "highlights", query=QUESTION, texts=[MOON, BREAD], max_tokens=20)
    # The server's tokenizer and the highlighter's windows of tokens agree.
    assert small["total_tokens"] == 39
    assert "384,400 km" in small["passages"][0]["text"]
    assert sum(len(passage["text"].split()) for passage in small["passages"]) <= 20
    whole = call(server, "highlights", query="Who bakes bread?", texts=["Bread is baked from flour."])
    assert (whole["truncated"], whole["total_tokens"]) == (False, 6)


def test_nothing_that_answers_is_said(highlighter: pullquote.Highlighter) -> None:
    answer = call(make_server(highlighter), "highlights", query=QUESTION, texts=[""])
    assert (answer["answered"], answer["passages"], answer["total_tokens"]) == (False, [], 0)


def test_files_have_paths_and_pages(highlighter: pullquote.Highlighter, folder: Path) -> None:
    server = make_server(highlighter, folders=[folder])
    absolute = str(folder / "bread.txt")
    answer = call(server, "highlights", query=QUESTION, files=["below/moon.pdf", absolute], texts=[BREAD])
    best = answer["passages"][0]
    assert (best["source"], best["page"]) == ("below/moon.pdf", 2)
    assert "384,400 km" in best["text"]
    assert {passage["source"] for passage in answer["passages"]} <= {"below/moon.pdf", absolute, "texts[0]"}
    assert answer["failed"] == []


def test_folder_stands_for_its_files_without_hidden_ones_and_links_outside(
    highlighter: pullquote.Highlighter, folder: Path
) -> None:
    answer = call(make_server(highlighter, folders=[folder]), "highlights", query=QUESTION, files=["."])
    sources = {passage["source"] for passage in answer["passages"]}
    assert sources == {str(folder / "bread.txt"), str(folder / "below" / "moon.pdf")}
    assert answer["failed"] == []


@pytest.mark.parametrize(
    "name", ["../outside.txt", "below/link.txt", "out/outside.txt", "/etc/passwd", "nowhere.txt", "a\0b", "x" * 5000]
)
def test_files_outside_the_folder_are_not_there(highlighter: pullquote.Highlighter, folder: Path, name: str) -> None:
    answer = call(make_server(highlighter, folders=[folder]), "highlights", query=QUESTION, files=[name])
    (failed,) = answer["failed"]
    assert failed["source"] == name
    assert names_all(failed["reason"], folder)
    assert (answer["answered"], answer["passages"]) == (False, [])


def test_files_that_cannot_be_read_leave_the_others(highlighter: pullquote.Highlighter, folder: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing")
    (folder / "image.png").write_bytes(b"\x89PNG\xff\xfe")
    files = ["broken.pdf", "image.png", "below/moon.pdf"]
    answer = call(make_server(highlighter, folders=[folder]), "highlights", query=QUESTION, files=files)
    assert [failed["source"] for failed in answer["failed"]] == files[:2]
    assert "damaged" in answer["failed"][0]["reason"]
    assert answer["passages"][0]["source"] == "below/moon.pdf"


def test_file_that_changed_is_read_again(highlighter: pullquote.Highlighter, folder: Path) -> None:
    server = make_server(highlighter, folders=[folder])
    assert "384" not in str(call(server, "highlights", query=QUESTION, files=["bread.txt"]))
    (folder / "bread.txt").write_text(MOON, encoding="utf-8")
    assert "384,400 km" in str(call(server, "highlights", query=QUESTION, files=["bread.txt"]))


def test_tools_take_only_what_is_switched_on(highlighter: pullquote.Highlighter, folder: Path) -> None:
    (tool,) = tools(make_server(highlighter)).values()
    assert set(tool.input_schema["properties"]) == {"query", "texts", "max_tokens", "max_passages"}
    assert tool.input_schema["required"] == ["query"]
    assert tool.annotations.read_only_hint is True
    assert "answered" in tool.output_schema["properties"]
    (tool,) = tools(make_server(highlighter, folders=[folder])).values()
    assert set(tool.input_schema["properties"]) >= {"texts", "files"}
    # What the schema does not have, the tool does not read.
    assert "nothing to read" in error(make_server(highlighter), "highlights", query=QUESTION, files=["bread.txt"])


def test_mistakes_are_errors_that_the_agent_can_read(highlighter: pullquote.Highlighter, folder: Path) -> None:
    server = make_server(highlighter, folders=[folder])
    assert names_all(error(server, "highlights", query=QUESTION), "texts")
    assert "query" in error(server, "highlights", query="", texts=[MOON])
    assert "max_tokens" in error(server, "highlights", query=QUESTION, texts=[MOON], max_tokens=0)
    assert "1000" in error(server, "highlights", query=QUESTION, texts=["a"] * 1001)
    with raises(InvalidArgumentError, "fetch", "url"):
        make_server(highlighter, fetch=True)
    with raises(InvalidArgumentError, "/nowhere"):
        make_server(highlighter, folders=["/nowhere"])


@pytest.fixture(scope="module")
def web() -> Iterator[FakeWeb]:
    with fake_web() as made:
        yield made


@pytest.fixture(scope="module")
def storing() -> Iterator[ServerProcess]:
    """A server that fetches, wants a key and stores two documents."""
    options = ("--fetch", "--fetch-allow", "127.0.0.1/32", "--api-key", "k3y")
    with running_server("--dtype", "float32", *options) as server:
        with pullquote.Client(server.url, api_key="k3y") as client:
            client.put_document("moon", MOON, title="Moon")
            client.put_document("https://example.org/bread", BREAD)
        yield server


def test_urls_are_fetched_by_the_server_with_its_guard(storing: ServerProcess, web: FakeWeb) -> None:
    server = make_server(url=storing.url, api_key="k3y", fetch=True)
    url = web.page("/article", ARTICLE)
    answer = call(server, "highlights", query="How is bread baked?", urls=[url, "http://10.1.2.3/"], texts=[MOON])
    assert answer["passages"][0]["source"] == url
    assert "Bread is baked from flour & water 🍞." in answer["passages"][0]["text"]
    assert [failed["source"] for failed in answer["failed"]] == ["http://10.1.2.3/"]
    (tool, _, _) = tools(make_server(url=storing.url, api_key="k3y")).values()
    assert "urls" not in tool.input_schema["properties"]


def test_search_and_fetch_have_the_shapes_of_research_modes(storing: ServerProcess) -> None:
    server = make_server(url=storing.url, api_key="k3y")
    found = call(server, "search", query="How is bread baked?")
    bread = "https://example.org/bread"
    assert found["results"][0] == {"id": bread, "title": bread, "url": bread}
    assert found["results"][1] == {"id": "moon", "title": "Moon", "url": "moon"}
    page = call(server, "fetch", id="moon")
    assert set(page) == {"id", "title", "text", "url", "metadata"}
    assert (page["id"], page["title"], page["text"]) == ("moon", "Moon", MOON)
    assert page["metadata"]["text_hash"].startswith("sha256:")
    assert names_all(error(server, "fetch", id="nothing"), "nothing")
    assert "401" in error(make_server(url=storing.url), "search", query="bread")
    assert "does not answer" in error(make_server(url="http://127.0.0.1:9"), "search", query="bread")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_standard_input_and_output(folder: Path, mode: str) -> None:
    environment = {name: os.environ[name] for name in ("PYTHONPATH", "PATH") if name in os.environ}
    arguments = [*COMMAND[1:], "--device", "cpu", "--folder", str(folder)]
    server = StdioServerParameters(command=COMMAND[0], args=arguments, env=environment)

    async def use(client: Client) -> Any:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["highlights"]
        return await client.call_tool("highlights", {"query": QUESTION, "files": ["below/moon.pdf"]})

    answer = session(server, use, mode=mode).structured_content
    assert answer["passages"][0]["page"] == 2


@pytest.fixture(scope="module")
def http_url() -> Iterator[str]:
    command = [*COMMAND, "--device", "cpu", "--http", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    yield line.split()[-1]
    process.terminate()
    process.communicate(timeout=60)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_streamable_http(http_url: str, mode: str) -> None:
    assert http_url.endswith("/mcp")
    found = session(
        http_url, lambda client: client.call_tool("highlights", {"query": QUESTION, "texts": TEXTS}), mode=mode
    )
    assert "384,400 km" in found.structured_content["passages"][0]["text"]


def test_http_refuses_other_hosts_and_origins(http_url: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accept = {"accept": "application/json, text/event-stream"}
    for headers, status in (({"host": "evil.example"}, 421), ({"origin": "https://evil.example"}, 403)):
        assert httpx.post(http_url, json=body, headers={**accept, **headers}).status_code == status


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--http", "192.168.1.2:8000"], "192.168.1.2"),
        (["--http", "8000"], "HOST:PORT"),
        (["--folder", "/nowhere"], "/nowhere"),
        (["--fetch"], "fetch"),
        (["--server", "http://127.0.0.1:1", "--server", "http://127.0.0.1:2"], "--server"),
    ],
)
def test_command_refuses_what_is_not_safe(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    device = [] if "--server" in arguments else ["--device", "cpu"]
    assert main(["mcp", *device, *arguments]) == InvalidArgumentError.exit_code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert named in printed.err


def test_configuration_files_of_the_docs_start_the_command() -> None:
    page = (Path(__file__).parents[3] / "docs/mcp.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(json|toml)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 4
    for kind, text in blocks:
        (servers,) = (json.loads(text) if kind == "json" else tomllib.loads(text)).values()
        assert servers["pullquote"]["command"] == "pullquote"
        check_arguments(servers["pullquote"]["args"])
