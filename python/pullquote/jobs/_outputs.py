"""The outputs of an input file: a file of passages, and a file of errors if rows failed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from pathlib import PurePosixPath
from types import TracebackType
from typing import Any, BinaryIO, Literal, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from pullquote.jobs._inputs import COMPRESSIONS, PARQUET, Chunk, InputFile
from pullquote.jobs._store import OutputStore

__all__ = ["OutputFormat", "OutputWriter", "errors_name", "output_name"]

OutputFormat = Literal["same", "parquet", "jsonl"]
ERRORS = "_errors"


def output_name(file: InputFile, output_format: OutputFormat) -> str:
    """The name of a file's output: that of the file, with an additional suffix if the format differs."""
    if output_format == "same" or file.is_parquet == (output_format == "parquet"):
        return file.name
    return f"{file.name}.{output_format}"


def errors_name(file: InputFile) -> str:
    """The name of a file's errors."""
    return f"{ERRORS}/{file.name}.jsonl"


class _Sink(Protocol):
    def write(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


class OutputWriter:
    """Writes the outputs of one file, which appear when the block ends, and not at all if the block fails."""

    def __init__(self, store: OutputStore, file: InputFile, output_format: OutputFormat, questions: int) -> None:
        """Name the outputs; `questions` is the number of answers of each row."""
        self._store, self._file = store, file
        self.name = output_name(file, output_format)
        # Chunks of JSON lines have their ids as JSON.
        self._read_id: Callable[[Any], Any] = (lambda row_id: row_id) if file.is_parquet else json.loads
        self._questions = max(questions, 1)
        self._open = ExitStack()
        self._sink: _Sink | None = None
        self._errors: BinaryIO | None = None
        self.rows = self.answers = self.passages = self.errors = 0

    def add(self, chunk: Chunk, found: pa.Table) -> None:
        """Write the answers and errors of a chunk, in the order of its rows."""
        self.rows += len(chunk.rows) + len(chunk.unreadable)
        errors = [
            {"row": row, "id": row_id, "error": f"InvalidTextError: {error}"} for row, row_id, error in chunk.unreadable
        ]
        if found["error"].null_count < len(found):
            failed = pc.indices_nonzero(pc.is_valid(found["error"])).to_pylist()
            rows = found.take(failed).select(["id", "query", "error"]).to_pylist()
            for index, row in zip(failed, rows, strict=True):
                errors.append({"row": chunk.rows[index // self._questions], **row, "id": self._read_id(row["id"])})
            found = found.filter(pc.is_null(found["error"]))
        self._write_errors(sorted(errors, key=lambda row: row["row"]))
        self.answers += len(found)
        self.passages += pc.sum(pc.list_value_length(found["highlights"])).as_py() or 0
        found = found.drop_columns("error")
        if self._sink is None:
            self._sink = self._make_sink(found.schema)
        self._sink.write(found)

    def _make_sink(self, schema: pa.Schema) -> _Sink:
        file = self._open.enter_context(self._store.open_for_writing(self.name))
        if self.name.endswith(PARQUET):
            return _Parquet(file, schema, None if self._file.is_parquet else self._read_id)
        return _Lines(file, COMPRESSIONS.get(PurePosixPath(self.name).suffix), self._read_id)

    def _write_errors(self, rows: Sequence[dict[str, Any]]) -> None:
        for row in rows:
            if self._errors is None:
                self._errors = self._open.enter_context(self._store.open_for_writing(errors_name(self._file)))
            self._errors.write(_line(row))
        self.errors += len(rows)

    def __enter__(self) -> OutputWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._sink is not None:
            # After a failure, closing may fail too; the file is dropped either way.
            with nullcontext() if kind is None else suppress(Exception):
                self._sink.close()
        if kind is None and self._errors is None:
            # Of an earlier version of the file.
            self._store.remove(errors_name(self._file))
        self._open.__exit__(kind, error, traceback)


class _Parquet:
    """Writes Parquet, a row group for each chunk."""

    def __init__(self, file: BinaryIO, schema: pa.Schema, read_id: Callable[[Any], Any] | None) -> None:
        self._read_id = read_id
        self._writer = parquet.ParquetWriter(file, schema, compression="zstd")

    def write(self, table: pa.Table) -> None:
        if self._read_id is not None:
            values = map(self._read_id, table["id"].to_pylist())
            ids = [value if isinstance(value, str) else json.dumps(value) for value in values]
            table = table.set_column(0, table.schema.field(0), pa.array(ids, pa.large_string()))
        self._writer.write_table(table)

    def close(self) -> None:
        self._writer.close()


class _Lines:
    """Writes JSON lines, an object for each query and page; compresses each chunk on its own, as both formats allow."""

    def __init__(self, file: BinaryIO, compression: str | None, read_id: Callable[[Any], Any]) -> None:
        self._file, self._compression, self._read_id = file, compression, read_id

    def write(self, table: pa.Table) -> None:
        lines = b"".join(_line({**row, "id": self._read_id(row["id"])}) for row in table.to_pylist())
        if self._compression == "gzip":
            # Without a time stamp, so equal lines have equal bytes.
            lines = gzip.compress(lines, mtime=0)
        elif self._compression is not None:
            lines = pa.compress(lines, self._compression, asbytes=True)
        self._file.write(lines)

    def close(self) -> None:
        """Nothing is buffered."""


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False, default=str).encode() + b"\n"
