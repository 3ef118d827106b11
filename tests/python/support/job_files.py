"""Inputs of jobs, and what a job wrote."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from pullquote import _cli

QUESTIONS = ["How far is the moon?", "bread"]

Files = dict[str, bytes]


def pages(count: int, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    words = ["moon", "bread", "Katze", "sea", "far", "日本", "is", "the"]

    def text() -> str:
        return " ".join(f"{' '.join(rng.choices(words, k=6)).capitalize()}." for _ in range(rng.randrange(1, 12)))

    return [{"id": f"{seed}-{number}", "text": text(), "other": number} for number in range(count)]


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def write_input(folder: Path, rows: int) -> None:
    """All kinds of files, some rows of which cannot be done."""
    (folder / "deep" / "deeper").mkdir(parents=True)
    table = pa.Table.from_pylist([*pages(rows, 1), {"id": "null", "text": None, "other": 0}])
    parquet.write_table(table, folder / "a.parquet", row_group_size=max(rows // 3, 1))
    (folder / "deep" / "b.jsonl").write_bytes(
        lines(pages(rows, 2)) + b'\n{"id": "cut", "text": \n[1]\n{"id": 7, "text": 7}\n' + lines(pages(3, 3))
    )
    (folder / "deep" / "deeper" / "c.jsonl.gz").write_bytes(gzip.compress(lines(pages(rows, 4))))
    (folder / "d.ndjson.zst").write_bytes(pa.compress(lines(pages(rows, 5)), "zstd", asbytes=True))
    (folder / "empty.jsonl").write_bytes(b"")
    (folder / "notes.txt").write_text("not of a known kind")
    (folder / "_hidden.jsonl").write_bytes(lines(pages(1, 6)))


def run(*arguments: object) -> int:
    return _cli.main(command(*arguments))


def command(*arguments: object) -> list[str]:
    return ["job", "--encoder", "support.fake_letter_encoder:letters", *map(str, arguments)]


def arguments(folder: Path, output: object) -> list[object]:
    return ["--input", folder, "--output", output, "-q", QUESTIONS[0], "-q", QUESTIONS[1], "--id", "id"]


def outputs(folder: Path) -> Files:
    """All that a job wrote, but what only it reads."""
    found = (path for path in folder.rglob("*") if path.is_file() and "_pullquote" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def records(folder: Path) -> Files:
    return {str(path): path.read_bytes() for path in (folder / "_pullquote" / "files").rglob("*.json")}


def ids(name: str, content: bytes) -> list[Any]:
    if name.endswith(".parquet"):
        found: list[Any] = parquet.read_table(pa.BufferReader(content))["id"].to_pylist()
        return found
    return [row["id"] for row in read_lines(name, content)]


def read_lines(name: str, content: bytes) -> list[dict[str, Any]]:
    compression = {".gz": "gzip", ".zst": "zstd"}.get(Path(name).suffix)
    read = pa.input_stream(pa.BufferReader(content), compression=compression).read()
    return [json.loads(line) for line in read.splitlines()]
