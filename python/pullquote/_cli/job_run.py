"""``pullquote job``: runs a job with a progress bar, or shows its status."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeAlias

from pullquote._cli.settings import call_options
from pullquote._cli.source import complain
from pullquote._engine.highlighter import Highlighter
from pullquote._extras import needs_extra
from pullquote._progress_bar import ProgressBar
from pullquote._text_files import unreadable
from pullquote.errors import InvalidArgumentError, InvalidTextError
from pullquote.jobs._inputs import Columns, InputFile, check_columns, find_files
from pullquote.jobs._job import Job
from pullquote.jobs._outputs import ERRORS, output_name
from pullquote.jobs._records import JobStatus, check_directory, job_status, start_job, unfinished_files
from pullquote.jobs._run import FileProgress, OnProgress, check_job, run_files
from pullquote.jobs._store import OutputStore

__all__ = ["run"]

# Processes a job's files, in any order, with the behaviour of `run_files`. The highlighter is the one that determined the job's
# settings; a runner with other processes makes its own there (`Job.highlighter`).
Runner: TypeAlias = Callable[[Highlighter, Job, list[InputFile], OnProgress], None]

RAY_OPTIONS = ("actors", "actor_cpus", "actor_gpus")


def run(options: argparse.Namespace) -> int:
    """Run a job, or show its status. Returns the exit code, which is not 0 if a file could not be read, or no row."""
    store = OutputStore(options.output)
    if options.status:
        _show(job_status(store), options)
        return 0
    job, runner = _job(options), (_ray_runner if options.engine == "ray" else _local_runner)(options)
    files = [file for file in find_files(job.input) if not store.contains(file.url)]
    if not files:
        message = f"the files of --input {job.input} are those of --output {job.output}; name another directory for the output"
        raise InvalidArgumentError(message)
    _check_names(job, files)
    check_columns(files, job.columns)
    store.check_is_directory()
    with job.highlighter(**_engine_arguments(options)) as highlighter, ExitStack() as locked:
        check_job(highlighter, job)
        settings = job.settings(highlighter)
        # Before the lock, which a job that is refused would leave in the directory.
        check_directory(store, settings, files)
        locked.enter_context(store.lock())
        start_job(store, settings, files)
        unfinished = unfinished_files(store, files)
        before = sum(file.bytes for file in files) - sum(file.bytes for file in unfinished)
        began = time.monotonic()
        with _Bar(sum(file.bytes for file in files), before) as bar:
            try:
                runner(highlighter, job, unfinished, bar.update)
            except KeyboardInterrupt:
                bar.clear()
                complain("interrupted; the same command continues")
                raise
        seconds = time.monotonic() - began
        # The lock is that of this job.
        status = replace(job_status(store), is_running=False)
    for name, failure in status.failed.items():
        print(f"pullquote: {name}: {failure}", file=sys.stderr)
    _show(status, options, pages=bar.pages, seconds=seconds)
    has_failed = status.failed or (status.errors and not status.answers)
    return InvalidTextError.exit_code if has_failed else 0


def _job(options: argparse.Namespace) -> Job:
    if options.input is None:
        message = "--input is missing: a directory, a pattern or a file of pages"
        raise InvalidArgumentError(message)
    questions = [*(options.query or []), *(_questions(options.queries) if options.queries else [])]
    if bool(questions) == bool(options.query_column):
        message = "name the queries: --query Q or --queries FILE for every page, or --query-column NAME for the query of each page"
        raise InvalidArgumentError(message)
    return Job(
        input=options.input,
        output=options.output,
        questions=tuple(questions),
        columns=Columns(options.text, options.query_column, options.id, options.title),
        options=call_options(options, "job"),
        format=options.output_format,
        model=options.model,
        encoder=options.encoder,
        reranker=options.reranker,
        dtype=options.dtype,
        revision=options.revision,
    )


def _local_runner(options: argparse.Namespace) -> Runner:
    if given := [name for name in RAY_OPTIONS if getattr(options, name) is not None]:
        message = f"--{given[0].replace('_', '-')} is for --engine ray"
        raise InvalidArgumentError(message)
    return run_files


def _ray_runner(options: argparse.Namespace) -> Runner:
    if given := [flag for flag, value in (("threads", options.threads), ("device", options.devices)) if value]:
        message = f"--{given[0]} is for --engine local; an actor has --actor-cpus and --actor-gpus"
        raise InvalidArgumentError(message)
    with needs_extra("ray"):
        from pullquote.jobs._ray import RayRunner  # noqa: PLC0415 - it needs what `pullquote[ray]` installs
    arguments = {
        name: getattr(options, name) for name in ("cache_bytes", "max_batch_tokens", "max_batch_size", "cuda_graphs")
    }
    return RayRunner(options.actors, options.actor_cpus, options.actor_gpus, tuple(arguments.items()))


def _check_names(job: Job, files: list[InputFile]) -> None:
    """Raise if two inputs would have the same output."""
    known: dict[str, InputFile] = {}
    for file in files:
        name = output_name(file, job.format)
        if name in known:
            message = f"{file.url} and {known[name].url} would both be written to {name}; rename one of them"
            raise InvalidArgumentError(message)
        known[name] = file


def _engine_arguments(options: argparse.Namespace) -> dict[str, object]:
    return {
        "devices": options.devices or "auto",
        "cuda_graphs": options.cuda_graphs,
        "threads": options.threads,
        "cache_bytes": options.cache_bytes,
        "max_batch_tokens": options.max_batch_tokens,
        "max_batch_size": options.max_batch_size,
    }


def _questions(path: Path) -> list[str]:
    """One in each line that is not empty."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        message = f"{path}: not utf-8 at byte {error.start}"
        raise InvalidTextError(message) from None
    except OSError as error:
        raise unreadable(str(path), error) from None
    if questions := [line.strip() for line in text.splitlines() if line.strip()]:
        return questions
    message = f"{path} has no question; write one in each line"
    raise InvalidArgumentError(message)


class _Bar:
    """Progress in bytes of the input, which are known from the start, with the number and rate of pages."""

    def __init__(self, total: int, before: int) -> None:
        self._bar = ProgressBar(total, "byte", done=before, writes_lines=True)
        self._began = time.monotonic()
        self.pages = 0

    def update(self, progress: FileProgress) -> None:
        self.pages += progress.rows
        rate = self.pages / max(time.monotonic() - self._began, 1e-9)
        self._bar.note = f"{self.pages:,} pages, {rate:,.0f} a second"
        self._bar.update(progress.bytes)

    def clear(self) -> None:
        self._bar.clear()

    def __enter__(self) -> _Bar:
        self._bar.update(0)
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()


def _show(
    status: JobStatus, options: argparse.Namespace, *, pages: int | None = None, seconds: float | None = None
) -> None:
    if options.json:
        ran = {} if seconds is None else {"pages_now": pages, "seconds": round(seconds, 3)}
        print(json.dumps(asdict(status) | ran, ensure_ascii=False))
        return
    share = status.bytes_done / max(status.bytes, 1)
    print(f"{status.files_done:,} of {status.files:,} files done, {share:.1%} of {status.bytes:,} bytes")
    print(
        f"{status.rows:,} pages: {status.answers:,} answers, {status.passages:,} passages, {status.errors:,} rows with an error"
    )
    if status.errors:
        print(f"the errors of rows are in {options.output.rstrip('/')}/{ERRORS}")
    if status.failed:
        print(f"{len(status.failed):,} files cannot be read; the next run tries them again")
    if seconds is not None and pages:
        print(f"{pages:,} pages in {seconds:,.1f} s, {pages / max(seconds, 1e-9):,.1f} a second")
    elif status.is_running:
        print("a job is running here")
