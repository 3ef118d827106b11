"""Claim: a table of short pages is answered faster than the same pages as Python strings, in next to no memory of its own.

Three ways to answer the rows of a pyarrow table, each page with its own query, take turns and end with a table each:

- `highlights_arrow(table)`;
- a call: `highlights(queries, texts)` with lists of strings, and rows made of its lists;
- calls: `highlights(query, [text])` for each row, and rows made of them.

A ratio is the seconds of a way over those of the first in the same round. Twice: with the embedded model, and with one that
costs next to nothing, which shows what everything but the network takes. Memory is that of a process of its own: the peak over
what it had before the call, where the texts of the table are many times larger.

    .venv/bin/python bench/arrow.py --rounds 5
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record
from bench.goals import Goal
from bench.machine_noise import CoreUse, Meter, quietness
from bench.options import add_no_record
from bench.record import spread
from bench.texts import prose_pages
from pullquote import Highlighter, Highlights

CLAIM = "arrow"
CHARACTERS = 400
SMALL = "one layer of 32"
QUERIES = ["Who led the work?", "What did it cost?", "Why was he put on trial?", "When did it land on the moon?"]
MEMORY_PAGES = 30_000
# Texts are many times as large, and what is in progress is bounded by them.
MEMORY_GOAL = 0.5


def main() -> None:
    """Measure and keep the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--pages", type=int, default=600, help="with the embedded model; with the small one 8 times as many"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--memory", metavar="MODEL", help="measure memory with this model in this process, and nothing else"
    )
    add_no_record(parser)
    arguments = parser.parse_args()
    if arguments.memory:
        json.dump(_memory(arguments.memory), sys.stdout)
        return
    ways: dict[str, dict[str, Any]] = {}
    core_use: list[CoreUse] = []
    with tempfile.TemporaryDirectory() as folder:
        # In a process of its own: this one has imported transformers.
        subprocess.run([sys.executable, record.REPOSITORY / "bench" / "small_model.py", folder], check=True)
        for name, model, pages in (("embedded", None, arguments.pages), (SMALL, folder, 8 * arguments.pages)):
            with Highlighter(model, cache_bytes=0) as highlighter:
                ways[name] = _ways(highlighter, _table(pages), arguments.rounds, core_use)
                dtype = highlighter.dtype
        command = [sys.executable, __file__, "--memory", folder]
        memory = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    around = record.circumstances() | {"rounds": arguments.rounds, "dtype": dtype, "characters": CHARACTERS}
    goals = [
        Goal(f"seconds of {way} to those of a table, {name}", _median(measured["ratios"][way]), least=1.2)
        for name, measured in ways.items()
        for way in measured["ratios"]
        if way != "highlights_arrow"
    ]
    goals.append(Goal("peak memory over the table's texts", memory["peak"] / memory["texts"], most=MEMORY_GOAL))
    raw = around | {"ways": ways, "memory": memory, "core_use": [asdict(use) for use in core_use]}
    lines = [
        *record.heading(CLAIM, around),
        f"pages of {CHARACTERS} characters, each with one of {len(QUERIES)} queries; {arguments.rounds} rounds, the ways taking"
        " turns; medians (least to most)",
        "",
        "| model | pages | way | seconds | ratio to highlights_arrow |",
        "|---|---:|---|---:|---:|",
    ]
    for name, measured in ways.items():
        for way, seconds in measured["seconds"].items():
            ratio = spread(measured["ratios"][way])
            lines.append(f"| {name} | {measured['pages']:,} | {way} | {spread(seconds)} | {ratio} |")
    lines += [
        "",
        f"- a table of {memory['pages']:,} pages, {memory['texts'] / 1e6:.0f} MB of text, {SMALL}: peak of memory"
        f" {memory['peak'] / 1e6:.0f} MB over what the process had, of which the answers are {memory['answers'] / 1e6:.0f} MB",
        *(goal.line() for goal in goals),
        f"- {quietness(core_use)}",
    ]
    record.publish(CLAIM, raw, "\n".join(lines) + "\n", keeps=not arguments.no_record)


def _table(pages: int) -> pa.Table:
    texts = prose_pages(pages, CHARACTERS)
    return pa.table({"text": texts, "query": [QUERIES[number % len(QUERIES)] for number in range(pages)]})


def _ways(highlighter: Highlighter, table: pa.Table, rounds: int, core_use: list[CoreUse]) -> dict[str, Any]:
    ways: dict[str, Callable[[], pa.Table]] = {
        "highlights_arrow": lambda: pa.table(highlighter.highlights_arrow(table)),
        "a call": lambda: _one_call(highlighter, table),
        "calls": lambda: _calls(highlighter, table),
    }
    highlighter.highlights_arrow(table.slice(0, 200))
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    found: dict[str, pa.Table] = {}
    for number in range(rounds):
        for way in [*ways][:: 1 if number % 2 else -1]:
            meter, began = Meter(), time.perf_counter()
            found[way] = ways[way]()
            seconds[way].append(time.perf_counter() - began)
            core_use.append(meter.stop())
            print(f"round {number + 1}: {way} {seconds[way][-1]:.2f} s{core_use[-1].remark()}", file=sys.stderr)
    texts = {
        way: [[h["text"] for h in row] for row in answer["highlights"].to_pylist()] for way, answer in found.items()
    }
    same = sum(ours == a == b for ours, a, b in zip(*texts.values(), strict=True))
    assert same >= 0.99 * len(table), f"only {same} of {len(table)} rows have the same passages in every way"
    ratios = {
        way: [took / least for took, least in zip(seconds[way], seconds["highlights_arrow"], strict=True)]
        for way in ways
    }
    return {"pages": len(table), "seconds": seconds, "ratios": ratios, "same": same}


def _one_call(highlighter: Highlighter, table: pa.Table) -> pa.Table:
    found = highlighter.highlights(table["query"].to_pylist(), table["text"].to_pylist(), pairing="each")
    return pa.table({"highlights": [_rows(found, page) for page in range(len(found))], "windows": found.windows})


def _calls(highlighter: Highlighter, table: pa.Table) -> pa.Table:
    rows, pieces = [], []
    for query, text in zip(table["query"].to_pylist(), table["text"].to_pylist(), strict=True):
        found = highlighter.highlights(query, [text])
        rows.append(_rows(found, 0))
        pieces.append(found.work.windows)
    return pa.table({"highlights": rows, "windows": pieces})


def _rows(found: Highlights, page: int) -> list[dict[str, object]]:
    return [{"text": h.text, "start": h.start, "end": h.end, "score": h.score} for h in found[page]]


def _memory(model: str) -> dict[str, int]:
    """Answer a table in this process; returns by how many bytes memory grew at its peak."""
    table = _table(MEMORY_PAGES)
    with Highlighter(model, cache_bytes=0) as highlighter:
        highlighter.highlights_arrow(table.slice(0, 2000))
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS")
        found = highlighter.highlights_arrow(table)
        peak = _status("VmHWM") - before
    return {
        "pages": len(table),
        "texts": table["text"].nbytes,
        "peak": peak,
        "answers": pa.table(found).nbytes,
    }


def _status(what: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


if __name__ == "__main__":
    main()
