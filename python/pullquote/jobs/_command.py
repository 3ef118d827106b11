"""``pullquote job``: a job from the command line, with its progress, and how far one is."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from pullquote._cli_options import options_from_args
from pullquote._progress_bar import ProgressBar
from pullquote.errors import InvalidArgumentError, InvalidTextError
from pullquote.jobs._inputs import Columns, InputFile, find
from pullquote.jobs._job import Job
from pullquote.jobs._outputs import output_name
from pullquote.jobs._records import Status, left, settle, status
from pullquote.jobs._run import Progress, check
from pullquote.jobs._runners import ENGINES
from pullquote.jobs._store import Place

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Do a job, or say how far it is; returns the exit code, which is not 0 where a file could not be read."""
    place = Place(options.output)
    if options.status:
        _show(status(place), options)
        return 0
    job, engine = _job(options), ENGINES[options.engine](options)
    files = [file for file in find(job.input) if not place.holds(file.url)]
    _check_names(job, files)
    with place.held(), job.highlighter(**_engine_arguments(options)) as highlighter:
        check(highlighter, job)
        settle(place, job.settings(highlighter), files)
        undone = left(place, files)
        before = sum(file.bytes for file in files) - sum(file.bytes for file in undone)
        began = time.monotonic()
        with _Bar(sum(file.bytes for file in files), before) as bar:
            engine(highlighter, job, undone, bar.told)
        seconds = time.monotonic() - began
        ended = status(place)
    for name, failure in ended.failed.items():
        print(f"pullquote: {name}: {failure}", file=sys.stderr)
    _show(ended, options, pages=bar.pages, seconds=seconds)
    return InvalidTextError.exit_code if ended.failed else 0


def _job(options: argparse.Namespace) -> Job:
    if options.input is None:
        message = "--input is missing: a directory, a pattern or a file of pages"
        raise InvalidArgumentError(message)
    questions = [*(options.query or []), *(_questions(options.queries) if options.queries else [])]
    if bool(questions) == bool(options.query_column):
        message = (
            "name what is asked: --query Q or --queries FILE of every page, or --query-column NAME of each its own"
        )
        raise InvalidArgumentError(message)
    return Job(
        input=options.input,
        output=options.output,
        questions=tuple(questions),
        columns=Columns(options.text, options.query_column, options.id, options.title),
        options=options_from_args(options),
        form=options.output_format,
        model=options.model,
        encoder=options.encoder,
        dtype=options.dtype,
    )


def _check_names(job: Job, files: list[InputFile]) -> None:
    """Two inputs must not have one output."""
    known: dict[str, InputFile] = {}
    for file in files:
        name = output_name(file, job.form)
        if name in known:
            message = f"{file.url} and {known[name].url} would both become {name}; give one of them another name"
            raise InvalidArgumentError(message)
        known[name] = file


def _engine_arguments(options: argparse.Namespace) -> dict[str, object]:
    return {
        "devices": options.device or "auto",
        "threads": options.threads,
        "cache_bytes": options.cache_bytes,
        "max_batch_tokens": options.max_batch_tokens,
        "max_batch_size": options.max_batch_size,
    }


def _questions(path: Path) -> list[str]:
    """One a line; lines without any are passed over."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        message = f"{path}: not utf-8 at byte {error.start}"
        raise InvalidTextError(message) from None
    except OSError as error:
        message = f"{path}: {error.strerror or error}"
        raise InvalidArgumentError(message) from None
    if questions := [line.strip() for line in text.splitlines() if line.strip()]:
        return questions
    message = f"{path} has no question; write one a line"
    raise InvalidArgumentError(message)


class _Bar:
    """Progress in bytes of the input, which are known before it is read, with pages and their rate beside it."""

    def __init__(self, total: int, before: int) -> None:
        self._bar = ProgressBar(total, "byte", done=before)
        self._began = time.monotonic()
        self.pages = 0

    def told(self, progress: Progress) -> None:
        self.pages += progress.rows
        rate = self.pages / max(time.monotonic() - self._began, 1e-9)
        self._bar.note = f"{self.pages:,} pages, {rate:,.0f} a second"
        self._bar.update(progress.bytes)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.clear()


def _show(
    shown: Status, options: argparse.Namespace, *, pages: int | None = None, seconds: float | None = None
) -> None:
    if options.json:
        ran = {} if seconds is None else {"pages_now": pages, "seconds": round(seconds, 3)}
        print(json.dumps(asdict(shown) | ran, ensure_ascii=False))
        return
    share = shown.bytes_done / max(shown.bytes, 1)
    print(f"{shown.files_done:,} of {shown.files:,} files done, {share:.1%} of {shown.bytes:,} bytes")
    print(
        f"{shown.rows:,} pages: {shown.answers:,} answers, {shown.passages:,} passages, {shown.errors:,} rows with an error"
    )
    if shown.failed:
        print(f"{len(shown.failed):,} files cannot be read; the next run tries them again")
    if seconds is not None:
        print(f"{pages:,} pages in {seconds:,.1f} s, {(pages or 0) / max(seconds, 1e-9):,.1f} a second")
    elif shown.is_running:
        print("a job is at work here")
