"""Claim: the text work of a page of 24,000 characters takes less than 5 ms of one core, whatever the encoder's instruction set.

Cutting, tokenizing, words and ranking run on the caller's thread, so that thread's processor time is all text work. The stages
are seconds of the clock, which other processes disturb. Pages are those of `instant.py`, each with a question that it answers,
without a cache. `PULLQUOTE_CPU=avx2` takes the instruction set of older processors.

    PULLQUOTE_CPU=avx2 .venv/bin/python bench/stages.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pullquote
from bench import record
from bench.goals import Goal
from bench.instant import EFFORTS, pages_and_questions
from bench.machine_noise import Meter, quietness
from bench.options import add_no_record, claim_parser

CLAIM = "stages"
STAGES = ("cutting", "tokenizing", "ranking", "waiting")
MOST_TEXT = 5.0
"""The most milliseconds of the text work of a page."""


def main() -> None:
    """Measure, print the table and keep the record."""
    parser = claim_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    add_no_record(parser)
    arguments = parser.parse_args()
    pages, questions, _ = pages_and_questions()
    # milliseconds[effort][stage] has the mean over the pages of each round.
    milliseconds: dict[str, dict[str, list[float]]] = {
        effort: {stage: [] for stage in (*STAGES, "processor")} for effort in EFFORTS
    }
    with pullquote.Highlighter(cache_bytes=0, threads=1) as highlighter:
        for effort in EFFORTS:
            highlighter.highlights(questions[0], pages[:1], effort=effort)
        meter = Meter()
        for _ in range(arguments.rounds):
            for effort in EFFORTS:
                began = time.thread_time()
                works = [
                    highlighter.highlights(question, [page], effort=effort).work
                    for question, page in zip(questions, pages, strict=True)
                ]
                seconds = {stage: sum(getattr(work, stage) for work in works) for stage in STAGES}
                seconds["processor"] = time.thread_time() - began
                for stage, total in seconds.items():
                    milliseconds[effort][stage].append(1000 * total / len(pages))
        use = meter.stop()
        around = record.circumstances() | {"rounds": arguments.rounds, "dtype": highlighter.dtype}
    rows = [
        f"| {effort} | " + " | ".join(record.spread(stages[stage], ".2f") for stage in (*STAGES, "processor")) + " |"
        for effort, stages in milliseconds.items()
    ]
    goal = Goal("text work of a page, ms", median(milliseconds["auto"]["processor"]), most=MOST_TEXT)
    lines = [
        *record.heading(CLAIM, around),
        quietness([use]),
        "",
        f"Milliseconds of a page, medians (least to most) of {arguments.rounds} rounds of {len(pages)} pages, one thread.",
        "",
        "| effort | cutting | tokenizing | words and ranking | waiting for vectors | processor time of the caller's thread |",
        "|---|---:|---:|---:|---:|---:|",
        *rows,
        "",
        goal.line(),
    ]
    raw = around | {"others": use.others, "milliseconds": milliseconds}
    record.publish(CLAIM, raw, "\n".join(lines) + "\n", keeps=not arguments.no_record)


if __name__ == "__main__":
    main()
