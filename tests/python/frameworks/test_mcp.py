"""``pullquote mcp``, with the SDK's own client over standard input and output."""

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")
pytest.importorskip("fpdf")

from fpdf import FPDF
from mcp import Client
from mcp.client.stdio import StdioServerParameters

import pullquote
from frameworks.mcp_client import call, error, session, tools
from pullquote._cli import check_arguments, main
from pullquote.errors import InvalidArgumentError
from support.fake_web import ARTICLE, FakeWeb, fake_web
from support.messages import names_all
from support.server_process import ServerProcess, running_server
from support.sources import BREAD, MOON, QUESTION, TEXTS

COMMAND = [sys.executable, "-m", "pullquote", "mcp"]


def agent(*options: str) -> StdioServerParameters:
    """The command, as an agent starts it."""
    device = [] if "--server" in options else ["--device", "cpu"]
    return StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], *device, *options], env=dict(os.environ), cwd=Path.cwd()
    )


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


@pytest.fixture(scope="module")
def storing() -> Iterator[ServerProcess]:
    """A server that fetches, wants a key and stores two documents."""
    options = ("--fetch", "--fetch-allow", "127.0.0.1/32", "--api-key", "k3y")
    with running_server("--dtype", "float32", *options) as server:
        with pullquote.Client(server.url, api_key="k3y") as client:
            client.put_document("moon", MOON, title="Moon")
            client.put_document("https://example.org/bread", BREAD)
        yield server


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_files_have_paths_and_pages(folder: Path, mode: str) -> None:
    absolute = str(folder / "bread.txt")
    arguments = {"query": QUESTION, "files": ["below/moon.pdf", absolute], "texts": [BREAD]}

    async def use(client: Client) -> Any:
        return await client.call_tool("highlights", arguments)

    answer = session(agent("--folder", str(folder)), use, mode=mode).structured_content
    best = answer["passages"][0]
    assert (best["source"], best["page"]) == ("below/moon.pdf", 2)
    assert "384,400 km" in best["text"]
    assert {passage["source"] for passage in answer["passages"]} <= {"below/moon.pdf", absolute, "texts[0]"}
    assert answer["failed"] == []


def test_folder_stands_for_its_files_without_hidden_ones_and_links_outside(folder: Path) -> None:
    # Where no page answers, all have passages.
    answer = call(agent("--folder", str(folder)), "highlights", query="Who won the 2022 World Cup?", files=["."])
    sources = {passage["source"] for passage in answer["passages"]}
    assert sources == {str(folder / "bread.txt"), str(folder / "below" / "moon.pdf")}
    assert answer["failed"] == []


def test_files_outside_the_folder_are_not_there(folder: Path) -> None:
    names = ["../outside.txt", "below/link.txt", "out/outside.txt", "/etc/passwd", "nowhere.txt", "a\0b", "x" * 5000]
    answer = call(agent("--folder", str(folder)), "highlights", query=QUESTION, files=names)
    assert [failed["source"] for failed in answer["failed"]] == names
    assert all(names_all(failed["reason"], folder) for failed in answer["failed"])
    assert (answer["answered"], answer["passages"], answer["total_tokens"]) == (False, [], 0)
    assert names_all(answer["note"], "No source", "read")
    query = "Who won the match in Lagos?"
    answer = call(agent("--folder", str(folder)), "highlights", query=query, files=["nowhere.txt", "bread.txt"])
    assert names_all(answer["note"], "words", "failed")


def test_files_that_cannot_be_read_leave_the_others(folder: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing")
    (folder / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    files = ["broken.pdf", "image.png", "below/moon.pdf"]
    answer = call(agent("--folder", str(folder)), "highlights", query=QUESTION, files=files)
    assert [failed["source"] for failed in answer["failed"]] == files[:2]
    assert "damaged" in answer["failed"][0]["reason"]
    assert answer["passages"][0]["source"] == "below/moon.pdf"


def test_file_that_changed_is_read_again(folder: Path) -> None:
    arguments = {"query": QUESTION, "files": ["bread.txt"]}

    async def use(client: Client) -> tuple[Any, Any]:
        before = await client.call_tool("highlights", arguments)
        (folder / "bread.txt").write_text(MOON, encoding="utf-8")
        return before, await client.call_tool("highlights", arguments)

    before, after = session(agent("--folder", str(folder)), use)
    assert "384" not in str(before)
    assert "384,400 km" in str(after)


def described(tool: Any, *, without: str = "") -> dict[str, Any]:
    """What an agent reads of a tool, without one of its arguments."""
    shown: dict[str, Any] = tool.model_dump()
    shown["input_schema"]["properties"].pop(without, None)
    return shown


def test_tools_are_those_of_the_server(storing: ServerProcess, folder: Path) -> None:
    options = ("--server", storing.url, "--api-key", "k3y", "--fetch", "--folder", str(folder))
    found = tools(agent(*options))
    with running_server("--dtype", "float32", "--fetch") as server:
        expected = tools(f"{server.url}/mcp")
    assert list(found) == list(expected) == ["highlights", "locate", "cite", "search", "fetch"]
    assert "files" in found["highlights"].input_schema["properties"]
    for name, tool in expected.items():
        assert described(found[name], without="files") == described(tool)


def test_tools_take_only_what_is_switched_on(folder: Path) -> None:
    found = tools(agent())
    assert list(found) == ["highlights", "locate", "cite"]
    tool = found["highlights"]
    assert set(tool.input_schema["properties"]) == {"query", "texts", "max_tokens", "max_passages"}
    assert tool.input_schema["required"] == ["query"]
    assert tool.annotations.read_only_hint is True
    assert "answered" in tool.output_schema["properties"]
    tool = tools(agent("--folder", str(folder)))["highlights"]
    assert set(tool.input_schema["properties"]) >= {"texts", "files"}
    # A source that the schema does not have is refused, also next to others, and not left out in silence.
    for arguments, advice in [
        ({"files": ["bread.txt"]}, "--folder"),
        ({"urls": ["https://example.org"]}, "--fetch"),
        ({"urls": ["https://example.org"], "texts": [MOON]}, "--fetch"),
    ]:
        assert names_all(error(agent(), "highlights", query=QUESTION, **arguments), next(iter(arguments)), advice)
    assert call(agent(), "highlights", query=QUESTION, texts=[MOON], files=[], urls=[])["passages"]


def test_mistakes_are_errors_that_the_agent_can_read(folder: Path) -> None:
    cases: list[tuple[dict[str, Any], list[Any]]] = [
        ({}, ["texts"]),
        ({"query": "", "texts": [MOON]}, ["query"]),
        ({"texts": [MOON], "max_tokens": 0}, ["max_tokens", 0]),
        ({"texts": ["a"] * 1001}, [1001, 1000]),
        ({"files": "bread.txt"}, ["files"]),
        ({"texts": "not a list", "files": ["bread.txt"]}, ["texts"]),
    ]

    async def use(client: Client) -> list[Any]:
        return [await client.call_tool("highlights", {"query": QUESTION} | arguments) for arguments, _ in cases]

    for (arguments, named), result in zip(cases, session(agent("--folder", str(folder)), use), strict=True):
        assert result.is_error, arguments
        assert names_all(result.content[0].text, *named), arguments


@pytest.fixture(scope="module")
def web() -> Iterator[FakeWeb]:
    with fake_web() as made:
        yield made


def test_server_computes_and_fetches_urls_with_its_guard(storing: ServerProcess, web: FakeWeb, folder: Path) -> None:
    server = agent("--server", storing.url, "--api-key", "k3y", "--fetch", "--folder", str(folder))
    url = web.page("/article", ARTICLE)
    urls = [url, "http://10.1.2.3/"]
    arguments = {"urls": urls, "files": ["below/moon.pdf", "nowhere.txt"], "texts": [TEXTS[0]]}
    answer = call(server, "highlights", query="How is bread baked?", **arguments)
    assert answer["passages"][0]["source"] == url
    assert "Bread is baked from flour & water 🍞." in answer["passages"][0]["text"]
    assert [failed["source"] for failed in answer["failed"]] == ["nowhere.txt", "http://10.1.2.3/"]
    best = call(server, "highlights", query=QUESTION, **arguments)["passages"][0]
    assert (best["source"], best["page"]) == ("below/moon.pdf", 2)


def test_search_and_fetch_have_the_shapes_of_research_modes(storing: ServerProcess) -> None:
    server = agent("--server", storing.url, "--api-key", "k3y")
    found = call(server, "search", query="How is bread baked?")
    bread = "https://example.org/bread"
    assert found["results"][0] == {"id": bread, "title": bread, "url": bread}
    assert found["results"][1] == {"id": "moon", "title": "Moon", "url": "moon"}
    page = call(server, "fetch", id="moon")
    assert (page["id"], page["title"], page["text"]) == ("moon", "Moon", MOON)
    assert names_all(error(server, "fetch", id="nothing"), "nothing")
    assert "401" in error(agent("--server", storing.url), "search", query="bread")
    assert names_all(error(agent("--server", "http://127.0.0.1:9"), "search", query="bread"), "http://127.0.0.1:9")


@pytest.mark.parametrize("end", ["end of input", signal.SIGINT, signal.SIGTERM])
def test_command_ends_and_writes_nothing_but_the_protocol(end: str | signal.Signals) -> None:
    command = [*COMMAND, "--device", "cpu"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:  # type: ignore[call-overload]
        greeting = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        assert answer["result"]["serverInfo"] == {"name": "pullquote", "version": pullquote.__version__}
        if isinstance(end, signal.Signals):
            process.send_signal(end)
            process.wait(timeout=60)
        rest, logged = process.communicate(timeout=60)
    assert (process.returncode, rest, logged) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--folder", "/nowhere"], "/nowhere"),
        (["--fetch"], "fetch"),
        (["--server", "http://127.0.0.1:1", "--server", "http://127.0.0.1:2"], "--server"),
        (["--timeout", "5"], "--timeout"),
    ],
)
def test_command_refuses_what_cannot_be(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
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
