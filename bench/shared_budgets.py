"""Claim: a budget that pages share finds no fewer answers where only pages that answer get it.

Asks questions of their page and nine others of its set in one call, with ``max_total_chars``. One side has the default, the
other ``min_score=0``, with which all pages compete. Prints for each set and budget, as means over its questions:

- ``hit``: the answer (every span of it, if the set needs all) lies in the passages
- ``characters``: those of all passages, and those of passages of the question's page

    .venv/bin/python bench/shared_budgets.py DIR_OR_FILE...
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pullquote
from bench.quality import Page, holds, load

BUDGETS = (500, 1000)
SIDES: dict[str, float | None] = {"min_score=0": 0.0, "default": None}
PAGES = 12
OTHERS = 9
# Pages of XQuAD are short.
JOINED = 2
FEWEST_PAGES = 4
CACHE_BYTES = 2 << 30


def ask(highlighter: pullquote.Highlighter, pages: list[Page], count: int) -> dict[str, list[list[float]]]:
    """For each side and budget, the figures of each question."""
    rng = random.Random(0)  # noqa: S311 - the choice of questions is no secret
    rows: dict[str, list[list[float]]] = {}
    for page in pages:
        for question in rng.sample(page.questions, min(count, len(page.questions))):
            neighbours = [other for other in pages if other is not page]
            texts = [page.text, *(other.text for other in rng.sample(neighbours, min(OTHERS, len(neighbours))))]
            for budget in BUDGETS:
                for side, least in SIDES.items():
                    found = highlighter.highlights(question.text, texts, max_total_chars=budget, min_score=least)
                    own = [(highlight.start, highlight.end) for highlight in found.at(0)]
                    hit = holds(own, question.answers, len(page.text), needs_all=question.needs_all)
                    lengths = found.spans[:, 1] - found.spans[:, 0]
                    figures = [float(hit), float(lengths.sum()), float(sum(end - start for start, end in own))]
                    rows.setdefault(f"{budget}, {side}", []).append(figures)
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path, help="files, or folders of them")
    parser.add_argument("--questions", type=int, default=4, help="questions a page (default %(default)s)")
    arguments = parser.parse_args()
    files = [file for path in arguments.sets for file in (sorted(path.glob("*.jsonl.gz")) if path.is_dir() else [path])]
    means: dict[str, list[list[float]]] = {}
    print("| set | n | budget | hit | characters | of the question's page |\n|---|---|---|---|---|---|")
    with pullquote.Highlighter(cache_bytes=CACHE_BYTES) as highlighter:
        for file in files:
            pages = load(file, PAGES, JOINED if file.name.startswith("xquad") else 1)
            if len(pages) < FEWEST_PAGES:
                continue
            for name, rows in ask(highlighter, pages, arguments.questions).items():
                figures = np.mean(rows, axis=0).tolist()
                means.setdefault(name, []).append(figures)
                print(line(file.name.removesuffix(".jsonl.gz"), len(rows), name, figures), flush=True)
    for name, of_sets in means.items():
        print(line("**mean**", len(of_sets), name, np.mean(of_sets, axis=0).tolist()))


def line(name: str, count: int, side: str, figures: list[float]) -> str:
    """A row of the table."""
    hit, characters, own = figures
    return f"| {name} | {count} | {side} | {hit:.3f} | {characters:.0f} | {own:.0f} |"


if __name__ == "__main__":
    main()
