"""Claim: a second query on the same page costs its own encoding and the scoring, and nothing of the page.

A page of 100 kB is asked two questions, the second when the first is answered; then what was kept is let go. A ratio is
the seconds of the first question over those of the second in the same round.

    .venv/bin/python bench/second_query.py --rounds 5
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median

# The modules beside this file are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pullquote
from bench import record

CLAIM = "second_query"
QUERIES = ["Who led the work, and what did it cost?", "What was the reason for it?"]
CHARACTERS = 100_000


def main() -> None:
    """Measure and keep the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    pages = record.REPOSITORY / "demo" / "pages"
    texts = [(pages / name).read_text(encoding="utf-8") for name in ("apollo_program.en.txt", "martin_luther.en.txt")]
    page = "\n\n".join(texts)[:CHARACTERS]
    with pullquote.Highlighter() as highlighter:
        highlighter.highlights(QUERIES[0], [page[:2000]])
        first: list[float] = []
        second: list[float] = []
        for _ in range(arguments.rounds):
            highlighter.clear_cache()
            for query, seconds in zip(QUERIES, (first, second), strict=True):
                began = time.perf_counter()
                found = highlighter.highlights(query, [page])
                seconds.append(time.perf_counter() - began)
            assert found.work.encoded == 0, "the page was encoded again"
    ratios = [one / two for one, two in zip(first, second, strict=True)]
    around = record.circumstances() | {"rounds": arguments.rounds, "dtype": highlighter.dtype}
    lines = [
        f"# {CLAIM}",
        "",
        f"{around['date']}, commit {around['commit']}, {around['cpu']}, {around['cores']} cores, {around['dtype']}",
        "",
        f"A page of {CHARACTERS:,} characters, {found.work.pieces:,} windows; {arguments.rounds} rounds; medians (least to most)",
        "",
        "| query | milliseconds |",
        "|---|---:|",
        f"| first | {_spread([1000 * each for each in first])} |",
        f"| second | {_spread([1000 * each for each in second])} |",
        f"| ratio | {_spread(ratios)} |",
    ]
    table = "\n".join(lines) + "\n"
    directory = record.keep(CLAIM, around | {"first": first, "second": second, "ratios": ratios}, table)
    print(table)
    print(f"kept in {directory}")


def _spread(values: list[float]) -> str:
    return f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


if __name__ == "__main__":
    main()
