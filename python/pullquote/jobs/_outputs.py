"""What is written of a file of pages: one file of passages, and one of rows that could not be done, where there are any."""

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
from pullquote.jobs._store import Place

__all__ = ["OutputFormat", "Written", "errors_name", "output_name"]

OutputFormat = Literal["same", "parquet", "jsonl"]
ERRORS = "_errors"


def output_name(file: InputFile, form: OutputFormat) -> str:
    """What the output of a file is called: as the file, and with a further ending where the format is another."""
    if form == "same" or file.is_parquet == (form == "parquet"):
        return file.name
    return f"{file.name}.{form}"


def errors_name(file: InputFile) -> str:
    """What the file of its errors is called."""
    return f"{ERRORS}/{file.name}.jsonl"


class _Sink(Protocol):
    def write(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


class Written:
    """The outputs of one file, which take their places when the block ends, and leave nothing where it fails."""

    def __init__(self, place: Place, file: InputFile, form: OutputFormat, questions: int) -> None:
        """Name them; `questions` is how many answers each row has."""
        self._place, self._file = place, file
        self.name = output_name(file, form)
        # Ids of JSON lines are of any kind, and written as JSON until here.
        self._read_id: Callable[[Any], Any] = (lambda known: known) if file.is_parquet else json.loads
        self._questions = max(questions, 1)
        self._open = ExitStack()
        self._sink: _Sink | None = None
        self._errors: BinaryIO | None = None
        self.rows = self.answers = self.passages = self.errors = 0

    def add(self, chunk: Chunk, found: pa.Table) -> None:
        """Write what was found for a chunk's rows, or why nothing was, in the order of the rows."""
        self.rows += len(chunk.rows) + len(chunk.wrong)
        wrong = [{"row": row, "id": known, "error": f"InvalidTextError: {why}"} for row, known, why in chunk.wrong]
        if found["error"].null_count < len(found):
            failed = pc.indices_nonzero(pc.is_valid(found["error"])).to_pylist()
            told = found.take(failed).select(["id", "query", "error"]).to_pylist()
            for place, row in zip(failed, told, strict=True):
                wrong.append({"row": chunk.rows[place // self._questions], **row, "id": self._read_id(row["id"])})
            found = found.filter(pc.is_null(found["error"]))
        self._write_errors(sorted(wrong, key=lambda row: row["row"]))
        self.answers += len(found)
        self.passages += pc.sum(pc.list_value_length(found["highlights"])).as_py() or 0
        found = found.drop_columns("error")
        if self._sink is None:
            self._sink = self._make_sink(found.schema)
        self._sink.write(found)

    def _make_sink(self, schema: pa.Schema) -> _Sink:
        file = self._open.enter_context(self._place.writing(self.name))
        if self.name.endswith(PARQUET):
            return _Parquet(file, schema, None if self._file.is_parquet else self._read_id)
        return _Lines(file, COMPRESSIONS.get(PurePosixPath(self.name).suffix), self._read_id)

    def _write_errors(self, rows: Sequence[dict[str, Any]]) -> None:
        for row in rows:
            if self._errors is None:
                self._errors = self._open.enter_context(self._place.writing(errors_name(self._file)))
            self._errors.write(_line(row))
        self.errors += len(rows)

    def __enter__(self) -> Written:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._sink is not None:
            # What failed closes its file too, which then may fail as well, and goes either way.
            with nullcontext() if kind is None else suppress(Exception):
                self._sink.close()
        if kind is None and self._errors is None:
            # Of an earlier time, when the file was another one.
            self._place.remove(errors_name(self._file))
        self._open.__exit__(kind, error, traceback)


class _Parquet:
    """Parquet, a row group for each chunk."""

    def __init__(self, file: BinaryIO, schema: pa.Schema, read_id: Callable[[Any], Any] | None) -> None:
        self._read_id = read_id
        self._writer = parquet.ParquetWriter(file, schema, compression="zstd")

    def write(self, table: pa.Table) -> None:
        if self._read_id is not None:
            known = map(self._read_id, table["id"].to_pylist())
            ids = [value if isinstance(value, str) else json.dumps(value) for value in known]
            table = table.set_column(0, table.schema.field(0), pa.array(ids, pa.large_string()))
        self._writer.write_table(table)

    def close(self) -> None:
        self._writer.close()


class _Lines:
    """JSON lines, an object for each query and page; compressed chunk by chunk, as both formats allow."""

    def __init__(self, file: BinaryIO, compression: str | None, read_id: Callable[[Any], Any]) -> None:
        self._file, self._compression, self._read_id = file, compression, read_id

    def write(self, table: pa.Table) -> None:
        lines = b"".join(_line({**row, "id": self._read_id(row["id"])}) for row in table.to_pylist())
        if self._compression == "gzip":
            # Without the time, so that the same lines are the same bytes.
            lines = gzip.compress(lines, mtime=0)
        elif self._compression is not None:
            lines = pa.compress(lines, self._compression, asbytes=True)
        self._file.write(lines)

    def close(self) -> None:
        """All is written."""


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False, default=str).encode() + b"\n"
