"""Calls of an MCP server's tools, with the SDK's own client."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import Client


def session(server: Any, use: Callable[[Client], Awaitable[Any]], **settings: Any) -> Any:
    async def run() -> Any:
        async with Client(server, **settings) as client:
            return await use(client)

    return asyncio.run(run())


def call(server: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured answer of a tool, after checking that it is also in the text."""
    result = session(server, lambda client: client.call_tool(tool, arguments))
    assert not result.is_error, result.content
    assert json.loads(result.content[0].text) == result.structured_content
    answer: dict[str, Any] = result.structured_content
    return answer


def error(server: Any, tool: str, **arguments: Any) -> str:
    result = session(server, lambda client: client.call_tool(tool, arguments))
    assert result.is_error
    return str(result.content[0].text)


def tools(server: Any) -> dict[str, Any]:
    return {tool.name: tool for tool in session(server, lambda client: client.list_tools()).tools}
