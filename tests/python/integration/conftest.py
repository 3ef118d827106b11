"""Fixtures of Ray and browsers."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from support.browser_helpers import CHROMIUM

if TYPE_CHECKING:
    from support.ray_cluster import Nodes


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests with a Ray cluster last: its processes slow down all others."""
    items.sort(key=lambda item: "cluster" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Nodes]":
    """The one Ray cluster. Tests use `nodes`, because an earlier test may have killed some."""
    from support.ray_cluster import three_nodes

    with three_nodes(tmp_path_factory.mktemp("crashes")) as nodes:
        yield nodes


@pytest.fixture
def nodes(cluster: "Nodes") -> "Nodes":
    cluster.replace()
    return cluster


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for each module: while it runs, no other test can have an event loop."""
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM)
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A new page; fails on script errors, policy violations and requests to other hosts."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
    page.on("request", lambda request: complaints.append(request.url) if "//127.0.0.1:" not in request.url else None)
    yield page
    context.close()
    # Some tests cause answers with error statuses.
    assert [complaint for complaint in complaints if "Failed to load resource" not in complaint] == []
