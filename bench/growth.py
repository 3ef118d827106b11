"""Claim: four times a hostile text takes at most five times the processor time.

Every shape that is expensive for some stage (`tests/data/growth_shapes.json`): nested quotes, unclosed marks, tables of
5,000 columns. The texts of every route of a server, whose process is measured, and pages of every format in Python. Tests
count checks, bytes and answers of the same texts. A model that costs next to nothing shows the cost outside the network,
and nothing is cached. The two sizes alternate, and the ratio is that of the least times, which other processes disturb least.

    .venv/bin/python bench/growth.py
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/python"))

from bench import record, small_model
from bench.goals import Goal
from bench.machine_noise import CoreUse, Meter, quietness
from bench.options import claim_parser
from bench.texts import QUERY
from pullquote import Highlighter
from support.growth_shapes import SHAPES, Part, shape, text_requests, with_text
from support.server_process import running_server

CLAIM = "growth"
FORMATS = ["text", "markdown", "html", "auto"]
# The longest windows at the smallest step that a page of any length may have.
LONG_WINDOWS = {"unit": "word", "highlight_length": 1000, "step_size": 1, "expand": False}


def seconds(highlighter: Highlighter, options: dict[str, Any], text: str) -> float:
    """The processor time of a call."""
    began = time.process_time()
    highlighter.highlights(QUERY, [text], top_k=3, **options)
    return time.process_time() - began


def measured_pages(model: Path, sizes: tuple[int, int], rounds: int) -> dict[str, tuple[float, float]]:
    """Seconds of a call of `highlights()` for each size, by shape and format."""
    cases: list[tuple[str, Part, dict[str, object]]] = [
        (f"{name} as {kind}", part, {"format": kind}) for name, part in SHAPES.items() for kind in FORMATS
    ]
    cases.append(("words in long windows", SHAPES["one long line"], {"format": "text", **LONG_WINDOWS}))
    with Highlighter(model, devices="cpu", cache_bytes=0, threads=1) as highlighter:
        return {
            name: least(partial(seconds, highlighter, options), part, sizes, rounds) for name, part, options in cases
        }


def measured_routes(model: Path, sizes: tuple[int, int], rounds: int) -> dict[str, tuple[float, float]]:
    """Seconds of a server's process for a request with each size, by shape and route."""
    options = "--cache-bytes", "0", "--max-query-bytes", str(8 * 2**20)
    with running_server("--model", str(model), *options) as server:

        def spent(method: str, path: str, body: Callable[[str], object], text: str) -> float:
            began = process_seconds(server.process.pid)
            answer = server.client.request(method, path, json=body(text), timeout=600)
            assert answer.status_code not in {408, 429, 504}, f"{path} with {len(text):,} bytes: {answer.text[:200]}"
            return process_seconds(server.process.pid) - began

        requests = list(text_requests(server.client.get("/openapi.json").json()))
        return {
            f"{name} as {field} of {path}": least(partial(spent, method, path, body), part, sizes, rounds)
            for method, path, example in requests
            for field, body in bodies(example)
            for name, part in SHAPES.items()
        }


def bodies(example: dict[str, Any]) -> Iterator[tuple[str, Callable[[str], object]]]:
    """Each field of a body that holds texts, and the body by the text in it.

    One field grows at a time: a page has to be compared with each word of a query, and with each sentence of an answer.
    """
    for field, value in example.items():
        if isinstance(value, dict):
            for name, body in bodies(value):
                yield name, partial(_with_field, example, field, body)
        elif with_text(value, "") != value:
            yield field, partial(_with_field, example, field, partial(with_text, value))


def _with_field(example: dict[str, Any], field: str, body: Callable[[str], object], text: str) -> object:
    return example | {field: body(text)}


def least(spend: Callable[[str], float], part: Part, sizes: tuple[int, int], rounds: int) -> tuple[float, float]:
    """The least time of each size; the sizes alternate."""
    texts = [shape(part, size) for size in sizes]
    times = [[spend(text) for text in texts] for _ in range(rounds)]
    return min(short for short, _ in times), min(long for _, long in times)


def process_seconds(process: int) -> float:
    """Processor time of a process with its threads, those that have ended too: the clock of clock_getcpuclockid(3)."""
    return time.clock_gettime((~process << 3) | 2)


def main() -> None:
    """Measure, print the table and keep the record."""
    parser = claim_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="small texts, and nothing is kept")
    arguments = parser.parse_args()
    # The record with the file's name comes last: `bench/all.py` takes it as a sign that both are there.
    for claim, measure, usual in [
        ("growth_of_routes", measured_routes, (50_000, 2)),
        (CLAIM, measured_pages, (600_000, 3)),
    ]:
        size, rounds = (20_000, 2) if arguments.quick else usual
        with tempfile.TemporaryDirectory() as directory:
            model = small_model.write_small_model(Path(directory))
            meter = Meter()
            measured = measure(model, (size, 4 * size), rounds)
            publish(claim, measured, size, rounds, meter.stop(), keeps=not arguments.quick)


def publish(
    claim: str, measured: dict[str, tuple[float, float]], size: int, rounds: int, use: CoreUse, *, keeps: bool
) -> None:
    """Print the table of one claim, and keep its record."""
    around = record.circumstances()
    # A millisecond is what a process needs without a text.
    ratios = {name: long / max(short, 1e-3) for name, (short, long) in measured.items()}
    worst = sorted(ratios, key=lambda name: -ratios[name])[:10]
    slowest = sorted(measured, key=lambda name: -measured[name][1])[:10]
    goal = Goal("processor time of four times the text", max(ratios.values()), most=5.0)
    lines = [
        *record.heading(claim, around),
        f"{len(measured)} texts of {size:,} bytes, and of four times as many; the least of {rounds} rounds.",
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
    record.publish(claim, around | raw, "\n".join(lines) + "\n", keeps=keeps)


if __name__ == "__main__":
    main()
