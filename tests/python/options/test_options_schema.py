"""Options and arguments that are written in several places agree with their one source."""

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_type_hints

import pytest

import pullquote
from pullquote import AsyncHighlighter, Client, Highlighter, _cli, _native
from pullquote._models.engine_config import EngineConfig
from pullquote._request.options import Options

SCHEMA: dict[str, dict[str, Any]] = json.loads(_native.options_schema())["properties"]
TYPES = {"integer": int, "number": float, "boolean": bool, "null": None}
DOCS = Path(__file__).parents[3] / "docs" / "options.md"


def python_type(option: dict[str, Any]) -> Any:
    if "enum" in option:
        return Literal[tuple(option["enum"])]
    if "anyOf" in option:
        number: Any = float | Literal["auto"]
        return number | None if {"type": "null"} in option["anyOf"] else number
    names = option["type"] if isinstance(option["type"], list) else [option["type"]]
    union: Any = TYPES[names[0]]
    for name in names[1:]:
        union |= TYPES[name]
    return union


def keywords(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters.values()
    return {parameter.name: parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("method", [Highlighter.highlights, AsyncHighlighter.highlights, Client.highlights])
def test_highlights_has_the_options_and_defaults_of_the_schema(method: Callable[..., Any]) -> None:
    own = {"titles", "ids", "files", "password", "return_texts", "return_vectors", "embedding_dtype"}
    defaults = {name: parameter.default for name, parameter in keywords(method).items() if name not in own}
    assert defaults == {name: option["default"] for name, option in SCHEMA.items()}


def test_options_have_the_types_of_the_schema_and_of_highlights() -> None:
    hints = get_type_hints(Options)
    assert {name: hints[name] for name in SCHEMA} == {name: python_type(option) for name, option in SCHEMA.items()}
    assert {name: parameter.annotation for name, parameter in keywords(Highlighter.highlights).items()} == (
        {name: annotation.__forward_arg__ for name, annotation in Options.__annotations__.items()}
    )


@pytest.mark.parametrize(
    "function",
    [pullquote.parse_pieces, Highlighter.parse_pieces, AsyncHighlighter.parse_pieces, Client.parse_pieces],
)
def test_parse_pieces_has_the_defaults_of_the_schema(function: Callable[..., Any]) -> None:
    parameters = inspect.signature(function).parameters
    for name in ("highlight_length", "step_size", "unit", "allow_gaps"):
        assert parameters[name].default == SCHEMA[name]["default"]


@pytest.mark.parametrize("constructor", [Highlighter.__init__, AsyncHighlighter.__init__])
def test_constructors_have_the_fields_of_engine_config(constructor: Callable[..., Any]) -> None:
    parameters = dict(inspect.signature(constructor).parameters)
    del parameters["self"]
    parameters.pop("max_concurrent", None)
    config = inspect.signature(EngineConfig).parameters
    assert list(parameters) == [field.name for field in fields(EngineConfig)]
    assert {name: parameter.replace() for name, parameter in parameters.items()} == dict(config)


def test_command_line_has_all_options_with_the_help_of_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _cli.main(["highlight", "--help"])
    text = re.sub(r"\s+", " ", capsys.readouterr().out)
    # It asks each query of every page, and has no other callers. --timeout is for files too, with help of its own.
    for name in SCHEMA.keys() - {"pairing", "priority"}:
        assert re.search(rf"--(no-)?{name.replace('_', '-')}\b", text), name
        if name != "timeout":
            assert re.sub(r"\s+", " ", SCHEMA[name]["description"]).replace("`", '"') in text, name


def test_docs_options_have_the_defaults_and_choices_of_the_schema() -> None:
    rows: dict[str, tuple[str, str]] = {}
    for line in DOCS.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            names, default, meaning = line.strip("| ").split(" | ", 2)
            rows |= dict.fromkeys(re.findall(r"`(\w+)`", names), (default, meaning))
    assert rows.keys() == SCHEMA.keys() | {"query", "texts", "titles", "ids"}
    for name, option in SCHEMA.items():
        default, meaning = rows[name]
        value = option["default"]
        shown = f"`{value}`" if isinstance(value, bool) else f'`"{value}"`' if isinstance(value, str) else str(value)
        assert default == shown or (value is None and "none" in default), name
        assert all(f'`"{choice}"`' in meaning for choice in option.get("enum", [])), name
