"""Claim: `effort="instant"` answers whole pages 20 times as fast as the default, and ten pages in 40 ms.

Each page has 24,000 characters of the demo's pages or of Python's documentation (see `encoding_less.py`). The two efforts take
turns, without a cache. First each page that answers a question is searched in a call of its own, with that question; then ten
pages at once, with one question. Processor time is measured too, because other processes disturb it less.

    .venv/bin/python bench/instant.py
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from statistics import median

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pullquote
from bench import record
from bench.encoding_less import long_text, questions_of
from bench.goals import Goal
from bench.machine_noise import Meter, quietness
from bench.options import add_no_record, claim_parser
from pullquote._request.options import Effort

CLAIM = "instant"
CHARACTERS = 24_000
EFFORTS: tuple[Effort, ...] = ("auto", "instant")
LEAST_RATIO = 20
TEN_PAGES = {"auto": 0.4, "instant": 0.04}
"""The most seconds of a call with ten pages."""


def processor() -> float:
    """Seconds of all cores so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def pages_and_questions() -> tuple[list[str], list[str], list[str]]:
    """Pages that answer a question, a question of each, and all pages."""
    text = long_text()
    pieces = [text[start : start + CHARACTERS] for start in range(0, len(text), CHARACTERS)]
    asked = [(piece, questions_of(piece)) for piece in pieces]
    answering = [(piece, questions[0]) for piece, questions in asked if questions]
    return [page for page, _ in answering], [question for _, question in answering], pieces


def main() -> None:
    """Measure, print the table and keep the record."""
    parser = claim_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    add_no_record(parser)
    arguments = parser.parse_args()
    pages, questions, pieces = pages_and_questions()
    clock: dict[str, list[float]] = {effort: [] for effort in EFFORTS}
    busy: dict[str, list[float]] = {effort: [] for effort in EFFORTS}
    ten: dict[str, list[float]] = {effort: [] for effort in EFFORTS}
    with pullquote.Highlighter(cache_bytes=0) as highlighter:
        for effort in EFFORTS:
            highlighter.highlights(questions[0], pages[:1], effort=effort)
        meter = Meter()
        for number in range(arguments.rounds):
            for effort in EFFORTS:
                began, used = time.perf_counter(), processor()
                for question, page in zip(questions, pages, strict=True):
                    highlighter.highlights(question, [page], effort=effort)
                clock[effort].append((time.perf_counter() - began) / len(pages))
                busy[effort].append((processor() - used) / len(pages))
            for effort in EFFORTS:
                began = time.perf_counter()
                highlighter.highlights(questions[number % len(questions)], pieces[:10], effort=effort)
                ten[effort].append(time.perf_counter() - began)
        use = meter.stop()
        around = record.circumstances() | {"rounds": arguments.rounds, "dtype": highlighter.dtype}

    def ratios(seconds: dict[str, list[float]]) -> list[float]:
        return [auto / instant for auto, instant in zip(seconds["auto"], seconds["instant"], strict=True)]

    goals = [
        Goal("pages a second of processor time against the default", median(ratios(busy)), least=LEAST_RATIO),
        *(
            Goal(f"ten pages, {effort}, s", median(ten[effort]), most=TEN_PAGES[effort], form=".3f")
            for effort in EFFORTS
        ),
    ]
    rows = [
        f"| {effort} | {record.spread(clock[effort], '.4f')} | {record.spread(busy[effort], '.4f')} | "
        f"{record.spread(ten[effort], '.3f')} |"
        for effort in EFFORTS
    ]
    lines = [
        *record.heading(CLAIM, around),
        quietness([use]),
        "",
        f"Medians (least to most) of {arguments.rounds} rounds of {len(pages)} pages, in {around['dtype']}.",
        "",
        "| effort | a page, s | a page, s of processor time | ten pages at once, s |",
        "|---|---:|---:|---:|",
        *rows,
        f"| ratio | {record.spread(ratios(clock), '.1f')} | {record.spread(ratios(busy), '.1f')} | "
        f"{record.spread(ratios(ten), '.1f')} |",
        "",
        *(goal.line() for goal in goals),
    ]
    raw = around | {"others": use.others, "clock": clock, "processor": busy, "ten pages": ten}
    record.publish(CLAIM, raw, "\n".join(lines) + "\n", keeps=not arguments.no_record)


if __name__ == "__main__":
    main()
