"""Claim: limits of requests (pieces, tokens, time) cost less than a hundredth of the throughput.

An `Engine` answers pages in pairs of rounds: one without limits, one with all three, none of which is reached. They
alternate in going first. The model costs next to nothing, so the time is the engine's own. What counts is processor time,
which other processes disturb less. Rounds are short and many: a virtual machine's speed changes by a tenth from one second
to the next, and both rounds of a short pair have nearly the same speed. Pairs of a second each resolved nothing below 5 %.

    .venv/bin/python bench/limits.py
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median, stdev
from typing import Any

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record, small_model
from bench.goals import Goal
from bench.machine_noise import Meter, quietness
from bench.options import claim_parser
from bench.record import spread
from bench.texts import QUERY, different_pages
from pullquote.engine import Engine

CLAIM = "limits"
LIMITS: dict[str, Any] = {"timeout": 3600.0, "limit_windows": 10**9, "limit_tokens": 10**9}


def ask(engine: Engine, pages: list[str], limits: dict[str, Any]) -> float:
    """Request all pages; returns the seconds of processor time."""
    began = time.process_time()
    for number, page in enumerate(pages):
        engine.add_request(str(number), QUERY, [page], {"effort": "full"}, **limits)
    while engine.has_unfinished_requests():
        for output in engine.step():
            assert output.error is None
    return time.process_time() - began


def main() -> None:
    """Measure, print the table and keep the record."""
    parser = claim_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="a few pairs, and nothing is kept")
    arguments = parser.parse_args()
    pairs = 60 if arguments.quick else 600
    pages = different_pages(4, 20_000)
    free: list[float] = []
    limited: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        model = small_model.write_small_model(Path(directory))
        with Engine(model, devices="cpu", cache_bytes=0) as engine:
            ask(engine, pages, {})
            meter = Meter()
            for pair in range(pairs):
                for limits, times in [({}, free), (LIMITS, limited)][:: 1 - 2 * (pair % 2)]:
                    times.append(ask(engine, pages, limits))
            use = meter.stop()
            around = record.circumstances() | {"dtype": engine.dtype}
    ratios = [without / bounded for without, bounded in zip(free, limited, strict=True)]
    goal = Goal("throughput with limits to that without", median(ratios), least=0.99, form=".4f")
    # The standard error of a median of independent, about normal pairs.
    error = 1.25 * stdev(ratios) / math.sqrt(len(ratios))
    lines = [
        *record.heading(CLAIM, around),
        f"{len(pages)} pages of 20,000 characters a round, {pairs} pairs of rounds; medians (least to most).",
        "",
        f"- without limits {spread(free, '.3f')} s, with them {spread(limited, '.3f')} s",
        f"- within a pair the throughput with limits is {spread(ratios, '.3f')} of that without; standard error {error:.4f}",
        "",
        goal.line(),
        f"- {quietness([use])}",
    ]
    raw = {"free": free, "limited": limited, "goals": [asdict(goal)]}
    record.publish(CLAIM, around | raw, "\n".join(lines) + "\n", keeps=not arguments.quick)


if __name__ == "__main__":
    main()
