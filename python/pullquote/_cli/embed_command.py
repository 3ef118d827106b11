"""``pullquote embed``: the vectors of lines of text, in a file of numpy."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from pullquote._cli.source import EXIT_NO_INPUT, call_timeout, complain, highlighter_or_client, input_files
from pullquote._engine.highlighter import Highlighter
from pullquote._progress_bar import ProgressBar
from pullquote._text_files import check_is_text, decode, name_of, read_bytes
from pullquote.errors import InvalidArgumentError, PullquoteError

if TYPE_CHECKING:
    from pullquote.client import Client

__all__ = ["add_options", "run"]

EXIT_NO_OUTPUT = 73
# Lines in one call.
GROUP_LINES = 4096


def add_options(embed: argparse.ArgumentParser) -> None:
    """Add the command's own options."""
    embed.add_argument(
        "file", nargs="?", metavar="FILE", help="a text in each line; - is standard input, as is no FILE in a pipe"
    )
    embed.add_argument(
        "-o",
        "--output",
        required=True,
        type=Path,
        metavar="FILE",
        help="file for the array, float32 [lines, dimension]; - is standard output",
    )
    embed.add_argument(
        "--role",
        choices=["passage", "query"],
        default="passage",
        help="which of the model's prompts to use (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    """Write the vectors of the lines of a file, and return the exit code."""
    if str(options.output) == "-" and sys.stdout.isatty():
        message = "--output - is for a pipe, not a terminal; name a file"
        raise InvalidArgumentError(message)
    try:
        [name] = input_files([options.file] if options.file else [])
        if options.output.is_file() and Path(name).is_file() and options.output.samefile(name):
            message = f"--output {options.output} is the file with the texts; name another one"
            raise InvalidArgumentError(message)
        data, shown = read_bytes(name), name_of(name)
        check_is_text(data, shown)
        lines = decode(data, shown, options.encoding).splitlines()
    except OSError as error:
        complain(f"{options.file}: {error.strerror or error}")
        return EXIT_NO_INPUT
    with highlighter_or_client(options) as source:
        dimension = source.dimension if isinstance(source, Highlighter) else source.embed(["one text"]).shape[1]
        # The array is written as it grows, so it need not fit into memory.
        with ProgressBar(len(lines), "text", is_shown=len(lines) >= GROUP_LINES) as progress:
            rows = _rows(source, lines, options, progress)
            try:
                _write_npy(options.output, (len(lines), dimension), rows)
            except PullquoteError:
                # Some are an OSError too, for example a ConnectionError.
                raise
            except OSError as error:
                if str(options.output) == "-":
                    raise  # to where all commands print
                complain(f"{options.output}: {error.strerror or error}")
                return EXIT_NO_OUTPUT
        shape = [len(lines), dimension]
    if options.json and str(options.output) != "-":
        print(json.dumps({"output": str(options.output), "shape": shape, "dtype": "float32"}))
    return 0


def _rows(
    source: Highlighter | Client, lines: list[str], options: argparse.Namespace, progress: ProgressBar
) -> Iterator[bytes]:
    for first in range(0, len(lines), GROUP_LINES):
        group = lines[first : first + GROUP_LINES]
        yield source.embed(group, role=options.role, timeout=call_timeout(options)).tobytes()
        progress.update(len(group))


def _write_npy(path: Path, shape: tuple[int, int], rows: Iterator[bytes]) -> None:
    """Write a temporary file and rename it, so a stopped run leaves no incomplete array; a device or a pipe is written itself."""

    def write(file: BinaryIO) -> None:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        for data in rows:
            file.write(data)

    if str(path) == "-":
        return write(sys.stdout.buffer)
    if path.exists() and not (path.is_file() or path.is_dir()):
        with path.open("wb") as file:
            return write(file)
    unfinished = path.with_name(path.name + ".part")
    try:
        with unfinished.open("wb") as file:
            write(file)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
