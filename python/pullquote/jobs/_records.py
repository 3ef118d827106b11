"""The job's own files: its settings, its input files, and a record of each file that is done.

`job.json` identifies the job, `files.json` lists the files of the last run, and `files/` has a record for each file. A record is
written after the file's outputs; then the file is done. Records have no order and no times, so every process writes the same ones.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from pullquote.errors import InvalidArgumentError, NotFoundError
from pullquote.jobs._inputs import InputFile, file_hash
from pullquote.jobs._outputs import output_name
from pullquote.jobs._store import OWN, OutputStore

__all__ = ["FileRecord", "JobStatus", "finished_record", "job_status", "start_job", "unfinished_files"]

SETTINGS = f"{OWN}/job.json"
FILES = f"{OWN}/files.json"
RECORDS = f"{OWN}/files"


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The result of a file.

    `version`, `bytes` and `sha256` identify its content. `answers` counts rows of the output, one for each row and question;
    `errors` counts rows of the errors file. `failure` is why the file could not be read; then it has no output, and the next run
    tries it again.
    """

    name: str
    url: str
    bytes: int
    version: str
    sha256: str
    rows: int = 0
    answers: int = 0
    passages: int = 0
    errors: int = 0
    output: str | None = None
    output_bytes: int | None = None
    failure: str | None = None

    def write(self, store: OutputStore) -> None:
        """Write the record, which makes the file done."""
        with store.open_for_writing(_record_name(self.name)) as file:
            file.write(_json(asdict(self)))


@dataclass(frozen=True, slots=True)
class JobStatus:
    """How far a job is: all files and bytes of the input, those that are done, and counts of rows."""

    files: int
    bytes: int
    files_done: int
    bytes_done: int
    rows: int
    answers: int
    passages: int
    errors: int
    failed: dict[str, str]
    is_running: bool


def start_job(store: OutputStore, settings: dict[str, Any], files: list[InputFile]) -> None:
    """Start or continue a job in a directory, once it is locked; see `check_directory`."""
    check_directory(store, settings, files)
    if store.read(SETTINGS) is None:
        with store.open_for_writing(SETTINGS) as file:
            file.write(_json(settings))
    with store.open_for_writing(FILES) as file:
        file.write(_json({"files": {each.name: each.bytes for each in files}}))


def check_directory(store: OutputStore, settings: dict[str, Any], files: list[InputFile]) -> None:
    """Raise `InvalidArgumentError` if a directory has another job, or others' files."""
    known = store.read(SETTINGS)
    if known is None:
        for name in (output_name(each, settings["format"]) for each in files):
            if store.size(name) is not None:
                message = f"{store.url} has a file {name} that no job wrote; name another directory for the output"
                raise InvalidArgumentError(message)
    else:
        # JSON changes some types, so compare JSON with JSON.
        before, now = json.loads(known), json.loads(_json(settings))
        if changed := differences(before, now):
            message = (
                f"{store.url} has the outputs of a job with other options: {'; '.join(changed)}. "
                "Continue with the same options, or name another directory"
            )
            raise InvalidArgumentError(message)


def differences(before: dict[str, Any], now: dict[str, Any], within: str = "") -> list[str]:
    """Each setting that differs, as ``top_k: 3 before, 5 now``."""
    changed = []
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            changed += differences(old, new, "" if name == "options" else f"{within}{name}.")
        elif old != new:
            shown = (json.dumps(value, ensure_ascii=False) for value in (old, new))
            changed.append(f"{within}{name}: {' before, '.join(shown)} now")
    return changed


def unfinished_files(store: OutputStore, files: list[InputFile]) -> list[InputFile]:
    """The files that are not done, or have changed since."""
    return [file for file in files if finished_record(store, file) is None]


def finished_record(store: OutputStore, file: InputFile) -> FileRecord | None:
    """The record of a file, or `None` if it is not done or has changed since."""
    record = _record(store, file.name)
    return record if record is not None and _is_done(record, file, store) else None


def job_status(store: OutputStore) -> JobStatus:
    """The status of the job in a directory. Raises `NotFoundError` if there is none."""
    listed = store.read(FILES)
    if listed is None:
        message = f"there is no job in {store.url}"
        raise NotFoundError(message)
    files: dict[str, int] = json.loads(listed)["files"]
    records = [record for name in files if (record := _record(store, name))]
    done = [record for record in records if record.failure is None]
    return JobStatus(
        files=len(files),
        bytes=sum(files.values()),
        files_done=len(done),
        bytes_done=sum(record.bytes for record in done),
        rows=sum(record.rows for record in done),
        answers=sum(record.answers for record in done),
        passages=sum(record.passages for record in done),
        errors=sum(record.errors for record in done),
        failed={record.name: record.failure for record in records if record.failure is not None},
        is_running=store.is_locked(),
    )


def _record(store: OutputStore, name: str) -> FileRecord | None:
    record = store.read(_record_name(name))
    return None if record is None else FileRecord(**json.loads(record))


def _is_done(record: FileRecord, file: InputFile, store: OutputStore) -> bool:
    if record.output is None or store.size(record.output) != record.output_bytes:
        return False
    if record.bytes != file.bytes:
        return False
    return (record.version == file.version != "") or record.sha256 == file_hash(file)


def _record_name(name: str) -> str:
    return f"{RECORDS}/{name}.json"


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True).encode() + b"\n"
