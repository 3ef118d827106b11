"""The files of a job: which there are, and their rows in chunks, as Arrow's batches.

What is read at a time is bounded, and depends on nothing but the file: chunks are the same whenever it is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, BinaryIO

import fsspec
import pyarrow as pa
from fsspec.core import url_to_fs
from pyarrow import parquet

from pullquote.errors import InvalidArgumentError, InvalidTextError

__all__ = ["Chunk", "Columns", "InputFile", "chunks", "digest", "find"]

PARQUET = (".parquet", ".pq")
LINES = (".jsonl", ".ndjson")
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}

# A chunk ends behind the row with which it has so many bytes of text, or rows: some seconds of a core's work.
CHUNK_BYTES = 4 * 1024 * 1024
CHUNK_ROWS = 4096
BLOCK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file: where it is, what it is called below the input's directory, and what changes when it does."""

    url: str
    name: str
    bytes: int
    version: str

    @property
    def is_parquet(self) -> bool:
        """Whether it is Parquet, and not JSON lines."""
        return self.name.endswith(PARQUET)

    @property
    def compression(self) -> str | None:
        """What JSON lines are compressed with, as pyarrow calls it."""
        return COMPRESSIONS.get(PurePosixPath(self.name).suffix)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of the input. Without an id, rows are numbered; without queries, all are asked the job's questions."""

    text: str = "text"
    query: str | None = None
    id: str | None = None
    title: str | None = None

    def named(self) -> list[str]:
        """Those that are read."""
        return [name for name in (self.text, self.query, self.id, self.title) if name is not None]


@dataclass(slots=True)
class Chunk:
    """Neighbouring rows of a file.

    `table` has columns `id`, `text` and, where the input has them, `query` and `title`. `rows` are their numbers in the file,
    from 0. `wrong` are rows that could not even be read, with their id and why. `share` is how much of the file was read with
    them.
    """

    table: pa.Table
    rows: list[int]
    wrong: list[tuple[int, Any, str]] = field(default_factory=list)
    share: float = 0.0


def find(source: str) -> list[InputFile]:
    """The files that a directory holds at any depth, or a pattern or a name means; in the order of their names.

    Of a directory those of a known kind count, without what is hidden or begins with an underscore. Raises
    `InvalidArgumentError` where there are none, and for a file of another kind that was named.
    """
    system, path = url_to_fs(source)
    path = path.rstrip("/")
    if _is_pattern(path):
        named = system.glob(path, detail=True)
        root = path[: _first_magic(path)].rpartition("/")[0]
    elif system.isdir(path):
        named = {name: info for name, info in system.find(path, detail=True).items() if _is_shown(name, path)}
        root = path
    elif system.exists(path):
        named, root = {path: system.info(path)}, path.rpartition("/")[0]
    else:
        named, root = {}, path
    files = []
    for name, info in named.items():
        if info["type"] != "file":
            continue
        relative = name[len(root) :].lstrip("/")
        files.append(InputFile(system.unstrip_protocol(name), relative, info["size"], _version(info)))
    for file in files:
        if not _is_known(file.name):
            message = f"{file.url} is neither Parquet (.parquet) nor JSON lines (.jsonl, .jsonl.gz, .jsonl.zst)"
            raise InvalidArgumentError(message)
    if not files:
        message = f"there are no files of Parquet (.parquet) or JSON lines (.jsonl, .jsonl.gz, .jsonl.zst) at {source}"
        raise InvalidArgumentError(message)
    return sorted(files, key=lambda file: file.name)


def digest(file: InputFile) -> str:
    """The file's SHA-256, in hexadecimal."""
    whole = hashlib.sha256()
    with opened(file) as source:
        while block := source.read(BLOCK_BYTES):
            whole.update(block)
    return whole.hexdigest()


def chunks(file: InputFile, columns: Columns) -> Iterator[Chunk]:
    """The rows of a file. Raises `InvalidTextError` where it cannot be read, naming it."""
    try:
        with opened(file) as source:
            yield from _parquet(source, columns) if file.is_parquet else _lines(source, file, columns)
    except (pa.ArrowException, EOFError) as error:
        message = f"{file.url} cannot be read: {error}"
        raise InvalidTextError(message) from error


def opened(file: InputFile) -> BinaryIO:
    """The file's bytes."""
    found: BinaryIO = fsspec.open(file.url, "rb").open()
    return found


def _parquet(source: BinaryIO, columns: Columns) -> Iterator[Chunk]:
    file = parquet.ParquetFile(source, buffer_size=BLOCK_BYTES, pre_buffer=False)
    missing = [name for name in columns.named() if name not in file.schema_arrow.names]
    if missing:
        message = f"there is no column {missing[0]!r}, but {file.schema_arrow.names}"
        raise pa.ArrowInvalid(message)
    first, total = 0, file.metadata.num_rows
    for batch in file.iter_batches(_rows_at_once(file.metadata, columns), columns=columns.named(), use_threads=False):
        read = pa.Table.from_batches([batch])
        rows = list(range(first, first + len(read)))
        ids = pa.array(rows, pa.int64()) if columns.id is None else read[columns.id]
        table = {"id": ids, "text": read[columns.text]}
        table |= {name: read[column] for name, column in _asked(columns)}
        first += len(read)
        yield Chunk(pa.table(table), rows, share=first / total)
    if total == 0:
        # Its output has no rows either, but columns.
        yield Chunk(pa.table({name: pa.array([], pa.large_string()) for name in _names(columns)}), [], share=1.0)


def _rows_at_once(metadata: parquet.FileMetaData, columns: Columns) -> int:
    """So many rows as a chunk has in this file, on average."""
    size, rows = 0, int(metadata.num_rows)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for place in range(group.num_columns):
            column = group.column(place)
            size += column.total_uncompressed_size if column.path_in_schema == columns.text else 0
    return max(1, min(CHUNK_ROWS, CHUNK_BYTES * rows // max(size, 1)))


def _lines(source: BinaryIO, file: InputFile, columns: Columns) -> Iterator[Chunk]:
    names = _names(columns)
    read: dict[str, list[str | None]] = {name: [] for name in names}
    rows: list[int] = []
    wrong: list[tuple[int, Any, str]] = []
    size = 0

    def chunk(share: float) -> Chunk:
        # Ids of any kind in one column: `outputs` reads them back.
        return Chunk(pa.table({name: pa.array(read[name], pa.large_string()) for name in names}), rows, wrong, share)

    for row, (line, share) in enumerate(_split(source, file)):
        size += len(line)
        try:
            cells = _cells(line, row, columns)
        except _WrongLineError as error:
            wrong.append((row, error.id, str(error)))
        else:
            rows.append(row)
            for name in names:
                read[name].append(cells[name])
        if size >= CHUNK_BYTES or len(rows) + len(wrong) >= CHUNK_ROWS:
            yield chunk(share)
            read, rows, wrong, size = {name: [] for name in names}, [], [], 0
    # The last one may be empty: an output of no rows has columns.
    yield chunk(1.0)


def _split(source: BinaryIO, file: InputFile) -> Iterator[tuple[bytes, float]]:
    """Lines that are not empty, and how much of the file was read with each."""
    # Where the file itself is read to, whatever that unpacks to.
    compressed = file.compression is not None
    stream = pa.input_stream(pa.PythonFile(source, "r"), compression=file.compression) if compressed else source
    left: list[bytes] = []
    while block := stream.read(BLOCK_BYTES):
        share = source.tell() / max(file.bytes, 1)
        first, *others = block.split(b"\n")
        left.append(first)
        if others:
            lines, left = [b"".join(left), *others[:-1]], others[-1:]
            yield from ((line, share) for line in lines if line.strip())
    if (last := b"".join(left)).strip():
        yield last, 1.0


class _WrongLineError(ValueError):
    """Why a line is no row, and its id, where that can be said."""

    def __init__(self, message: str, known: object) -> None:
        super().__init__(message)
        self.id = known


def _cells(line: bytes, row: int, columns: Columns) -> dict[str, str | None]:
    try:
        # A byte order mark may stand before the first line.
        value = json.loads(line.removeprefix(b"\xef\xbb\xbf") if row == 0 else line)
    except (ValueError, RecursionError) as error:
        message = f"the line is not JSON: {error}"
        raise _WrongLineError(message, None) from None
    if not isinstance(value, dict):
        message = f"the line is not an object, but {type(value).__name__}"
        raise _WrongLineError(message, None)
    known = row if columns.id is None else value.get(columns.id)
    cells: dict[str, str | None] = {"id": json.dumps(known)}
    for name, column in (("text", columns.text), *_asked(columns)):
        cell = value.get(column)
        if cell is not None and not isinstance(cell, str):
            message = f"{column} must be a string, not {type(cell).__name__}"
            raise _WrongLineError(message, known)
        if cell is not None and not cell.isascii() and any("\ud800" <= character <= "\udfff" for character in cell):
            message = f"{column} has a lone surrogate, which no Unicode text can hold"
            raise _WrongLineError(message, known)
        cells[name] = cell
    return cells


def _names(columns: Columns) -> list[str]:
    return ["id", "text", *(name for name, _ in _asked(columns))]


def _asked(columns: Columns) -> list[tuple[str, str]]:
    """What a row is asked, where the input says so: what it is called here, and there."""
    return [
        (name, column) for name, column in (("query", columns.query), ("title", columns.title)) if column is not None
    ]


def _is_pattern(path: str) -> bool:
    return _first_magic(path) < len(path)


def _first_magic(path: str) -> int:
    return min((place for place in map(path.find, "*?[") if place >= 0), default=len(path))


def _is_shown(name: str, root: str) -> bool:
    parts = PurePosixPath(name[len(root) :].lstrip("/")).parts
    return _is_known(name) and not any(part.startswith((".", "_")) for part in parts)


def _is_known(name: str) -> bool:
    for compression in COMPRESSIONS:
        if name.endswith(compression):
            return name.removesuffix(compression).endswith(LINES)
    return name.endswith((*PARQUET, *LINES))


def _version(info: dict[str, Any]) -> str:
    """What stores say of when a file changed; nothing where they do not."""
    return str(next((info[name] for name in ("ETag", "etag", "mtime", "LastModified", "updated") if name in info), ""))
