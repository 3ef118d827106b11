"""Claim: a second query on the same page costs only its own encoding and the scoring.

A page of 100 kB gets two queries, the second after the answer to the first; then the cache is emptied. All windows
of the page are encoded for the first. A ratio is the seconds of the first question over those of the second in the same
round. The encoding of the second query alone is measured for comparison.

    .venv/bin/python bench/second_query.py --rounds 5
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from pathlib import Path

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pullquote
from bench import record
from bench.goals import Goal
from bench.machine_noise import CoreUse, Meter, quietness
from bench.record import spread
from bench.texts import QUERY

CLAIM = "second_query"
QUERIES = [QUERY, "What was the reason for it?"]
CHARACTERS = 100_000


def main() -> None:
    """Measure and keep the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a page of a tenth, and nothing is kept")
    arguments = parser.parse_args()
    characters = CHARACTERS // 10 if arguments.quick else CHARACTERS
    pages = record.REPOSITORY / "demo" / "pages"
    texts = [(pages / name).read_text(encoding="utf-8") for name in ("apollo_program.en.txt", "martin_luther.en.txt")]
    page = "\n\n".join(texts)[:characters]
    first: list[float] = []
    second: list[float] = []
    query_alone: list[float] = []
    core_use: list[CoreUse] = []
    with pullquote.Highlighter() as highlighter:
        highlighter.highlights(QUERIES[0], [page[:2000]], effort="full")
        for number in range(arguments.rounds):
            highlighter.clear_cache()
            meter = Meter()
            for query, seconds in zip(QUERIES, (first, second), strict=True):
                began = time.perf_counter()
                found = highlighter.highlights(query, [page], effort="full")
                seconds.append(time.perf_counter() - began)
            assert found.work.encoded == 0, "the page was encoded again"
            began = time.perf_counter()
            highlighter.embed([QUERIES[1]], role="query")
            query_alone.append(time.perf_counter() - began)
            core_use.append(meter.stop())
            print(f"round {number + 1}: {first[-1]:.2f} s, {second[-1]:.4f} s{core_use[-1].remark()}", file=sys.stderr)
    ratios = [one / two for one, two in zip(first, second, strict=True)]
    goal = Goal("the first query's time over the second's, in the worst round", min(ratios), least=50, form=".0f")
    around = record.circumstances() | {"rounds": arguments.rounds, "dtype": highlighter.dtype}
    raw = around | {"first": first, "second": second, "query_alone": query_alone, "ratios": ratios}
    raw |= {"core_use": [asdict(use) for use in core_use], "goals": [asdict(goal)]}
    lines = [
        *record.heading(CLAIM, around),
        f"A page of {characters:,} characters, {found.work.windows:,} windows; {arguments.rounds} rounds; medians (least to most)",
        "",
        "| query | milliseconds |",
        "|---|---:|",
        f"| first | {spread([1000 * each for each in first], '.1f')} |",
        f"| second | {spread([1000 * each for each in second], '.1f')} |",
        f"| encoding the second alone | {spread([1000 * each for each in query_alone], '.1f')} |",
        f"| ratio of first to second | {spread(ratios, '.1f')} |",
        "",
        goal.line(),
        f"- {quietness(core_use)}",
    ]
    table = "\n".join(lines) + "\n"
    record.publish(CLAIM, raw, table, keeps=not arguments.quick)


if __name__ == "__main__":
    main()
