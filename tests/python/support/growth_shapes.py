"""Texts that are expensive for some stage, of any size, and requests of every route that takes text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Part = str | list[Any] | dict[str, Any]

SHAPES: dict[str, Part] = json.loads((Path(__file__).parents[2] / "data/growth_shapes.json").read_text())


def shape(part: Part, size: int) -> str:
    """The text of a part, of about `size` bytes. `rust/core/tests/common/shapes.rs` documents the fields."""
    if isinstance(part, str):
        return part
    if isinstance(part, list):
        return "".join(shape(each, size) for each in part)
    size = int(size * part.get("share", 1))
    if "number" in part:
        return "".join(part["number"].replace("{}", str(number)) for number in range(size // part["every"]))
    if "grow" in part:
        steps: list[str] = []
        total = 0
        while total < size:
            steps.append(part["grow"] * (len(steps) + 1) + part["then"])
            total += len(steps[-1].encode())
        return "".join(steps)
    once = shape(part["repeat"], size)
    most: int = part.get("most", size)
    return once * min(max(size // len(once.encode()), 1), most)


def text_requests(openapi: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path and example of each operation whose JSON has a text: words with a space between."""
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            example = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
            if example is not None and with_text(example, "") != example:
                yield method, path.replace("{id}", "page"), example


def with_text(example: Any, text: str) -> Any:
    """The example with this text in the place of each of its texts."""
    if isinstance(example, dict):
        return {name: with_text(value, text) for name, value in example.items()}
    if isinstance(example, list):
        return [with_text(value, text) for value in example]
    return text if isinstance(example, str) and " " in example else example
