"""Claim: ranking by words in addition to meaning, and growing whole passages, costs next to nothing.

Three kinds of calls on the same pages encode exactly the same windows, and alternate: the plain one (the best windows by
cosine), the same with words, and the default, which ranks sentences and chooses passages. A ratio is the seconds of one
kind over those of the plain one in the same round.

    .venv/bin/python bench/ranking_cost.py --rounds 5
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pullquote
from bench import record
from bench.machine_noise import CoreUse, Meter, quietness
from bench.options import add_no_record
from bench.record import spread
from bench.texts import QUERY
from bench.workload import load_workload

CLAIM = "ranking_cost"
WAYS: dict[str, dict[str, Any]] = {
    "windows by cosine": {"expand": False, "lexical_weight": 0.0, "dedupe": "none", "effort": "full"},
    "windows by cosine and words": {"expand": False, "dedupe": "none", "effort": "full"},
    "sentences ranked, passages grown": {"effort": "full"},
}


def main() -> None:
    """Measure and keep the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", nargs="+", type=Path, default=[record.REPOSITORY / "demo" / "pages"])
    parser.add_argument("--rounds", type=int, default=5)
    add_no_record(parser)
    arguments = parser.parse_args()
    with pullquote.Highlighter(cache_bytes=0) as highlighter:
        work = load_workload(arguments.pages, QUERY, highlighter.model, None)
        texts = [page.text for page in work.pages]
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        choosing: dict[str, list[float]] = {way: [] for way in WAYS}
        pieces = {
            way: highlighter.highlights(QUERY, texts[:3], **options).work.windows for way, options in WAYS.items()
        }
        assert len(set(pieces.values())) == 1, f"the ways encode different windows: {pieces}"
        core_use: list[CoreUse] = []
        for number in range(arguments.rounds):
            for way in [*WAYS][:: 1 if number % 2 else -1]:
                meter = Meter()
                began = time.perf_counter()
                found = highlighter.highlights(QUERY, texts, **WAYS[way])
                seconds[way].append(time.perf_counter() - began)
                core_use.append(meter.stop())
                choosing[way].append(found.work.ranking / seconds[way][-1])
                print(f"round {number + 1}: {way} {seconds[way][-1]:.2f} s{core_use[-1].remark()}", file=sys.stderr)
    ratios = {
        way: [s / plain for s, plain in zip(seconds[way], seconds["windows by cosine"], strict=True)] for way in WAYS
    }
    around = record.circumstances() | {"rounds": arguments.rounds, "dtype": highlighter.dtype}
    raw = around | work.counts() | {"seconds": seconds, "ratios": ratios, "choosing": choosing}
    raw["core_use"] = [asdict(use) for use in core_use]
    lines = [
        *record.heading(CLAIM, around),
        f"{len(texts)} pages, {work.pieces:,} windows, {work.tokens:,} tokens; {arguments.rounds} rounds, the ways taking turns;"
        " medians (least to most)",
        "",
        "| way | seconds | ratio to windows by cosine | of its time, scoring and choosing |",
        "|---|---:|---:|---:|",
    ]
    for way in WAYS:
        share = median(choosing[way])
        lines.append(f"| {way} | {spread(seconds[way])} | {spread(ratios[way], '.3f')} | {share:.2%} |")
    lines += ["", f"- {quietness(core_use)}"]
    table = "\n".join(lines) + "\n"
    record.publish(CLAIM, raw, table, keeps=not arguments.no_record)


if __name__ == "__main__":
    main()
