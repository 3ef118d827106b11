"""Doing files: read, answer and write, all at the same time, so that devices never wait for a disk.

One thread reads the next chunk, two wait for the engine, each with a chunk of its own, and the caller's writes. All of it is
in order: the outputs are the same whatever came first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

import pyarrow as pa

from pullquote._highlighter import Highlighter
from pullquote.errors import InvalidTextError, InvalidTypeError
from pullquote.jobs._inputs import Chunk, InputFile, chunks, digest
from pullquote.jobs._job import Job
from pullquote.jobs._outputs import Written
from pullquote.jobs._records import Record

__all__ = ["Progress", "Told", "check", "work"]

# Chunks that the engine has at once: what one leaves of its devices the other takes.
CALLS = 2


@dataclass(frozen=True, slots=True)
class Progress:
    """So much more of a file was done; `record` is its end."""

    file: InputFile
    rows: int = 0
    bytes: int = 0
    record: Record | None = None


Told: TypeAlias = Callable[[Progress], None]


@dataclass(slots=True)
class _Step:
    """A chunk of a file, and what is found for it; or why no more of it can be read."""

    file: InputFile
    sha256: str
    chunk: Chunk | None = None
    found: Future[pa.Table] | None = None
    failure: str = ""


def work(highlighter: Highlighter, job: Job, files: Iterable[InputFile], told: Told) -> None:
    """Do files, one behind the other: write their outputs and then their records; `told` hears of each chunk and each end.

    A file that cannot be read has a record that says so, and no output. Raises what ends the job as a whole: no room to write,
    or a highlighter that was closed; then the file in progress has left nothing.
    """
    steps = _answered(highlighter, job, _ahead(_steps(files, job)))
    try:
        for file, of_file in groupby(steps, key=lambda step: step.file):
            record = _do(job, file, of_file, told)
            record.write(job.place)
            told(Progress(file, record=record))
    except KeyboardInterrupt:
        # What the engine has begun would be waited for.
        highlighter.close()
        raise
    finally:
        steps.close()


def _do(job: Job, file: InputFile, steps: Iterator[_Step], told: Told) -> Record:
    sha256, share = "", 0.0
    written = Written(job.place, file, job.form, len(job.questions))
    try:
        with written:
            for step in steps:
                sha256 = step.sha256
                if step.chunk is None or step.found is None:
                    raise _UnreadableError(step.failure)
                try:
                    found = step.found.result()
                except InvalidTypeError as error:
                    raise _UnreadableError(_named(error)) from error
                written.add(step.chunk, found)
                grown, share = step.chunk.share - share, step.chunk.share
                told(Progress(file, len(step.chunk.rows) + len(step.chunk.wrong), round(grown * file.bytes)))
    except _UnreadableError as error:
        return Record(file.name, file.url, file.bytes, file.version, sha256, failure=str(error))
    counts = (written.rows, written.answers, written.passages, written.errors)
    size = job.place.size(written.name)
    return Record(file.name, file.url, file.bytes, file.version, sha256, *counts, written.name, size)


class _UnreadableError(Exception):
    """Why a file cannot be read; what is left of it is passed over."""


def _steps(files: Iterable[InputFile], job: Job) -> Iterator[_Step]:
    for file in files:
        sha256 = ""
        try:
            sha256 = digest(file)
            for chunk in chunks(file, job.columns):
                yield _Step(file, sha256, chunk)
        except (InvalidTextError, OSError) as error:
            yield _Step(file, sha256, failure=_named(error))


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _ahead(steps: Iterator[_Step]) -> Iterator[_Step]:
    """The same, of which the next is read while one is worked on."""
    with ThreadPoolExecutor(1, "pullquote-read") as thread:
        following = thread.submit(next, steps, None)
        while (step := following.result()) is not None:
            following = thread.submit(next, steps, None)
            yield step


def _answered(highlighter: Highlighter, job: Job, steps: Iterator[_Step]) -> Generator[_Step]:
    """The same, each with what is found for it, which the engine works at already."""
    with ThreadPoolExecutor(CALLS, "pullquote-call") as calls:
        waiting: deque[_Step] = deque()
        for step in steps:
            if step.chunk is not None:
                step.found = calls.submit(_find, highlighter, job, step.chunk.table)
            waiting.append(step)
            if len(waiting) > CALLS:
                yield waiting.popleft()
        yield from waiting


def check(highlighter: Highlighter, job: Job) -> None:
    """Raise what `Highlighter.highlights_arrow` has to say against the job's questions and options, before any file is read."""
    names = ["id", "text", *(name for name in ("query", "title") if getattr(job.columns, name))]
    _find(highlighter, job, pa.table({name: pa.array([], pa.string()) for name in names}))


def _find(highlighter: Highlighter, job: Job, table: pa.Table) -> pa.Table:
    title = "title" if job.columns.title else None
    query = list(job.questions) or "query"
    return pa.table(highlighter.highlights_arrow(table, "text", query, "id", title, **job.options))
