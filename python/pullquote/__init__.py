"""Finds, in real time, the passages of whole pages that answer a query.

>>> import pullquote
>>> page = "Cats sleep a lot. The moon is 384,400 km away. Bread is baked."
>>> pullquote.parse_pieces(page, 1, 1).tolist()
[[0, 17], [18, 46], [47, 62]]

`highlights()` needs a model: ``pip install pullquote-minilm`` brings one. Importing this package starts no thread and loads no
model; classes that few programs use are imported when they are first named.
"""

import importlib
from typing import TYPE_CHECKING, Any

from pullquote._native import __version__
from pullquote.errors import PullquoteError
from pullquote.highlighter import Highlighter, TruncationWarning, highlights, parse_pieces
from pullquote.loading import DeviceState
from pullquote.profile import StageTime
from pullquote.result import CacheState, Highlight, Highlights, Match, Work
from pullquote.tables import HighlightTable

if TYPE_CHECKING:
    from pullquote.async_client import AsyncClient
    from pullquote.async_highlighter import AsyncHighlighter
    from pullquote.client import Client, Document, Rank, Stored
    from pullquote.engine import Done, Engine, RequestOutput

# asyncio alone is most of the time that importing this package would take.
_MODULES = {
    "AsyncClient": "async_client",
    "AsyncHighlighter": "async_highlighter",
    "Client": "client",
    "Document": "client",
    "Done": "engine",
    "Engine": "engine",
    "Rank": "client",
    "RequestOutput": "engine",
    "Stored": "client",
}

__all__ = [
    "AsyncClient",
    "AsyncHighlighter",
    "CacheState",
    "Client",
    "DeviceState",
    "Document",
    "Done",
    "Engine",
    "Highlight",
    "HighlightTable",
    "Highlighter",
    "Highlights",
    "Match",
    "PullquoteError",
    "Rank",
    "RequestOutput",
    "StageTime",
    "Stored",
    "TruncationWarning",
    "Work",
    "__version__",
    "highlights",
    "parse_pieces",
]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    found = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
