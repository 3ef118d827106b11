"""``pullquote job``: its options. `pullquote.jobs` runs it."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_options", "run"]


def add_options(job: argparse.ArgumentParser) -> None:
    """Add the command's own options."""
    job.add_argument(
        "--input", metavar="DIR|GLOB|FILE", help="Parquet or JSON lines (.jsonl, .gz, .zst); also s3://..."
    )
    job.add_argument(
        "--output", required=True, metavar="DIR", help="directory for a file for each input file; also s3://..."
    )
    job.add_argument("-q", "--query", action="append", help="question about every page; repeatable")
    job.add_argument("--queries", type=Path, metavar="FILE", help="file with a question about every page in each line")
    job.add_argument("--query-column", metavar="NAME", help="column of the query for each page")
    job.add_argument("--text", default="text", metavar="NAME", help="column of the pages (default: %(default)s)")
    job.add_argument("--id", metavar="NAME", help="column of their ids (default: their numbers in the file)")
    job.add_argument("--title", metavar="NAME", help="column of titles, for pages without a query")
    job.add_argument(
        "--output-format",
        choices=["same", "parquet", "jsonl"],
        default="same",
        help="format of the outputs (default: %(default)s as the input)",
    )
    job.add_argument(
        "--engine",
        choices=["local", "ray"],
        default="local",
        help="where to run: in this process, or on a Ray cluster (default: %(default)s)",
    )
    ray = job.add_argument_group("--engine ray")
    ray.add_argument("--actors", type=int, metavar="N", help="maximum number of actors (default: as many as fit)")
    ray.add_argument(
        "--actor-cpus", type=int, metavar="N", help="cores of each actor (default: those of the smallest node)"
    )
    ray.add_argument(
        "--actor-gpus", type=float, metavar="N", help="GPUs of each actor (default: 1 if a node has any, else 0)"
    )
    job.add_argument("--status", action="store_true", help="show the progress of the job in --output, and exit")


def run(options: argparse.Namespace) -> int:
    """Run a job, or show its status, and return the exit code."""
    from pullquote._cli.job_run import run as run_job  # noqa: PLC0415 - it needs what `pullquote[jobs]` installs

    return run_job(options)
