"""Signatures that are written by hand agree with the generated ones, and each setting has a meaning and its flags."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

import pullquote
from pullquote import AsyncHighlighter, Client, Highlighter, _cli
from pullquote._cli.settings import flag, of_command
from pullquote._models.engine_arguments import EngineArguments
from pullquote._request.options import Options
from pullquote._request.signatures import Kind, described

DEFAULTS = {field["name"]: field["default"] for field in described("call")}


@pytest.mark.parametrize("method", [Highlighter.highlights, AsyncHighlighter.highlights, Client.highlights])
def test_highlights_has_all_options(method: Callable[..., Any]) -> None:
    parameters = inspect.signature(method).parameters
    assert {name: parameters[name].default for name in DEFAULTS} == DEFAULTS
    assert Options.__annotations__.keys() <= parameters.keys()


@pytest.mark.parametrize(
    "function",
    [pullquote.parse_pieces, Highlighter.parse_pieces, AsyncHighlighter.parse_pieces, Client.parse_pieces],
)
def test_parse_pieces_has_the_defaults_of_the_options(function: Callable[..., Any]) -> None:
    parameters = inspect.signature(function).parameters
    for name in ("highlight_length", "step_size", "unit", "allow_gaps"):
        assert parameters[name].default == DEFAULTS[name]


@pytest.mark.parametrize("constructor", [Highlighter.__init__, AsyncHighlighter.__init__])
def test_constructors_have_the_arguments_of_an_engine(constructor: Callable[..., Any]) -> None:
    names = [name for name in inspect.signature(constructor).parameters if name not in {"self", "max_concurrent"}]
    assert names == [field.name for field in fields(EngineArguments)]


@pytest.mark.parametrize("kind", ["call", "engine", "server", "client"])
def test_each_setting_says_what_it_means(kind: Kind) -> None:
    for field in described(kind):
        assert field["description"].endswith("."), field["name"]


@pytest.mark.parametrize("command", ["highlight", "job", "serve"])
def test_help_names_the_flags_of_settings(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _cli.main([command, "--help"])
    text = capsys.readouterr().out
    kinds: tuple[Kind, ...] = ("call", "engine", "server")
    for field in (field for kind in kinds for field in of_command(kind, command)):
        assert flag(field).removeprefix("--") in text, field["name"]
