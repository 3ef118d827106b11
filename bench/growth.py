"""Claim: four times a hostile text takes at most five times the processor time.

Every shape that is expensive for some stage, in every format: nested quotes, unclosed marks, tables of 5,000 columns. The
shapes are those of `rust/core/tests/common/shapes.rs`, whose tests count checks and bytes of the same texts. A model that
costs next to nothing shows the cost outside the network, and nothing is cached (`cache_bytes=0`). The two sizes alternate,
and the ratio is that of the least times, which other processes disturb least.

    .venv/bin/python bench/growth.py
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record, small_model
from bench.goals import Goal
from bench.machine_noise import Meter, quietness
from bench.options import claim_parser
from bench.texts import QUERY
from pullquote import Highlighter

CLAIM = "growth"
FORMATS = ["text", "markdown", "html", "auto"]
REPEATED = {
    "one long line": "the cat is in the moon ",
    "one letter": "x",
    "spaces": " ",
    "short sentences": "A. ",
    "short lines": "a\n",
    "abbreviations": "Mr. X e.g. Dr. ",
    "combining marks": "e\u0301\u0323",
    "zero width": "a\u200b\u200d",
    "han": "我来到北京清华大学",
    "thai": "ภาษาไทยง่าย",
    "headings": "# a\n",
    "headings of html": "<h1>a</h1>",
    "fences": "```\na\n",
    "backticks": "`",
    "emphasis": "*a **b ",
    "brackets": "[",
    "links": "[a](b) ",
    "images": "![",
    "entities": "&amp;&#x41;&nosuch;",
    "autolinks": "<http://a.b>",
    "open angles": "<",
    "quotes": "> a\n",
    "nested quotes": "> ",
    "items": "- a\n",
    "nested items": "- ",
    "rows": "| a | b |\n",
    "csv": "a,b,c,d\n",
    "unclosed comment": "<!-- a ",
    "unclosed attributes": "<a href='b ",
    "nested elements": "<div>",
    "misnested elements": "<b><i><p>a</b></i>",
    "unclosed items": "<ul><li>a",
    "nested tables": "<table><tr><td>a",
    "row spans": "<tr><td rowspan=9999 colspan=9999>a</td></tr>",
}


def table(size: int) -> str:
    """A table of up to 5,000 columns whose rows have one cell."""
    columns = min(5000, size // 40)
    return "|a" * columns + "|\n" + "|-" * columns + "|\n" + "|b\n" * (size // 4)


MADE: dict[str, Callable[[int], str]] = {
    "nested quotes and lazy lines": lambda size: "> " * (size // 4) + "a\n" + "b\n" * (size // 4),
    "nested items and lazy lines": lambda size: "- " * (size // 4) + "a\n" + "b\n" * (size // 4),
    "nested footnotes and lazy lines": lambda size: "[^a]: > " * (size // 16) + "a\n" + "b\n" * (size // 4),
    "brackets that close": lambda size: "[" * (size // 4) + "](b)" * (size // 6),
    "definitions": lambda size: "".join(f"[{n}]: a\n" for n in range(size // 20)) + "[1] [2] " * (size // 16),
    "one cluster": lambda size: "a" + "\u0301" * (size // 2),
    "table of many columns": table,
}
# The longest windows at the smallest step that a page of any length may have.
LONG_WINDOWS = {"unit": "word", "highlight_length": 1000, "step_size": 1, "expand": False}


def seconds(highlighter: Highlighter, text: str, options: dict[str, Any]) -> float:
    """The processor time of a call."""
    began = time.process_time()
    highlighter.highlights(QUERY, [text], top_k=3, **options)
    return time.process_time() - began


def main() -> None:
    """Measure, print the table and keep the record."""
    parser = claim_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="small texts, and nothing is kept")
    arguments = parser.parse_args()
    size, rounds = (50_000, 2) if arguments.quick else (400_000, 3)
    shapes = {
        name: lambda size, part=part: part * (size // len(part.encode())) for name, part in REPEATED.items()
    } | MADE
    cases: list[tuple[str, Callable[[int], str], dict[str, object]]] = [
        (f"{name} as {kind}", make, {"format": kind}) for name, make in shapes.items() for kind in FORMATS
    ]
    cases.append(("words in long windows", shapes["one long line"], {"format": "text", **LONG_WINDOWS}))
    measured: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as directory:
        model = small_model.write_small_model(Path(directory))
        with Highlighter(model, devices="cpu", cache_bytes=0, threads=1) as highlighter:
            meter = Meter()
            for name, make, options in cases:
                texts = [make(size), make(4 * size)]
                times = [[seconds(highlighter, text, options) for text in texts] for _ in range(rounds)]
                measured[name] = (min(short for short, _ in times), min(long for _, long in times))
            use = meter.stop()
            around = record.circumstances() | {"dtype": highlighter.dtype}
    ratios = {name: long / short for name, (short, long) in measured.items()}
    worst = sorted(ratios, key=lambda name: -ratios[name])[:10]
    slowest = sorted(measured, key=lambda name: -measured[name][1])[:10]
    goal = Goal("processor time of four times the text", max(ratios.values()), most=5.0)
    lines = [
        *record.heading(CLAIM, around),
        f"{len(cases)} texts of {size:,} bytes, and of four times as many; the least of {rounds} rounds.",
        "",
        "| grows most | ratio | s | takes longest | s |",
        "|---|---:|---:|---|---:|",
        *(
            f"| {grows} | {ratios[grows]:.2f} | {measured[grows][1]:.2f} | {slow} | {measured[slow][1]:.2f} |"
            for grows, slow in zip(worst, slowest, strict=True)
        ),
        "",
        goal.line(),
        f"- {quietness([use])}",
    ]
    raw = {"seconds": measured, "goals": [asdict(goal)]}
    record.publish(CLAIM, around | raw, "\n".join(lines) + "\n", keeps=not arguments.quick)


if __name__ == "__main__":
    main()
