"""Claim: where words identify the candidates, encoding only those finds what encoding everything finds, many times as fast.

Pages of 30,000, 120,000 and 700,000 characters are made of the demo's pages and of Python's own documentation
(`pydoc_data`), a text without repeats. Without a cache, each answers questions of the demo's pages: one of them with
``effort="full"``, whose cost is the same for all questions, and each with ``"auto"`` and ``"fast"``, alternating. A
ratio is the seconds of full over the mean seconds of the others in the same round.

Then questions for which words are of little use: paraphrases, misspelled words, and another language. Here more windows
must be encoded, and the answers must stay those of full.

    .venv/bin/python bench/encoding_less.py --rounds 3
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pydoc_data.topics import topics

import pullquote
from bench import record
from bench.goals import Goal
from bench.machine_noise import CoreUse, Meter, quietness
from bench.options import add_no_record
from bench.texts import entries, page_files
from pullquote._request.options import Effort

CLAIM = "encoding_less"
SIZES = {30_000: 4.0, 120_000: 10.0, 700_000: 30.0}
"""Characters of a page, and how many times sooner the answer should be there."""
WAYS: tuple[Effort, ...] = ("fast", "auto")
ALL_WAYS: tuple[Effort, ...] = ("full", *WAYS)
QUESTIONS = 8
PAGES = record.REPOSITORY / "demo" / "pages"
TESTS = record.REPOSITORY / "tests"
CROSS = [
    ("de", "martin_luther.en.txt", "Was hielt Luther davon, dass Ablässe verkauft wurden?"),
    ("de", "apollo_program.en.txt", "Wie hieß der Präsident, der die Landung auf dem Mond zum Ziel machte?"),
    ("fr", "martin_luther.en.txt", "Qui a protégé Luther après la diète de Worms ?"),
    ("fr", "apollo_program.en.txt", "Combien de kilos de roches lunaires ont été rapportés ?"),
    ("en", "rippenquallen.de.txt", "How do comb jellies catch their prey?"),
    ("en", "jeanne_d_arc.ja.txt", "When was Joan of Arc captured, and by whom?"),
]
"""Questions in another language than the page."""


def long_text() -> str:
    """The demo's pages, then Python's topics: the text from which pages are cut."""
    pages = [file.read_text(encoding="utf-8") for file in page_files(PAGES)]
    return "\n\n".join([*pages, *(topics[name] for name in sorted(topics))])


def questions_of(text: str) -> list[str]:
    """Questions of the golden set whose answer is in a text, at equal steps."""
    found = []
    for sample in json.loads((TESTS / "golden" / "questions.json").read_text(encoding="utf-8")):
        page = (PAGES / sample["page"]).read_text(encoding="utf-8")
        for question in sample["questions"]:
            start, end = question["answers"][0]
            around = page[max(0, start - 100) : end + 100]
            if around in text:
                found.append(question["q"])
    return [found[number * len(found) // QUESTIONS] for number in range(min(QUESTIONS, len(found)))]


def timed(highlighter: pullquote.Highlighter, query: str, page: str, effort: Effort) -> tuple[float, int, int]:
    """Seconds, windows that were compared, and all windows."""
    highlighter.clear_cache()
    began = time.perf_counter()
    found = highlighter.highlights(query, [page], effort=effort)
    return time.perf_counter() - began, found.work.windows_scored, found.work.windows


def measure_sizes(highlighter: pullquote.Highlighter, sizes: list[int], rounds: int) -> list[dict[str, Any]]:
    """Alternate the ways on each size."""
    text, rows = long_text(), []
    for size in sizes:
        page = text[:size]
        queries = questions_of(page)
        highlighter.highlights(queries[0], [page[:2000]])
        row: dict[str, Any] = {"characters": size, "questions": len(queries), "full": [], "fast": [], "auto": []}
        for number in range(rounds):
            seconds, _, row["pieces"] = timed(highlighter, queries[number % len(queries)], page, "full")
            row["full"].append(seconds)
            for way in WAYS:
                each = [timed(highlighter, query, page, way) for query in queries]
                row[way].append(sum(seconds for seconds, _, _ in each) / len(each))
                row[f"{way} compared"] = sum(compared for _, compared, _ in each) / len(each)
        rows.append(row)
    return rows


def hard_questions() -> list[tuple[str, str, str, list[tuple[int, int]]]]:
    """Kind, page, question and answers, where these are known."""
    rows = [
        (row["kind"], row["page"], row["q"], [(a["start"], a["start"] + len(a["text"])) for a in row["answers"]])
        for row in entries(TESTS / "data" / "hard_questions.jsonl")
    ]
    return rows + [(f"asked in {language}", page, query, []) for language, page, query in CROSS]


def measure_hard(highlighter: pullquote.Highlighter) -> dict[str, dict[str, float]]:
    """For each kind, the share of windows that are compared, and of questions whose answer is among the first three."""
    kinds: dict[str, dict[str, float]] = {}
    for kind, name, query, answers in hard_questions():
        page = (PAGES / name).read_text(encoding="utf-8")
        row = kinds.setdefault(kind, {"questions": 0, "answers": 0})
        row["questions"] += 1
        row["answers"] += bool(answers)
        first: dict[Effort, tuple[int, int]] = {}
        for way in ALL_WAYS:
            found = highlighter.highlights(query, [page], effort=way)
            share = found.work.windows_scored / found.work.windows
            hit = any(h.start <= start and end <= h.end for h in found[0] for start, end in answers)
            first[way] = (found[0][0].start, found[0][0].end)
            for figure, value in (("compared", share), ("whole", share == 1), ("hits", hit)):
                row[f"{way} {figure}"] = row.get(f"{way} {figure}", 0) + value
            row[f"{way} same"] = row.get(f"{way} same", 0) + (first[way] == first["full"])
    return kinds


def table(
    around: dict[str, object], sizes: list[dict[str, Any]], hard: dict[str, dict[str, float]], use: CoreUse
) -> str:
    """Write the record as Markdown."""
    lines = [
        *record.heading(CLAIM, around),
        quietness([use]),
        "",
        f"Medians (least to most) of {around['rounds']} rounds in {around['dtype']}; windows are means over the questions.",
        "",
        "| characters | windows | full, s | effort | windows compared | s | times sooner |",
        "|---:|---:|---:|---|---:|---:|---:|",
    ]
    goals = []
    for row in sizes:
        for way in WAYS:
            ratios = [full / part for full, part in zip(row["full"], row[way], strict=True)]
            goal = Goal(f"{row['characters']:,} characters, {way}", median(ratios), least=SIZES[row["characters"]])
            goals.append(goal.line())
            lines.append(
                f"| {row['characters']:,} | {row['pieces']:,} | {record.spread(row['full'])} | {way} | "
                f"{row[f'{way} compared']:.0f} | {record.spread(row[way], '.3f')} | {record.spread(ratios, '.1f')} |"
            )
    lines += [
        "",
        *goals,
        "",
        "Where words are of little use:",
        "",
        "| questions | n | effort | windows compared | pages encoded whole | the same first passage | answer in the first three |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    for kind, of_kind in hard.items():
        count = of_kind["questions"]
        for way in ALL_WAYS:
            hits = f"{of_kind[f'{way} hits']:.0f} of {count:.0f}" if of_kind["answers"] else "not known"
            shares = " | ".join(f"{of_kind[f'{way} {figure}'] / count:.0%}" for figure in ("compared", "whole", "same"))
            lines.append(f"| {kind} | {count:.0f} | {way} | {shares} | {hits} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and keep the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", nargs="+", type=int, choices=list(SIZES), default=list(SIZES))
    add_no_record(parser)
    arguments = parser.parse_args()
    with pullquote.Highlighter() as highlighter:
        meter = Meter()
        sizes = measure_sizes(highlighter, arguments.sizes, arguments.rounds)
        use = meter.stop()
        hard = measure_hard(highlighter)
        around = record.circumstances() | {"rounds": arguments.rounds, "dtype": highlighter.dtype}
    text = table(around, sizes, hard, use)
    record.publish(
        CLAIM, around | {"others": use.others, "sizes": sizes, "hard": hard}, text, keeps=not arguments.no_record
    )


if __name__ == "__main__":
    main()
