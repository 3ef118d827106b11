"""The flags of a call's options, and of an engine's, a server's and a client's settings, as `rust/wire` describes them."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from typing import Any, Literal, cast

from pullquote._request.options import Options
from pullquote._request.signatures import Kind, described
from pullquote.errors import InvalidArgumentError

__all__ = ["add_settings", "call_options", "flag", "of_command", "settings"]


def of_command(kind: Kind, command: str) -> list[dict[str, Any]]:
    """The settings for which a command has a flag."""
    return [field for field in described(kind) if command in field["commands"].split()]


def flag(field: dict[str, Any]) -> str:
    """``--top-k`` for `top_k`."""
    return str(field.get("x-flag", f"--{field['name'].replace('_', '-')}"))


def add_settings(parser: argparse.ArgumentParser, command: str) -> None:
    """Add the flags of a command, in groups."""
    groups: dict[str, Any] = {}
    kinds: tuple[Kind, ...] = ("call", "server", "engine", "client")
    for kind in kinds:
        for field in of_command(kind, command):
            title = field["group"]
            if title not in groups:
                groups[title] = parser.add_argument_group(title)
            flags = [field["x-short"], flag(field)] if "x-short" in field else [flag(field)]
            groups[title].add_argument(*flags, dest=field["name"], **_keywords(field, kind))


def _keywords(field: dict[str, Any], kind: Kind) -> dict[str, Any]:
    default, types = field["default"], field.get("type", "")
    is_list = types == "array"
    # Without --server, a setting of a client must not be given.
    keywords: dict[str, Any] = {"default": None if is_list or kind == "client" else default}
    if "x-const" in field:
        keywords |= {"action": "store_const", "const": field["x-const"]}
    elif isinstance(default, bool):
        keywords["action"] = argparse.BooleanOptionalAction if default else "store_true"
    else:
        keywords["metavar"] = field.get("x-metavar")
        if is_list:
            keywords["action"] = "append"
        elif "enum" in field and "x-metavar" not in field:
            keywords["choices"] = field["enum"]
        else:
            keywords["type"] = _reader(field, types)
    return keywords | {"help": field.get("x-help") or _help(field, kind)}


def _reader(field: dict[str, Any], types: str | list[str]) -> Callable[[str], object]:
    """What reads the value of a flag."""
    if "anyOf" in field:
        return weight
    if "integer" in types:
        return size if field.get("format") == "bytes" else int
    return float if "number" in types else str


def _help(field: dict[str, Any], kind: Kind) -> str:
    default, words = field["default"], field["description"].partition("\n\n")[0]
    # Values of a choice are in quotes; addresses and other examples speak for themselves.
    words = re.sub('`"?([^`"]*)"?`', lambda found: f'"{found[1]}"' if found[1].isidentifier() else found[1], words)
    words = words.replace("%", "%%")
    if "x-env" in field:
        words += f" Also the environment variable {field['x-env']}."
    if "x-default" in field:
        words += f" (default: {field['x-default']})"
    elif default not in (None, "", []) and not isinstance(default, bool):
        words += f" (default: {default:g})" if kind == "client" else " (default: %(default)s)"
    return words


# The bytes of each unit; in a command line, people write MB and MiB, M and m.
UNITS: dict[str, int] = {"": 1, "b": 1} | {
    f"{letter}{ending}": int(base) ** power
    for power, letter in enumerate("kmgt", 1)
    for ending, base in (("", 1024), ("ib", 1024), ("b", 1000))
}


def size(text: str) -> int:
    """A number of bytes: ``8388608``, ``8MiB`` (1,048,576 bytes each), ``8MB`` (1,000,000) or ``8M`` (as MiB)."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if found is None or found[2] not in UNITS:
        raise ValueError(text)
    unit = UNITS[found[2]]
    return round(float(found[1]) * unit) if "." in found[1] else int(found[1]) * unit


def weight(text: str) -> float | Literal["auto"]:
    """A number, or ``auto``."""
    return "auto" if text == "auto" else float(text)


def call_options(options: argparse.Namespace, command: str) -> Options:
    """The options of a call, from parsed arguments."""
    return cast(Options, {field["name"]: getattr(options, field["name"]) for field in of_command("call", command)})


def settings(kind: Kind, options: argparse.Namespace) -> dict[str, Any]:
    """The settings that the flags of a command, or the environment, give."""
    given: dict[str, Any] = {}
    for field in of_command(kind, options.command):
        value, variable = getattr(options, field["name"]), os.environ.get(field.get("x-env", ""))
        if variable is not None and not variable.strip():
            message = f"the environment variable {field['x-env']} is empty; set it to a key, or unset it"
            raise InvalidArgumentError(message)
        if variable:
            value = [*(value or []), variable] if field["type"] == "array" else value or variable
        if value is not None:
            given[field["name"]] = value
    return given
