"""What a job remembers beside its outputs: what it was asked, which files there are, and what became of each.

`job.json` is what makes two runs the same job, `files.json` which files the last run found, and `files/` has a record for
each file, which is written when its outputs have taken their places: with it the file is done. Records are of no order and
have no time in them, so that whoever did a file may write its record, and the same work leaves the same bytes.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from pullquote.errors import InvalidArgumentError, NotFoundError
from pullquote.jobs._inputs import InputFile, digest
from pullquote.jobs._store import OWN, Place

__all__ = ["Record", "Status", "left", "recorded", "settle", "status"]

SETTINGS = f"{OWN}/job.json"
FILES = f"{OWN}/files.json"
RECORDS = f"{OWN}/files"


@dataclass(frozen=True, slots=True)
class Record:
    """What became of a file.

    `version` and `bytes` are how it is known again, and `sha256` where they have changed. `answers` are rows of the output, one
    for each row and question, `errors` rows of the errors file. `failure` is why the file could not be read as a whole; then
    it has no output, and the next run tries it again.
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

    def write(self, place: Place) -> None:
        """Make it so that the file is done."""
        with place.writing(_record_name(self.name)) as file:
            file.write(_json(asdict(self)))


@dataclass(frozen=True, slots=True)
class Status:
    """How far a job is: `files` and `bytes` of its input, those that are done, rows and what became of them."""

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


def settle(place: Place, settings: dict[str, Any], files: list[InputFile]) -> None:
    """Begin a job in a directory, or go on with it. Raises `InvalidArgumentError` where another one is there."""
    known = place.read(SETTINGS)
    if known is None:
        with place.writing(SETTINGS) as file:
            file.write(_json(settings))
    else:
        # As JSON gives it back.
        before, now = json.loads(known), json.loads(_json(settings))
        other = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        if other:
            name = other[0]
            message = (
                f"{place.url} has the outputs of a job with {name}={before.get(name)!r}, not {now.get(name)!r}; "
                "go on with the same options, or name another directory"
            )
            raise InvalidArgumentError(message)
    with place.writing(FILES) as file:
        file.write(_json({"files": {found.name: found.bytes for found in files}}))


def left(place: Place, files: list[InputFile]) -> list[InputFile]:
    """The files that are not done, or have changed since."""
    return [file for file in files if recorded(place, file) is None]


def recorded(place: Place, file: InputFile) -> Record | None:
    """The record of a file that is done; `None` where it is not, or has changed since."""
    record = _record(place, file.name)
    return record if record is not None and _is_done(record, file, place) else None


def status(place: Place) -> Status:
    """How far the job in a directory is. Raises `NotFoundError` where there is none."""
    found = place.read(FILES)
    if found is None:
        message = f"there is no job in {place.url}"
        raise NotFoundError(message)
    files: dict[str, int] = json.loads(found)["files"]
    records = [record for name in files if (record := _record(place, name))]
    done = [record for record in records if record.failure is None]
    return Status(
        files=len(files),
        bytes=sum(files.values()),
        files_done=len(done),
        bytes_done=sum(record.bytes for record in done),
        rows=sum(record.rows for record in done),
        answers=sum(record.answers for record in done),
        passages=sum(record.passages for record in done),
        errors=sum(record.errors for record in done),
        failed={record.name: record.failure for record in records if record.failure is not None},
        is_running=place.is_held(),
    )


def _record(place: Place, name: str) -> Record | None:
    known = place.read(_record_name(name))
    return None if known is None else Record(**json.loads(known))


def _is_done(record: Record, file: InputFile, place: Place) -> bool:
    if record.output is None or place.size(record.output) != record.output_bytes:
        return False
    if record.bytes != file.bytes:
        return False
    return (record.version == file.version != "") or record.sha256 == digest(file)


def _record_name(name: str) -> str:
    return f"{RECORDS}/{name}.json"


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True).encode() + b"\n"
