"""The input files of a job, and their rows in chunks, as Arrow's tables.

Chunks are bounded in size and depend only on the file, so every run reads the same ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, BinaryIO, cast

import fsspec
import pyarrow as pa
from fsspec.core import url_to_fs
from pyarrow import parquet

from pullquote.errors import InvalidArgumentError, InvalidTextError, NotFoundError

__all__ = ["Chunk", "Columns", "InputFile", "check_columns", "file_hash", "find_files", "read_chunks"]

PARQUET = (".parquet", ".pq")
LINES = (".jsonl", ".ndjson")
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}

# A chunk ends after the row that reaches one of these: a few seconds of CPU time.
CHUNK_BYTES = 4 * 1024 * 1024
CHUNK_ROWS = 4096
BLOCK_BYTES = 1024 * 1024
# Files that are read before a job begins, to find one with its columns.
CHECKED_FILES = 20


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file: its URL, its name relative to the input directory, its size, and a version that changes with it."""

    url: str
    name: str
    bytes: int
    version: str

    @property
    def is_parquet(self) -> bool:
        """Whether it is Parquet; otherwise it is JSON lines."""
        return self.name.endswith(PARQUET)

    @property
    def compression(self) -> str | None:
        """The compression of JSON lines, as pyarrow names it."""
        return COMPRESSIONS.get(PurePosixPath(self.name).suffix)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of the input. Without `id`, rows are numbered. Without `query`, each row has the job's questions."""

    text: str = "text"
    query: str | None = None
    id: str | None = None
    title: str | None = None

    def names(self) -> list[str]:
        """The columns to read."""
        return [name for name in (self.text, self.query, self.id, self.title) if name is not None]


@dataclass(slots=True)
class Chunk:
    """Neighbouring rows of a file.

    `table` has columns `id`, `text` and, if named, `query` and `title`; `rows` has the number of each of its rows in the file,
    from 0. `unreadable` has the number, id and error of each other row. `share` is the part of the file read so far.
    """

    table: pa.Table
    rows: list[int]
    unreadable: list[tuple[int, Any, str]] = field(default_factory=list)
    share: float = 0.0


def find_files(source: str) -> list[InputFile]:
    """The files of a directory at any depth, of a pattern, or of one URL; sorted by name.

    In a directory this skips files of unknown kinds, hidden ones, and those that begin with an underscore. Raises
    `NotFoundError` if there are no files, and `InvalidArgumentError` for a named file of an unknown kind.
    """
    system, path = url_to_fs(source)
    path = path.rstrip("/")
    if _is_pattern(path):
        found = system.glob(path, detail=True)
        root = path[: _first_magic(path)].rpartition("/")[0]
    elif system.isdir(path):
        found = {name: info for name, info in system.find(path, detail=True).items() if _is_visible(name, path)}
        root = path
    elif system.exists(path):
        found, root = {path: system.info(path)}, path.rpartition("/")[0]
    else:
        found, root = {}, path
    files = []
    for name, info in found.items():
        read = _followed(system, name, info)
        if read["type"] != "file":
            continue
        relative = name[len(root) :].lstrip("/")
        files.append(InputFile(system.unstrip_protocol(name), relative, read["size"], _version(read)))
    for file in files:
        if not _is_known(file.name):
            message = f"{file.url} is neither Parquet (.parquet) nor JSON lines (.jsonl, .jsonl.gz, .jsonl.zst)"
            raise InvalidArgumentError(message)
    if not files:
        message = f"no Parquet (.parquet) or JSON lines (.jsonl, .jsonl.gz, .jsonl.zst) at {source}"
        raise NotFoundError(message)
    return sorted(files, key=lambda file: file.name)


def _followed(system: fsspec.AbstractFileSystem, name: str, listed: dict[str, Any]) -> dict[str, Any]:
    """What a directory lists of a file; of a link, which has no type there, what it leads to."""
    if not listed.get("islink"):
        return listed
    try:
        return cast("dict[str, Any]", system.info(name))
    except FileNotFoundError:
        message = f"{name} is a link to {listed['destination']}, which is not there; remove it"
        raise NotFoundError(message) from None


class MissingColumnError(InvalidTextError):
    """A file does not have a column of the job."""


def check_columns(files: list[InputFile], columns: Columns) -> None:
    """Raise `InvalidTextError` if none of the first files has the columns. What else is wrong with files is found later."""
    wrong = None
    for file in files[:CHECKED_FILES]:
        try:
            next(read_chunks(file, columns), None)
        except MissingColumnError as error:
            wrong = wrong or error
        except (InvalidTextError, OSError):
            continue
        else:
            return
    if wrong is not None:
        raise wrong


def file_hash(file: InputFile) -> str:
    """The file's SHA-256 in hexadecimal."""
    whole = hashlib.sha256()
    with open_file(file) as source:
        while block := source.read(BLOCK_BYTES):
            whole.update(block)
    return whole.hexdigest()


def read_chunks(file: InputFile, columns: Columns) -> Iterator[Chunk]:
    """The rows of a file. Raises `InvalidTextError` if it cannot be read, or lacks a column."""
    try:
        with open_file(file) as source:
            yield from _parquet(source, file, columns) if file.is_parquet else _lines(source, file, columns)
    except (pa.ArrowException, EOFError) as error:
        message = f"{file.url} cannot be read: {error}"
        raise InvalidTextError(message) from error


def open_file(file: InputFile) -> BinaryIO:
    """Open the file for reading bytes."""
    source: BinaryIO = fsspec.open(file.url, "rb").open()
    return source


def _require(file: InputFile, columns: Columns, found: list[str]) -> None:
    """Raise `MissingColumnError` unless all columns are among those of the file."""
    if missing := [name for name in columns.names() if name not in found]:
        message = f"{file.url} has no column {missing[0]!r}; its columns are {', '.join(map(repr, found))}"
        raise MissingColumnError(message)


def _parquet(source: BinaryIO, input_file: InputFile, columns: Columns) -> Iterator[Chunk]:
    file = parquet.ParquetFile(source, buffer_size=BLOCK_BYTES, pre_buffer=False)
    _require(input_file, columns, file.schema_arrow.names)
    first, total = 0, file.metadata.num_rows
    for batch in file.iter_batches(_rows_at_once(file.metadata, columns), columns=columns.names(), use_threads=False):
        read = pa.Table.from_batches([batch])
        rows = list(range(first, first + len(read)))
        ids = pa.array(rows, pa.int64()) if columns.id is None else read[columns.id]
        table = {"id": ids, "text": read[columns.text]}
        table |= {name: read[column] for name, column in _query_columns(columns)}
        first += len(read)
        yield Chunk(pa.table(table), rows, share=first / total)
    if total == 0:
        # An empty chunk gives the output its columns.
        yield Chunk(pa.table({name: pa.array([], pa.large_string()) for name in _names(columns)}), [], share=1.0)


def _rows_at_once(metadata: parquet.FileMetaData, columns: Columns) -> int:
    """Average rows of a chunk of this file."""
    size, rows = 0, int(metadata.num_rows)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for index in range(group.num_columns):
            column = group.column(index)
            size += column.total_uncompressed_size if column.path_in_schema == columns.text else 0
    return max(1, min(CHUNK_ROWS, CHUNK_BYTES * rows // max(size, 1)))


def _lines(source: BinaryIO, file: InputFile, columns: Columns) -> Iterator[Chunk]:
    names = _names(columns)
    read: dict[str, list[str | None]] = {name: [] for name in names}
    rows: list[int] = []
    unreadable: list[tuple[int, Any, str]] = []
    size = 0
    # The columns of the first chunk's objects: later rows may lack one, which is an error of theirs.
    found: dict[str, None] | None = {}

    def chunk(share: float) -> Chunk:
        # Ids are JSON, since they may be of any type; `_outputs` parses them.
        table = pa.table({name: pa.array(read[name], pa.large_string()) for name in names})
        return Chunk(table, rows, unreadable, share)

    for row, (line, share) in enumerate(_split(source, file)):
        size += len(line)
        try:
            value = _object(line, row)
            if found is not None:
                found |= dict.fromkeys(value)
            cells = _cells(value, row, columns)
        except _UnreadableLineError as error:
            unreadable.append((row, error.id, str(error)))
        else:
            rows.append(row)
            for name in names:
                read[name].append(cells[name])
        if size >= CHUNK_BYTES or len(rows) + len(unreadable) >= CHUNK_ROWS:
            if found:
                _require(file, columns, list(found))
            found = None
            yield chunk(share)
            read, rows, unreadable, size = {name: [] for name in names}, [], [], 0
    if found:
        _require(file, columns, list(found))
    # An empty chunk gives an output without rows its columns.
    yield chunk(1.0)


def _split(source: BinaryIO, file: InputFile) -> Iterator[tuple[bytes, float]]:
    """Lines that are not empty, each with the part of the file read so far, in its compressed bytes."""
    compressed = file.compression is not None
    stream = pa.input_stream(pa.PythonFile(source, "r"), compression=file.compression) if compressed else source
    rest: list[bytes] = []
    while block := stream.read(BLOCK_BYTES):
        share = source.tell() / max(file.bytes, 1)
        first, *others = block.split(b"\n")
        rest.append(first)
        if others:
            lines, rest = [b"".join(rest), *others[:-1]], others[-1:]
            yield from ((line, share) for line in lines if line.strip())
    if (last := b"".join(rest)).strip():
        yield last, 1.0


class _UnreadableLineError(ValueError):
    """A line that is not a row, and its id, if known."""

    def __init__(self, message: str, row_id: object) -> None:
        super().__init__(message)
        self.id = row_id


def _object(line: bytes, row: int) -> dict[str, Any]:
    try:
        # The first line may begin with a byte order mark.
        value = json.loads(line.removeprefix(b"\xef\xbb\xbf") if row == 0 else line)
    except (ValueError, RecursionError) as error:
        message = f"the line is not JSON: {error}"
        raise _UnreadableLineError(message, None) from None
    if not isinstance(value, dict):
        message = f"the line is not an object, but {type(value).__name__}"
        raise _UnreadableLineError(message, None)
    return value


def _cells(value: dict[str, Any], row: int, columns: Columns) -> dict[str, str | None]:
    row_id = row if columns.id is None else value.get(columns.id)
    cells: dict[str, str | None] = {"id": json.dumps(row_id)}
    for name, column in (("text", columns.text), *_query_columns(columns)):
        cell = value.get(column)
        if cell is not None and not isinstance(cell, str):
            message = f"{column} must be a string, not {type(cell).__name__}"
            raise _UnreadableLineError(message, row_id)
        if cell is not None and not cell.isascii() and any("\ud800" <= character <= "\udfff" for character in cell):
            message = f"{column} has a lone surrogate, which no Unicode text can hold"
            raise _UnreadableLineError(message, row_id)
        cells[name] = cell
    return cells


def _names(columns: Columns) -> list[str]:
    return ["id", "text", *(name for name, _ in _query_columns(columns))]


def _query_columns(columns: Columns) -> list[tuple[str, str]]:
    """The names of the query and title columns, in chunks and in the input."""
    return [
        (name, column) for name, column in (("query", columns.query), ("title", columns.title)) if column is not None
    ]


def _is_pattern(path: str) -> bool:
    return _first_magic(path) < len(path)


def _first_magic(path: str) -> int:
    return min((index for index in map(path.find, "*?[") if index >= 0), default=len(path))


def _is_visible(name: str, root: str) -> bool:
    parts = PurePosixPath(name[len(root) :].lstrip("/")).parts
    return _is_known(name) and not any(part.startswith((".", "_")) for part in parts)


def _is_known(name: str) -> bool:
    for compression in COMPRESSIONS:
        if name.endswith(compression):
            return name.removesuffix(compression).endswith(LINES)
    return name.endswith((*PARQUET, *LINES))


def _version(info: dict[str, Any]) -> str:
    """What the store reports about a file's last change, or nothing."""
    return str(next((info[name] for name in ("ETag", "etag", "mtime", "LastModified", "updated") if name in info), ""))
