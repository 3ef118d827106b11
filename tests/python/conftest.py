"""Fixtures of all tests: the demo's pages, one highlighter and one server with the real model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import pullquote
from pullquote import _native
from support.server_process import ServerProcess, running_server

PAGES = Path(__file__).parents[2] / "demo" / "pages"


def pytest_report_header() -> str:
    return f"instruction sets of this processor, each tested: {', '.join(_native.instruction_sets())}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each file to one worker of pytest-xdist, because its tests share fixtures; and all tests with Ray to one."""
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            group = "ray" if item.get_closest_marker("ray") else item.path.stem
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def whole_pages() -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(PAGES.glob("*.*.*"))}


@pytest.fixture(scope="session")
def pages(whole_pages: dict[str, str]) -> dict[str, str]:
    """The first 3,000 characters of each page: one call over all of them takes a second or two in float32."""
    return {name: text[:3000] for name, text in whole_pages.items()}


@pytest.fixture(scope="session")
def highlighter() -> Iterator[pullquote.Highlighter]:
    """The embedded model in float32 on the CPU."""
    with pullquote.Highlighter(devices="cpu", dtype="float32") as made:
        yield made


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    """The one server with the real model, in float32 and at its default settings."""
    with running_server("--dtype", "float32") as running:
        yield running
