"""Claim: the speed of one core predicts the duration of a job on many machines.

The model is `bench/simulation.py`. Its two inputs are measured here: pages a second of one core in a job of one
process, and the time of a job of one page on Ray, before and during its page. From these it predicts a job on 1, 2 and 3
nodes of one core each. The nodes are processes of this machine and share its cores, as in the model. Then the
job runs on them with `--engine ray`'s engine. A ratio is the measured time over the predicted one.

With the same model it predicts a job of 10^9 pages (`docs/scale.md`): pages of 24 kB, whose rate and bytes in and out are
measured here too, on machines like this one.

    .venv/bin/python bench/scale_model.py
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record
from bench.goals import Goal
from bench.large_pages import large_pages
from bench.machine_noise import CoreUse, Meter, cores, quietness
from bench.options import add_no_record
from bench.simulation import Cluster, Outcome, simulate
from bench.texts import prose_pages
from pullquote import Highlighter
from pullquote.jobs._inputs import Columns, find_files
from pullquote.jobs._job import Job
from pullquote.jobs._records import unfinished_files
from pullquote.jobs._run import FileProgress, run_files

CLAIM = "scale_model"
QUERY = "Who led the work, and what did it cost?"
CHARACTERS = 400
NODES = (1, 2, 3)
STORE = 100 * 1024 * 1024

# The plan: pages, pages in a file, machines, cores of a machine, and the days between failures of a machine.
PAGES = 1_000_000_000
FILE_PAGES = (10_000, 100_000)
MACHINES = (10, 100, 1000)
MACHINE_CORES = 32
FAILS_EVERY_HOURS = (24, 24 * 30)
GONE = 300.0


def main() -> None:
    """Measure, compare and keep the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=960, help="of the job that is predicted, in 24 files")
    parser.add_argument("--large-pages", type=int, default=24, help="of 24 kB, for the plan")
    parser.add_argument("--gpu-rate", type=float, help="pages of 24 kB per second of a GPU; not measured")
    add_no_record(parser)
    arguments = parser.parse_args()
    core_use: list[CoreUse] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small = [
            {"id": str(number), "text": text} for number, text in enumerate(prose_pages(arguments.pages, CHARACTERS))
        ]
        _write(folder / "small", small, 24)
        _write(folder / "one", small[:1], 1)
        large = [
            {"id": str(number), "text": page.text, "query": page.query}
            for number, page in enumerate(large_pages([], arguments.large_pages))
        ]
        _write(folder / "large", large, 4)
        plain = _local(folder, "small", 1, core_use)
        whole = _local(folder, "large", cores(), core_use)
        runs = _on_ray(folder, core_use)
    fixed = runs.pop("one")
    predicted = {nodes: _predict(plain, fixed, nodes, arguments.pages) for nodes in NODES}
    ratios = {nodes: runs[str(nodes)] / predicted[nodes] for nodes in NODES}
    goals = [
        Goal(f"measured over predicted seconds, {nodes} nodes", ratio, 0.8, 1.2) for nodes, ratio in ratios.items()
    ]
    rate = whole["pages"] / whole["seconds"] / cores()
    plans = [*_plans(rate, MACHINE_CORES), *(_plans(arguments.gpu_rate, 1) if arguments.gpu_rate else [])]
    around = record.circumstances()
    raw = around | {
        "core_rate": plain["pages"] / plain["seconds"],
        "one_page_on_ray": fixed,
        "measured": runs,
        "predicted": predicted,
        "large_pages": whole,
        "plans": plans,
        "core_use": [asdict(use) for use in core_use],
    }
    lines = [
        *record.heading(CLAIM, around),
        f"- one core, one process: {plain['pages'] / plain['seconds']:.1f} pages of {CHARACTERS} characters a second",
        f"- a job of one page on Ray: {fixed:.1f} s",
        f"- {arguments.pages:,} pages in 24 files; nodes of one core each, all on this machine's {cores()} cores",
        "",
        "| nodes | predicted, s | measured, s | ratio |",
        "|---:|---:|---:|---:|",
        *(f"| {nodes} | {predicted[nodes]:.1f} | {runs[str(nodes)]:.1f} | {ratios[nodes]:.2f} |" for nodes in NODES),
        "",
        *(goal.line() for goal in goals),
        f"- {whole['pages']} pages of {whole['text_bytes'] / whole['pages'] / 1000:.1f} kB, each with its own question, by a local"
        f" job with {cores()} threads: {rate:.2f} pages a second a core; a page is {whole['in'] / whole['pages'] / 1000:.1f} kB of"
        f" Parquet in and {whole['out'] / whole['pages'] / 1000:.2f} kB out",
        f"- finding that a file is done, before a job goes on: {plain['look'] * 1000:.2f} ms each, one after the other, on this"
        " disk",
        f"- {quietness(core_use)}",
        "",
        f"{PAGES:,} such pages, simulated; machines of {MACHINE_CORES} of these cores, an actor on each; one that fails is back"
        f" after {GONE:.0f} s:",
        "",
        "| machines | pages a file | a machine fails every | hours | failures | done again | cores busy | read, MB/s | written,"
        " MB/s |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        *(_plan_line(plan, whole) for plan in plans),
    ]
    record.publish(CLAIM, raw, "\n".join(lines) + "\n", keeps=not arguments.no_record)


def _write(folder: Path, rows: list[dict[str, str]], files: int) -> None:
    folder.mkdir()
    for number in range(files):
        part = rows[number * len(rows) // files : (number + 1) * len(rows) // files]
        parquet.write_table(pa.Table.from_pylist(part), folder / f"{number:03}.parquet", compression="zstd")


def _job(folder: Path, name: str, output: str) -> Job:
    source, target = str(folder / name), str(folder / output)
    if name == "large":
        return Job(source, target, (), Columns(id="id", query="query"))
    return Job(source, target, (QUERY,), Columns(id="id"))


def _local(folder: Path, name: str, threads: int, core_use: list[CoreUse]) -> dict[str, Any]:
    """A job in this process: its seconds, and bytes in and out."""
    job = _job(folder, name, f"{name}-local")
    files = find_files(job.input)
    rows = 0

    def on_progress(progress: FileProgress) -> None:
        nonlocal rows
        rows += progress.rows

    with Highlighter(threads=threads, cache_bytes=0) as highlighter:
        highlighter.highlights(QUERY, prose_pages(20, CHARACTERS))
        meter, began = Meter(), time.perf_counter()
        run_files(highlighter, job, files, on_progress)
        seconds = time.perf_counter() - began
        core_use.append(meter.stop())
    print(f"local, {name}: {rows} pages in {seconds:.1f} s{core_use[-1].remark()}", file=sys.stderr)
    began = time.perf_counter()
    assert unfinished_files(job.store, files) == []
    look = (time.perf_counter() - began) / len(files)
    texts = parquet.read_table(folder / name)["text"].to_pylist()
    return {
        "pages": rows,
        "seconds": seconds,
        "look": look,
        "text_bytes": sum(len(text.encode()) for text in texts),
        "in": sum(file.bytes for file in files),
        "out": sum(path.stat().st_size for path in (folder / f"{name}-local").glob("*.parquet")),
    }


def _on_ray(folder: Path, core_use: list[CoreUse]) -> dict[str, float]:
    """Seconds of the job on 1, 2 and 3 nodes, and of a job of one page on the first (`one`)."""
    import ray  # noqa: PLC0415 - only here
    from ray.cluster_utils import Cluster as Nodes  # noqa: PLC0415

    from pullquote.ray._runner import RayRunner  # noqa: PLC0415

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    seconds: dict[str, float] = {}
    nodes: Any = Nodes(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False},
    )
    nodes.add_node(num_cpus=1, object_store_memory=STORE)
    ray.init(nodes.address, log_to_driver=False, logging_level=logging.ERROR)
    numbers = itertools.count()
    try:
        with Highlighter(threads=1, cache_bytes=0) as highlighter:
            # The first one of a cluster starts more than the later ones.
            for name in ("one", "one", *map(str, NODES)):
                if name.isdigit() and int(name) > 1:
                    nodes.add_node(num_cpus=1, object_store_memory=STORE)
                    nodes.wait_for_nodes(60)
                job = _job(folder, name if name == "one" else "small", f"ray-{next(numbers)}")
                meter, began = Meter(), time.perf_counter()
                RayRunner(cpus=1, gpus=0)(highlighter, job, find_files(job.input), lambda _: None)
                seconds[name] = time.perf_counter() - began
                core_use.append(CoreUse(meter.stop().own, 0.0))
                print(f"ray, {name}: {seconds[name]:.1f} s", file=sys.stderr)
    finally:
        ray.shutdown()
        nodes.shutdown()
    return seconds


def _predict(plain: dict[str, Any], fixed: float, nodes: int, pages: int) -> float:
    """Predict the seconds of a job on `nodes` of one core. Ray's time for one page is an actor's start, and a core's work."""
    core_rate = plain["pages"] / plain["seconds"]
    return simulate([pages / 24 / core_rate] * 24, Cluster(nodes, cores(), start=fixed)).seconds


def _plans(rate: float, a_machine: int) -> list[dict[str, Any]]:
    """Predict a job of `PAGES`, with one actor for each machine, which fails with it."""
    plans: list[dict[str, Any]] = []
    for machines, file_pages, hours in itertools.product(MACHINES, FILE_PAGES, FAILS_EVERY_HOURS):
        count = machines * a_machine
        cluster = Cluster(machines, count, a_machine, start=10.0, fails_every=hours * 3600, gone=GONE)
        found: Outcome = simulate([file_pages / rate] * (PAGES // file_pages), cluster)
        plans.append(
            {"machines": machines, "cores": count, "file_pages": file_pages, "fails_every_hours": hours}
            | asdict(found)
            | {"lost_share": found.lost * rate / PAGES}
        )
    return plans


def _plan_line(plan: dict[str, Any], whole: dict[str, Any]) -> str:
    a_second = PAGES / plan["seconds"] / 1e6
    return (
        f"| {plan['machines']:,} | {plan['file_pages']:,} | {plan['fails_every_hours']:,} h | {plan['seconds'] / 3600:,.1f} |"
        f" {plan['failures']:,} | {plan['lost_share']:.2%} | {plan['busy']:.1%} |"
        f" {a_second * whole['in'] / whole['pages']:,.1f} | {a_second * whole['out'] / whole['pages']:,.2f} |"
    )


if __name__ == "__main__":
    main()
