"""Claim: if many pages share a limit, pullquote searches only the best by static vectors, and finds what a search of all finds.

The pages are cut into pieces of about 4,000 characters, and each question is put to a pool of pieces that includes its answer's.
One side has ``max_total_highlights=3``. The other has ``top_k=3`` and takes the best three of all, so that every piece is
searched. Hits: whether the first passage, or one of the three, holds an answer. The cache keeps vectors there, so that each
piece is encoded once.

Then both sides answer some questions from all pieces, without a cache, alternating. The ratio is of processor time, which other
processes disturb less than the clock.

    .venv/bin/python bench/many_pages.py --pages /work/shared/eval/pages/*.jsonl.gz
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pullquote
from bench import record
from bench.goals import Goal
from bench.machine_noise import Meter, quietness
from bench.options import add_no_record, add_pages, claim_parser
from bench.texts import entries

CLAIM = "many_pages"
CHARACTERS = 4_000
BEST = 3
SIDES = ("all", "shortlist")
LARGEST_LOSS = 0.01
LEAST_RATIO = 10
CACHE_BYTES = 8 << 30


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and its answers: a piece's index, and the start and end of an answer in it."""

    text: str
    answers: list[tuple[int, int, int]]


@dataclass(slots=True)
class Side:
    """What one side found and used."""

    first: list[bool] = field(default_factory=list)
    three: list[bool] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)


def cuts(text: str) -> Iterator[tuple[int, int]]:
    """Yield the pieces of a text, which end at a line's or a sentence's end if possible."""
    start = 0
    while start < len(text):
        end = start + CHARACTERS
        ends = [
            text.rfind(mark, start + CHARACTERS // 2, end) + len(mark)
            for mark in ("\n", ". ")
            if mark in text[start:end]
        ]
        if end < len(text) and max(ends, default=0) > start + CHARACTERS // 2:
            end = max(ends)
        yield start, min(end, len(text))
        start = end


def read(paths: list[Path], questions_each: int) -> tuple[list[str], list[Question]]:
    """Cut the pages of all sets, and draw questions whose whole answer is in one piece from each."""
    pieces: list[str] = []
    drawn: list[Question] = []
    randomness = random.Random(5)  # noqa: S311 - the same questions each time
    for path in paths:
        questions = []
        for page in entries(path):
            text, first = page["text"], len(pieces)
            spans = list(cuts(text))
            pieces += [text[start:end] for start, end in spans]
            for question in page["questions"]:
                answers = [(answer["start"], answer["start"] + len(answer["text"])) for answer in question["answers"]]
                found = [
                    (first + number, a - start, b - start)
                    for a, b in answers
                    for number, (start, end) in enumerate(spans)
                    if start <= a and b <= end
                ]
                if found:
                    questions.append(Question(question["q"], found))
        drawn += randomness.sample(questions, min(questions_each, len(questions)))
    return pieces, drawn


def processor() -> float:
    """Seconds of all cores so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def ask(highlighter: pullquote.Highlighter, side: str, query: str, pages: list[str]) -> tuple[list[Any], int]:
    """Return a side's three best highlights, and the tokens that it encoded."""
    if side == "all":
        found = highlighter.highlights(query, pages, top_k=BEST, dedupe="answer")
    else:
        found = highlighter.highlights(query, pages, max_total_highlights=BEST)
    return found.best(BEST), found.work.tokens


def hits(pieces: list[str], questions: list[Question], sizes: list[int]) -> dict[int, dict[str, Side]]:
    """Ask each question of a pool of each size."""
    found = {size: {side: Side() for side in SIDES} for size in sizes}
    with pullquote.Highlighter(devices="cpu", cache_bytes=CACHE_BYTES) as highlighter:
        for number, question in enumerate(questions):
            for size in sizes:
                randomness = random.Random(number)  # noqa: S311 - the same pool each time
                drawn = randomness.sample(range(len(pieces)), min(size, len(pieces)))
                pool = sorted({*drawn, *(piece for piece, _, _ in question.answers)})
                for side in SIDES:
                    best, _ = ask(highlighter, side, question.text, [pieces[piece] for piece in pool])
                    is_hit = [
                        any(
                            pool[highlight.page] == piece and highlight.start <= start and end <= highlight.end
                            for piece, start, end in question.answers
                        )
                        for highlight in best
                    ]
                    found[size][side].first.append(any(is_hit[:1]))
                    found[size][side].three.append(any(is_hit))
    return found


def times(pieces: list[str], questions: list[Question]) -> dict[str, Side]:
    """Ask questions of all pieces without a cache."""
    found = {side: Side() for side in SIDES}
    with pullquote.Highlighter(devices="cpu", cache_bytes=0) as highlighter:
        ask(highlighter, "shortlist", questions[0].text, pieces[:60])
        for question in questions:
            for side, measured in found.items():
                began, used = time.perf_counter(), processor()
                _, tokens = ask(highlighter, side, question.text, pieces)
                measured.clock.append(time.perf_counter() - began)
                measured.processor.append(processor() - used)
                measured.tokens.append(tokens)
    return found


def main() -> None:
    """Measure, print the tables and keep the record."""
    parser = claim_parser(__doc__)
    add_pages(parser, [], "sets of pages with questions, as .jsonl.gz files")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 1000], help="pieces of a pool")
    parser.add_argument("--questions", type=int, default=15, help="questions of each set")
    parser.add_argument("--timed", type=int, default=2, help="questions that are timed")
    add_no_record(parser)
    arguments: argparse.Namespace = parser.parse_args()
    pieces, questions = read(arguments.pages, arguments.questions)
    meter = Meter()
    found = hits(pieces, questions, arguments.sizes)
    timed = times(pieces, random.Random(2).sample(questions, arguments.timed))  # noqa: S311 - the same each time
    use = meter.stop()
    around = record.circumstances() | {"pieces": len(pieces), "questions": len(questions)}
    ratios = [a / b for a, b in zip(timed["all"].processor, timed["shortlist"].processor, strict=True)]
    losses = [
        mean(getattr(sides["all"], hit)) - mean(getattr(sides["shortlist"], hit))
        for sides in found.values()
        for hit in ("first", "three")
    ]
    goals = [
        Goal("largest loss of hits against all pages", max(losses), most=LARGEST_LOSS, form=".3f"),
        Goal("processor time of all pages against the shortlist", median(ratios), least=LEAST_RATIO, form=".1f"),
    ]
    lines = [
        *record.heading(CLAIM, around),
        f"{len(questions)} questions of {len(arguments.pages)} sets; {len(pieces)} pieces of about {CHARACTERS:,} characters.",
        "",
        "| pool | side | first passage | one of three |",
        "|---:|---|---:|---:|",
        *(
            f"| {size} | {side} | {mean(each.first):.3f} | {mean(each.three):.3f} |"
            for size, sides in found.items()
            for side, each in sides.items()
        ),
        "",
        f"All {len(pieces)} pieces without a cache, {arguments.timed} questions; medians (least to most).",
        "",
        "| side | processor, s | clock, s | tokens encoded |",
        "|---|---|---|---:|",
        *(
            f"| {side} | {record.spread(each.processor, '.2f')} | {record.spread(each.clock, '.2f')} | {median(each.tokens):,.0f} |"
            for side, each in timed.items()
        ),
        "",
        *(goal.line() for goal in goals),
        f"- {quietness([use])}",
    ]
    raw = around | {
        "hits": {size: {side: vars_of(each) for side, each in sides.items()} for size, sides in found.items()},
        "times": {side: vars_of(each) for side, each in timed.items()},
    }
    record.publish(CLAIM, raw, "\n".join(lines) + "\n", keeps=not arguments.no_record)


def vars_of(side: Side) -> dict[str, Any]:
    """Return the numbers of a side for the record."""
    return {
        "first": sum(side.first),
        "three": sum(side.three),
        "processor": side.processor,
        "clock": side.clock,
        "tokens": side.tokens,
    }


if __name__ == "__main__":
    main()
