"""Claim: a job over files is as fast as the same rows in memory, and its memory does not grow with them.

Rates: the same pages as a table in memory (`highlights_arrow`) and as Parquet and JSON lines of a directory (`jobs.run_files`, with
hashing, reading, writing and syncing) alternate with the embedded model, in one process. A ratio is of pages a second in
the same round.

A longer job runs on `--engine ray`'s engine on a node of this machine, whose one actor has all cores. A job of one page,
which is almost only the start of the actor, is measured too and subtracted, since a job of hours starts once. The ratio is to
the local job of the same round.

Memory: 50,000 pages in 50 files, in a process of their own, with a model that costs next to nothing; resident memory is read
after each file, after all free memory went back to the system. On Ray it is the actor's resident memory.

    .venv/bin/python bench/jobs.py --rounds 3
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import gzip
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import ray
from pyarrow import parquet

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record
from bench.goals import Goal
from bench.machine_noise import CoreUse, Meter, cores, quietness
from bench.options import add_no_record
from bench.record import spread
from bench.texts import prose_pages
from pullquote import Highlighter
from pullquote.jobs._inputs import Columns, find_files
from pullquote.jobs._job import Job
from pullquote.jobs._ray import RayRunner
from pullquote.jobs._run import FileProgress, OnProgress, run_files

CLAIM = "jobs"
CHARACTERS = 400
QUERY = "Who led the work, and what did it cost?"
KINDS = ["parquet", "jsonl.gz"]
FILES = 50


def main() -> None:
    """Measure and keep the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=600, help="of a turn with the embedded model")
    parser.add_argument("--ray-pages", type=int, default=3000, help="of a job on Ray, which has a begin to make up for")
    parser.add_argument("--memory-pages", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--memory", metavar="FOLDER", help="do a job in this process, print what memory it had, and nothing else"
    )
    add_no_record(parser)
    arguments = parser.parse_args()
    if arguments.memory:
        json.dump(_memory(Path(arguments.memory)), sys.stdout)
        return
    core_use: list[CoreUse] = []
    with tempfile.TemporaryDirectory() as folder, Highlighter(cache_bytes=0) as highlighter:
        rates = _rates(highlighter, Path(folder), arguments, core_use)
        on_ray = _on_ray(highlighter, Path(folder), arguments)
        dtype = highlighter.dtype
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, record.REPOSITORY / "bench" / "small_model.py", folder], check=True)
        _write(Path(folder) / "input", "parquet", _table(arguments.memory_pages), FILES)
        command = [sys.executable, __file__, "--memory", folder]
        memory = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        memory_on_ray = _memory_on_ray(Path(folder))
    ratios = {kind: [job / table for job, table in zip(rates[kind], rates["in memory"], strict=True)] for kind in KINDS}
    goals = [Goal(f"pages a second of {kind}, to those in memory", median(ratios[kind]), least=0.95) for kind in KINDS]
    compared = [there / here for there, here in zip(on_ray["rates"], rates["parquet"], strict=True)]
    goals.append(Goal("pages a second of parquet on Ray, to those of the local job", median(compared), least=0.9))
    growth = "resident memory after the last files, to that after a fifth of them"
    goals.append(Goal(growth, _growth(memory["resident"]), most=1.05))
    goals.append(Goal(f"the actor's {growth}", _growth(memory_on_ray), most=1.05))
    around = record.circumstances() | {"rounds": arguments.rounds, "dtype": dtype, "characters": CHARACTERS}
    raw = around | {
        "rates": rates,
        "ratios": ratios,
        "on_ray": on_ray | {"resident": memory_on_ray},
        "memory": memory,
        "core_use": [asdict(use) for use in core_use],
    }
    lines = [
        *record.heading(CLAIM, around),
        f"{arguments.pages:,} pages of {CHARACTERS} characters; {arguments.rounds} rounds, the ways taking turns; medians (least"
        " to most)",
        "",
        "| way | pages a second | ratio to in memory |",
        "|---|---:|---:|",
        f"| in memory | {spread(rates['in memory'], '.1f')} | |",
        *(f"| {kind} | {spread(rates[kind], '.1f')} | {spread(ratios[kind], '.3f')} |" for kind in KINDS),
        f"| parquet on Ray, without its begin | {spread(on_ray['rates'], '.1f')} | {spread(compared, '.3f')}, to the local job |",
        "",
        f"- a job of one page on Ray takes {spread(on_ray['begins'], '.1f')} s, one of {arguments.ray_pages:,}"
        f" {spread(on_ray['seconds'], '.1f')} s",
        f"- on Ray the actor of the job below has {min(memory_on_ray) / 1e6:.0f} to {max(memory_on_ray) / 1e6:.0f} MB",
        f"- {memory['pages']:,} pages in {FILES} files, one layer of 32: {memory['pages'] / memory['seconds']:,.0f} pages a second,"
        f" resident {min(memory['resident']) / 1e6:.0f} to {max(memory['resident']) / 1e6:.0f} MB",
        *(goal.line() for goal in goals),
        f"- {quietness(core_use)}",
    ]
    record.publish(CLAIM, raw, "\n".join(lines) + "\n", keeps=not arguments.no_record)


def _rates(
    highlighter: Highlighter, folder: Path, arguments: argparse.Namespace, core_use: list[CoreUse]
) -> dict[str, list[float]]:
    table = _table(arguments.pages)
    for kind in KINDS:
        _write(folder / kind, kind, table, 4)
    rates: dict[str, list[float]] = {way: [] for way in ("in memory", *KINDS)}
    highlighter.highlights_arrow(table.slice(0, 200), query=[QUERY], id="id")
    for number in range(arguments.rounds):
        for way in [*rates][:: 1 if number % 2 else -1]:
            meter, began = Meter(), time.perf_counter()
            if way == "in memory":
                done = len(highlighter.highlights_arrow(table, query=[QUERY], id="id"))
            else:
                done = _work(highlighter, folder / way, folder / f"{way}-{number}")
            rates[way].append(arguments.pages / (time.perf_counter() - began))
            assert done == arguments.pages
            core_use.append(meter.stop())
            print(
                f"round {number + 1}: {way} {rates[way][-1]:.1f} pages a second{core_use[-1].remark()}", file=sys.stderr
            )
    return rates


def _on_ray(highlighter: Highlighter, folder: Path, arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Run a longer job and a job of one page on Ray; returns the seconds of both, and pages a second of the difference."""
    _write(folder / "one", "parquet", _table(1), 1)
    _write(folder / "long", "parquet", _table(arguments.ray_pages), 8)
    found: dict[str, list[float]] = {"seconds": [], "begins": [], "rates": []}
    with _a_node():
        _spread_over_ray(highlighter, folder / "one", folder / "ray-first", lambda _: None)
        for number in range(arguments.rounds):
            for name, kind in (("begins", "one"), ("seconds", "long")):
                began = time.perf_counter()
                _spread_over_ray(highlighter, folder / kind, folder / f"ray-{name}-{number}", lambda _: None)
                found[name].append(time.perf_counter() - began)
            print(
                f"round {number + 1}: on Ray {found['seconds'][-1]:.1f} s, one page {found['begins'][-1]:.1f} s",
                file=sys.stderr,
            )
    found["rates"] = [arguments.ray_pages / (seconds - median(found["begins"])) for seconds in found["seconds"]]
    return found


def _memory_on_ray(folder: Path) -> list[int]:
    """Return the actor's bytes after each file of the job that `_memory` runs in this process."""
    resident: list[int] = []

    def on_progress(_: FileProgress) -> None:
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "cmdline").read_bytes().startswith(b"ray::MapWorker"):
                    lines = (process / "status").read_text().splitlines()
                    resident.append(next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS")))

    with _a_node(), Highlighter(folder, cache_bytes=0) as highlighter:
        _spread_over_ray(highlighter, folder / "input", folder / "ray-output", on_progress, model=str(folder))
    return resident


@contextlib.contextmanager
def _a_node() -> Iterator[None]:
    """A Ray cluster of this machine alone."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=cores(), include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        yield
    finally:
        ray.shutdown()


def _spread_over_ray(
    highlighter: Highlighter, source: Path, output: Path, on_progress: OnProgress, model: str | None = None
) -> None:
    job = Job(str(source), str(output), (QUERY,), Columns(id="id"), model=model)
    RayRunner(actors=1, cpus=cores(), gpus=0)(highlighter, job, find_files(job.input), on_progress)


def _growth(resident: list[int]) -> float:
    fifth = len(resident) // 5
    return median(resident[-fifth:]) / median(resident[fifth : 2 * fifth])


def _work(highlighter: Highlighter, source: Path, output: Path) -> int:
    answers = 0

    def on_progress(progress: FileProgress) -> None:
        nonlocal answers
        answers += progress.record.answers if progress.record else 0

    job = Job(str(source), str(output), (QUERY,), Columns(id="id"))
    run_files(highlighter, job, find_files(job.input), on_progress)
    return answers


def _table(pages: int) -> pa.Table:
    texts = prose_pages(pages, CHARACTERS)
    return pa.table({"id": [f"page-{number}" for number in range(pages)], "text": texts})


def _write(folder: Path, kind: str, table: pa.Table, files: int) -> None:
    folder.mkdir(parents=True)
    rows = len(table) // files
    for number in range(files):
        part, path = table.slice(number * rows, rows), folder / f"{number:03}.{kind}"
        if kind == "parquet":
            parquet.write_table(part, path)
        else:
            path.write_bytes(gzip.compress("".join(f"{json.dumps(row)}\n" for row in part.to_pylist()).encode()))


def _memory(folder: Path) -> dict[str, Any]:
    resident: list[int] = []

    def on_progress(progress: FileProgress) -> None:
        if progress.record is not None:
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)
            lines = Path("/proc/self/status").read_text().splitlines()
            resident.append(next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS")))

    job = Job(str(folder / "input"), str(folder / "output"), (QUERY,), Columns(id="id"))
    files = find_files(job.input)
    began = time.perf_counter()
    with Highlighter(folder, cache_bytes=0) as highlighter:
        run_files(highlighter, job, files, on_progress)
    pages = sum(parquet.read_metadata(folder / "output" / file.name).num_rows for file in files)
    return {"pages": pages, "seconds": time.perf_counter() - began, "resident": resident}


if __name__ == "__main__":
    main()
