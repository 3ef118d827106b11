"""Finds, in real time, the passages of whole pages that answer a query.

>>> import pullquote
>>> page = "Cats sleep a lot. The moon is 384,400 km away. Bread is baked."
>>> pullquote.parse_pieces(page, 1, 1).tolist()
[[0, 17], [18, 46], [47, 62]]

`highlights()` needs a model: ``pip install pullquote-minilm`` installs one, and ``model="org/name"`` names one of the Hugging Face
Hub. Importing this package starts no threads and loads no model. Everything else is in `pullquote.engine`, `pullquote.client`,
`pullquote.arrow`, `pullquote.documents`, `pullquote.errors`, `pullquote.quotes`, `pullquote.ray` and `pullquote.vllm`, and in
adapters such as `pullquote.langchain`.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from pullquote._engine.highlighter import Highlighter, cite, highlights, parse_pieces
from pullquote._native import __version__
from pullquote._results.highlight import Highlight
from pullquote._results.highlights import Highlights
from pullquote._results.prompts import tool_schema
from pullquote.errors import PullquoteError
from pullquote.quotes import locate

if TYPE_CHECKING:
    from pullquote._async_client import AsyncClient
    from pullquote._engine.async_highlighter import AsyncHighlighter
    from pullquote.client import Client

# Imported on first use: importing asyncio would take longer than the rest of this package.
_LAZY = {"AsyncClient": "_async_client", "AsyncHighlighter": "_engine.async_highlighter", "Client": "client"}

__all__ = [
    "AsyncClient",
    "AsyncHighlighter",
    "Client",
    "Highlight",
    "Highlighter",
    "Highlights",
    "PullquoteError",
    "__version__",
    "cite",
    "highlights",
    "locate",
    "parse_pieces",
    "tool_schema",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        message = f"module {__name__!r} has no attribute {name!r}"
        # With these, Python adds the name that was probably meant.
        raise AttributeError(message, name=name, obj=sys.modules[__name__])
    globals()[name] = value = getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
