"""`POST /locate`, the tool `locate`, and `Client.locate`: what `pullquote.locate` says."""

import asyncio

import pytest

import pullquote
from pullquote import AsyncClient, Client
from pullquote.errors import InvalidArgumentError
from support.messages import raises
from support.server_process import ServerProcess

PAGE = "🌕 The Moon is **384,400 km** away.[1] It is weiß."
QUOTES = ["the moon is 384400 km away", "The Moon was 384,400 km away", "It is weiß … away", "🌕 bread", "The … weiß"]


@pytest.mark.parametrize("quote", QUOTES)
def test_client_locates_as_the_library(server: ServerProcess, quote: str) -> None:
    expected = pullquote.locate(PAGE, quote)

    async def awaited() -> pullquote.quotes.Located:
        async with AsyncClient(server.url) as client:
            return await client.locate(PAGE, quote)

    with Client(server.url) as client:
        assert client.locate(PAGE, quote) == expected == asyncio.run(awaited())
        with raises(InvalidArgumentError, "quote"):
            client.locate(PAGE, "?!")


@pytest.mark.parametrize("offsets", ["codepoint", "utf16", "byte"])
def test_offsets_of_locate_have_their_unit(server: ServerProcess, offsets: str) -> None:
    answer = server.client.post("/locate", json={"page": PAGE, "quote": "the moon", "offsets": offsets}).json()
    (place,) = answer["places"]
    codec = {"codepoint": "utf-32-le", "utf16": "utf-16-le", "byte": "utf-8"}[offsets]
    width = {"codepoint": 4, "utf16": 2, "byte": 1}[offsets]
    page = PAGE.encode(codec)
    assert page[place["start"] * width : place["end"] * width].decode(codec) == place["text"] == "The Moon"
    assert (answer["status"], answer["offsets"]) == ("exact", offsets)


@pytest.mark.parametrize(
    ("body", "field"),
    [({"page": PAGE, "quote": "?!"}, "quote"), ({"page": PAGE}, "quote"), ({"page": 3, "quote": "a"}, "page")],
)
def test_invalid_body_of_locate_is_422_with_its_field(server: ServerProcess, body: object, field: str) -> None:
    answer = server.client.post("/locate", json=body)
    assert answer.status_code == 422
    assert field in answer.text


def test_tool_locates_a_quote(server: ServerProcess) -> None:
    call = {"name": "locate", "arguments": {"page": PAGE, "quote": "The Moon is 400,400 km away"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    found = server.client.post("/mcp", json=body).json()["result"]["structuredContent"]
    assert (found["status"], found["places"]) == ("none", [])
    assert [one["kind"] for one in found["nearest"]["differences"]] == ["number"]
