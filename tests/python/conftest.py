"""What the tests share: one highlighter of each kind, and the real pages of the demo."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import pullquote
from serving import Serving, serving

PAGES = Path(__file__).parents[2] / "demo" / "pages"


@pytest.fixture(scope="session")
def whole_pages() -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(PAGES.glob("*.*.*"))}


@pytest.fixture(scope="session")
def pages(whole_pages: dict[str, str]) -> dict[str, str]:
    """The first 3,000 characters of each page: a call over all of them takes a second or two in float32."""
    return {name: text[:3000] for name, text in whole_pages.items()}


@pytest.fixture(scope="session")
def highlighter() -> Iterator[pullquote.Highlighter]:
    """The embedded model in float32, which is exact, on the CPU."""
    with pullquote.Highlighter(devices="cpu", dtype="float32") as made:
        yield made


@pytest.fixture(scope="session")
def server() -> Iterator[Serving]:
    """A server of the embedded model in float32, at its default settings."""
    with serving("--dtype", "float32") as running:
        yield running
