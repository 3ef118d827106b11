"""Processing files: reading, answering and writing at the same time, so that devices do not wait for disks.

One thread reads the next chunk, two threads wait for the engine with a chunk each, and the caller's thread writes. Chunks stay in
order, so the outputs do not depend on timing. The answer of each chunk but the last is kept until its file is done, so that a run
that is stopped within a large file goes on there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

import pyarrow as pa
from pyarrow import ipc

from pullquote import errors
from pullquote._engine.highlighter import Highlighter
from pullquote.errors import InvalidTextError, InvalidTypeError
from pullquote.jobs._inputs import Chunk, InputFile, file_hash, read_chunks
from pullquote.jobs._job import Job
from pullquote.jobs._outputs import OutputWriter
from pullquote.jobs._records import FileRecord
from pullquote.jobs._store import OWN

__all__ = ["FileProgress", "OnProgress", "check_job", "run_files"]

# Chunks in the engine: the second one uses the devices that the first one leaves idle.
CONCURRENT_CALLS = 2
# Answers of the chunks of unfinished files.
PARTS = f"{OWN}/parts"


@dataclass(frozen=True, slots=True)
class FileProgress:
    """Rows and bytes done since the last report on a file; the last report has its `record`."""

    file: InputFile
    rows: int = 0
    bytes: int = 0
    record: FileRecord | None = None


OnProgress: TypeAlias = Callable[[FileProgress], None]


@dataclass(slots=True)
class _Step:
    """A chunk of a file, its number and its answer; or why the rest of the file cannot be read."""

    file: InputFile
    sha256: str
    number: int = 0
    chunk: Chunk | None = None
    answer: Future[pa.Table] | None = None
    failure: str = ""


def run_files(highlighter: Highlighter, job: Job, files: Iterable[InputFile], on_progress: OnProgress) -> None:
    """Process files in turn: write their outputs, then their records. Calls `on_progress` after each chunk and each file.

    A file that cannot be read gets a record with the reason, and no output. Raises errors that end the whole job, such as a full
    disk or a closed highlighter; the file in progress then leaves the answers of its chunks, and no output.
    """
    steps = _answer(highlighter, job, _prefetch(_read(files, job)))
    try:
        for file, file_steps in groupby(steps, key=lambda step: step.file):
            record = _write(job, file, file_steps, on_progress)
            job.store.remove_directory(f"{PARTS}/{file.name}")
            record.write(job.store)
            on_progress(FileProgress(file, record=record))
    except KeyboardInterrupt:
        # Without this, the threads would finish their calls first.
        highlighter.close()
        raise
    finally:
        steps.close()


def _write(job: Job, file: InputFile, steps: Iterator[_Step], on_progress: OnProgress) -> FileRecord:
    sha256, share = "", 0.0
    writer = OutputWriter(job.store, file, job.format, len(job.questions))
    try:
        with writer:
            for step in steps:
                sha256 = step.sha256
                if step.chunk is None or step.answer is None:
                    raise _UnreadableFileError(step.failure)
                try:
                    answer = step.answer.result()
                except InvalidTypeError as error:
                    raise _UnreadableFileError(_with_class(error)) from error
                writer.add(step.chunk, answer)
                increase, share = step.chunk.share - share, step.chunk.share
                rows = len(step.chunk.rows) + len(step.chunk.unreadable)
                on_progress(FileProgress(file, rows, round(increase * file.bytes)))
    except _UnreadableFileError as error:
        return FileRecord(file.name, file.url, file.bytes, file.version, sha256, failure=str(error))
    counts = (writer.rows, writer.answers, writer.passages, writer.errors)
    size = job.store.size(writer.name)
    return FileRecord(file.name, file.url, file.bytes, file.version, sha256, *counts, writer.name, size)


class _UnreadableFileError(Exception):
    """Why the rest of a file is skipped."""


def _read(files: Iterable[InputFile], job: Job) -> Iterator[_Step]:
    for file in files:
        sha256 = ""
        try:
            sha256 = file_hash(file)
            for number, chunk in enumerate(read_chunks(file, job.columns)):
                yield _Step(file, sha256, number, chunk)
        except (InvalidTextError, OSError) as error:
            yield _Step(file, sha256, failure=_with_class(error))


def _with_class(error: Exception) -> str:
    kinds = [kind.__name__ for kind in type(error).__mro__]
    return f"{next((kind for kind in kinds if kind in errors.__all__), kinds[0])}: {error}"


def _prefetch(steps: Iterator[_Step]) -> Iterator[_Step]:
    """The same steps, read one ahead."""
    with ThreadPoolExecutor(1, "pullquote-read") as thread:
        following = thread.submit(next, steps, None)
        while (step := following.result()) is not None:
            following = thread.submit(next, steps, None)
            yield step


def _answer(highlighter: Highlighter, job: Job, steps: Iterator[_Step]) -> Generator[_Step]:
    """The same steps, each with its answer in progress."""
    with ThreadPoolExecutor(CONCURRENT_CALLS, "pullquote-call") as calls:
        pending: deque[_Step] = deque()
        for step in steps:
            if step.chunk is not None:
                step.answer = calls.submit(_kept_highlights, highlighter, job, step, step.chunk)
            pending.append(step)
            if len(pending) > CONCURRENT_CALLS:
                yield pending.popleft()
        yield from pending


def check_job(highlighter: Highlighter, job: Job) -> None:
    """Raise the errors of `Highlighter.highlights_arrow` for the job's questions and options, before any file is read."""
    names = ["id", "text", *(name for name in ("query", "title") if getattr(job.columns, name))]
    _highlights(highlighter, job, pa.table({name: pa.array([], pa.string()) for name in names}))


def _kept_highlights(highlighter: Highlighter, job: Job, step: _Step, chunk: Chunk) -> pa.Table:
    """The answer of a chunk: that of an earlier run that was stopped, or a new one, which is kept."""
    # After the last chunk the file is done. Most files have one.
    if chunk.share == 1.0:
        return _highlights(highlighter, job, chunk.table)
    store, name = job.store, f"{PARTS}/{step.file.name}/{step.sha256}-{step.number}.arrow"
    if (kept := store.read(name)) is not None:
        return ipc.open_file(kept).read_all()
    answer = _highlights(highlighter, job, chunk.table)
    with store.open_for_writing(name) as file, ipc.new_file(file, answer.schema) as writer:
        writer.write_table(answer)
    return answer


def _highlights(highlighter: Highlighter, job: Job, table: pa.Table) -> pa.Table:
    title = "title" if job.columns.title else None
    query = list(job.questions) or "query"
    return pa.table(highlighter.highlights_arrow(table, "text", query, "id", title, **job.options))
