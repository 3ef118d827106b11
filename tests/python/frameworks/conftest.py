"""What every adapter is tested with: a highlighter and a client, and a highlighter that counts its calls."""

from collections.abc import Iterator

import pytest

import pullquote
from support.server_process import ServerProcess
from support.sources import CountingHighlighter


@pytest.fixture(params=["Highlighter", "Client"])
def source(
    request: pytest.FixtureRequest, highlighter: pullquote.Highlighter
) -> Iterator[pullquote.Highlighter | pullquote.Client]:
    if request.param == "Highlighter":
        yield highlighter
        return
    server: ServerProcess = request.getfixturevalue("server")
    with pullquote.Client(server.url) as client:
        yield client


@pytest.fixture
def counting(highlighter: pullquote.Highlighter) -> CountingHighlighter:
    return CountingHighlighter(highlighter)
