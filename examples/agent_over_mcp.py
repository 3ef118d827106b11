"""An agent that reads by the Model Context Protocol. Needs ``pip install mcp``.

Usage: ``python examples/agent_over_mcp.py [QUESTION]``

The agent starts ``pullquote mcp``, as Claude or Cursor would, and calls its tool. It has no language model: its rule is to ask
the tool once, and to answer with the best passage. A real agent would decide that by itself.
"""

import asyncio
import os
import sys
from pathlib import Path

from mcp import Client
from mcp.client.stdio import StdioServerParameters

PAGES = Path(__file__).parents[1] / "demo" / "pages"
QUESTION = "How much did the Apollo program cost?"
FILES = ["apollo_program.en.txt", "rippenquallen.de.txt"]


async def main() -> None:
    """Ask about the files of a folder, and print what the agent would answer and what it saved."""
    question = sys.argv[1] if len(sys.argv) > 1 else QUESTION
    command = ["-m", "pullquote", "mcp", "--folder", str(PAGES)]
    server = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    async with Client(server) as client:
        tool, *_ = (await client.list_tools()).tools
        print(f"{tool.name} takes {', '.join(tool.input_schema['properties'])}")
        # Names are relative to the folder; "." would be all files below it.
        arguments = {"query": question, "files": FILES, "max_tokens": 200, "max_passages": 3}
        answer = (await client.call_tool(tool.name, arguments)).structured_content
    assert answer is not None
    if not answer["answered"]:
        print(answer["note"])
        return
    best = answer["passages"][0]
    name = Path(best["source"]).name
    print(f"{best['text']} ({name}, characters {best['start']} to {best['end']})")
    print(f"Reading the files would have cost {answer['total_tokens']:,} tokens.")


if __name__ == "__main__":
    asyncio.run(main())
