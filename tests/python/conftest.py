"""What the tests share: one highlighter of each kind, the real pages of the demo, and a Ray cluster."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import pullquote
from pullquote import _native
from support.browser_helpers import CHROMIUM
from support.server_process import Serving, serving

if TYPE_CHECKING:
    from support.ray_cluster import Nodes

PAGES = Path(__file__).parents[2] / "demo" / "pages"


def pytest_report_header() -> str:
    """Which instruction sets the encoder's tests will run."""
    return f"instruction sets of this processor, each tested: {', '.join(_native.instruction_sets())}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs the cluster comes last, so that its processes take nothing from other tests."""
    items.sort(key=lambda item: "cluster" in getattr(item, "fixturenames", ()))


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


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Nodes]":
    """The nodes, which a module joins; tests take them as `nodes`, for they may have been killed."""
    from support.ray_cluster import three_nodes

    with three_nodes(tmp_path_factory.mktemp("doom")) as nodes:
        yield nodes


@pytest.fixture
def nodes(cluster: "Nodes") -> "Nodes":
    """All three, alive."""
    cluster.replace()
    return cluster


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Only as long as a module: while it runs, no other test can have an event loop."""
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM)
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh visitor, whose browser complains of nothing: no error, no breach of the policy, no request elsewhere."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
    page.on("request", lambda request: complaints.append(request.url) if "//127.0.0.1:" not in request.url else None)
    yield page
    context.close()
    # Statuses of failure are what some tests are about.
    assert [said for said in complaints if "Failed to load resource" not in said] == []
