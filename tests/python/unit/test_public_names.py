"""The names that a release promises to keep."""

import importlib
import pkgutil

import pullquote

PUBLIC = {"engine", "client", "arrow", "documents", "errors", "quotes", "citations", "jobs", "ray", "vllm"}
# Adapters, which need their frameworks.
ADAPTERS = {"dspy", "haystack", "langchain", "llamaindex"}


def test_the_package_exports_thirteen_names() -> None:
    names = {
        "cite",
        "highlights",
        "locate",
        "parse_pieces",
        "Highlighter",
        "AsyncHighlighter",
        "Highlight",
        "Highlights",
    }
    names |= {"Client", "AsyncClient", "PullquoteError", "__version__", "tool_schema"}
    assert set(pullquote.__all__) == set(dir(pullquote)) == names
    assert all(hasattr(pullquote, name) for name in names)


def test_modules_that_are_not_public_begin_with_an_underscore() -> None:
    modules = {module.name for module in pkgutil.iter_modules(pullquote.__path__)}
    assert {name for name in modules if not name.startswith("_")} == PUBLIC | ADAPTERS
    for package in ("jobs", "ray", "vllm"):
        paths = [f"{path}/{package}" for path in pullquote.__path__]
        names = {module.name for module in pkgutil.iter_modules(paths)} - {"bodies"}
        assert all(name.startswith("_") for name in names), package


def test_public_modules_export_what_they_define() -> None:
    for name in PUBLIC - {"ray", "vllm"}:
        module = importlib.import_module(f"pullquote.{name}")
        assert all(hasattr(module, exported) for exported in module.__all__)
