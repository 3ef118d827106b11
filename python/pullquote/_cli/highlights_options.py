"""The options of `highlights()` on a command line.

Help, choices and defaults come from the core's JSON Schema (`rust/core/src/engine/options.rs`).
"""

from __future__ import annotations

import argparse
import json
from typing import Any, Literal, cast

from pullquote import _native
from pullquote._request.options import Options

__all__ = ["CALL_OPTIONS", "PAGE_OPTIONS", "add_call_options", "options_from_args"]

# Options for each page on its own, and those for all pages and queries of a call.
PAGE_OPTIONS = (
    "top_k",
    "max_chars",
    "max_tokens",
    "min_score",
    "order",
    "dedupe",
    "context",
    "explain",
    "lexical_weight",
    "effort",
    "format",
    "unit",
    "highlight_length",
    "step_size",
)
CALL_OPTIONS = (
    *PAGE_OPTIONS,
    "allow_gaps",
    "expand",
    "fuse",
    "max_total_chars",
    "max_total_tokens",
    "max_total_highlights",
)
GROUPS = {
    "which passages": (
        "top_k",
        "max_total_highlights",
        "max_chars",
        "max_tokens",
        "max_total_chars",
        "max_total_tokens",
        "min_score",
        "dedupe",
        "order",
        "context",
        "explain",
    ),
    "how pages are read": ("format", "unit", "highlight_length", "step_size", "allow_gaps", "expand"),
    "how passages are scored": ("fuse", "lexical_weight", "effort"),
}
SHORT = {"top_k": "-k", "context": "-C"}


def add_call_options(command: argparse.ArgumentParser, names: tuple[str, ...]) -> None:
    """Add options to a command, in groups."""
    schema = json.loads(_native.options_schema())["properties"]
    for title, members in GROUPS.items():
        group = command.add_argument_group(title)
        _add(group, {name: schema[name] for name in members if name in names})


def _add(group: Any, options: dict[str, dict[str, Any]]) -> None:
    for name, option in options.items():
        default = option["default"]
        flags = [flag for flag in (SHORT.get(name), f"--{name.replace('_', '-')}") if flag]
        keywords: dict[str, Any] = {
            "default": default,
            "help": option["description"].replace("%", "%%").replace("`", '"'),
        }
        if default is False:
            keywords["action"] = "store_true"
        elif default is True:
            keywords["action"] = argparse.BooleanOptionalAction
        elif "enum" in option:
            keywords["choices"] = option["enum"]
        else:
            keywords["type"] = _parser(option)
        if default is not None and not isinstance(default, bool):
            keywords["help"] += " (default: %(default)s)"
        group.add_argument(*flags, **keywords)


def _parser(option: dict[str, Any]) -> Any:
    if "anyOf" in option:
        return weight
    return int if "integer" in option["type"] else float


def weight(text: str) -> float | Literal["auto"]:
    """A number, or ``auto``."""
    return "auto" if text == "auto" else float(text)


def options_from_args(arguments: argparse.Namespace, names: tuple[str, ...]) -> Options:
    """The options of a call, from parsed arguments."""
    return cast(Options, {name: getattr(arguments, name) for name in names})
