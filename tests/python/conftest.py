"""Fixtures of all tests: the demo's pages, one highlighter and one server with the real model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pullquote
from pullquote import _native
from support.server_process import ServerProcess, running_server

PAGES = Path(__file__).parents[2] / "demo" / "pages"


def pytest_report_header() -> str:
    return f"instruction sets of this processor, each tested: {', '.join(_native.instruction_sets())}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile`, with both files of Ray in one process, for one cluster: pytest-xdist 3.8 ignores marks."""
    from xdist.scheduler import LoadFileScheduling

    class FileScheduling(LoadFileScheduling):  # type: ignore[misc] # without types
        def _split_scope(self, nodeid: str) -> str:
            return "ray" if "/test_ray_" in nodeid else str(super()._split_scope(nodeid))

    return FileScheduling(config, log)


@pytest.fixture(scope="session")
def whole_pages() -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(PAGES.glob("*.*.*"))}


@pytest.fixture(scope="session")
def pages(whole_pages: dict[str, str]) -> dict[str, str]:
    """The first 1,500 characters of each page: one call over all of them takes a second in float32."""
    return {name: text[:1500] for name, text in whole_pages.items()}


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
