"""`POST /cite`, the tool `cite`, and `Client.cite`: what `pullquote.cite` says."""

import asyncio

import pytest

from pullquote import AsyncClient, Client, Highlighter
from pullquote.citations import Cited
from pullquote.errors import InvalidArgumentError
from support.messages import raises
from support.server_process import ServerProcess

PAGES = {"moon": "🌕 The Moon is 384,400 km away. It has no weather.", "bread": "Bread is baked from flour and water."}
ANSWER = "🌕 The Moon is 384,400 km away [moon]. Bread is baked from 12 kinds of flour [1]."


def rounded(value: object) -> object:
    """A result as JSON has it, with scores to three digits: other rows of a batch move them by less."""
    if isinstance(value, Cited):
        return rounded(value.to_dict())
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return round(value, 3) if isinstance(value, float) else value


def test_client_cites_as_the_library(server: ServerProcess) -> None:
    with Highlighter(dtype="float32") as highlighter:
        expected = highlighter.cite(ANSWER, PAGES)

    async def awaited() -> Cited:
        async with AsyncClient(server.url) as client:
            return await client.cite(ANSWER, PAGES)

    with Client(server.url) as client:
        assert rounded(client.cite(ANSWER, PAGES)) == rounded(expected) == rounded(asyncio.run(awaited()))
        assert client.highlights("How is bread made?", PAGES, top_k=1).cite("Bread is baked from flour [1].")
        with raises(InvalidArgumentError, "answer"):
            client.cite("?!", PAGES)


@pytest.mark.parametrize("offsets", ["codepoint", "utf16", "byte"])
def test_offsets_of_cite_have_their_unit(server: ServerProcess, offsets: str) -> None:
    documents = [{"id": name, "text": text} for name, text in PAGES.items()]
    body = {"answer": ANSWER, "documents": documents, "offsets": offsets}
    answer = server.client.post("/cite", json=body).json()
    codec = {"codepoint": "utf-32-le", "utf16": "utf-16-le", "byte": "utf-8"}[offsets]
    width = {"codepoint": 4, "utf16": 2, "byte": 1}[offsets]

    def part(text: str, one: dict[str, int]) -> str:
        return text.encode(codec)[one["start"] * width : one["end"] * width].decode(codec)

    first, second = [each for each in answer["sentences"] if each["support"] != "no_claim"][-2:]
    assert part(ANSWER, first) == first["text"]
    (passage,) = first["passages"]
    assert part(PAGES["moon"], passage) == passage["text"]
    assert [part(ANSWER, fact) for fact in second["missing"]] == ["12"]
    assert (answer["supported"], answer["offsets"]) == (False, offsets)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"answer": "?!", "documents": ["a"]}, "answer"),
        ({"documents": ["a"]}, "answer"),
        ({"answer": "A claim.", "documents": []}, "documents"),
        ({"answer": "A claim.", "documents": ["a"], "numbers": [-1]}, "numbers"),
        ({"answer": "A claim.", "documents": ["a"], "pages": 1}, "pages"),
        ({"answer": "A claim.", "documents": ["a", {"id": "not there"}]}, "documents"),
        ({"answer": "Bread is baked from flour. " * 1025, "documents": ["a"]}, "--max-queries"),
    ],
)
def test_invalid_body_of_cite_names_its_field(server: ServerProcess, body: object, field: str) -> None:
    answer = server.client.post("/cite", json=body)
    assert answer.status_code in {404, 422}
    assert field in answer.text


def test_tool_cites_sentences(server: ServerProcess) -> None:
    call = {"name": "cite", "arguments": {"answer": ANSWER, "texts": [*PAGES.values()]}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    found = server.client.post("/mcp", json=body).json()["result"]["structuredContent"]
    assert found["supported"] is False
    assert [fact["kind"] for fact in found["sentences"][-1]["missing"]] == ["number"]
