"""The command line: ``pullquote highlight``, ``pullquote embed``, ``pullquote serve`` and ``pullquote job``.

Prints for people, or JSON lines with ``--json``. A file that cannot be read is one error on standard error; the others go on,
and the exit code is that of the first error (see the table in `pullquote.errors`).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pullquote import _native, _server
from pullquote._cli_options import add_options, options_from_args
from pullquote._highlighter import Highlighter
from pullquote._highlights import Highlight
from pullquote._loading import CACHE_BYTES
from pullquote._models import EMBEDDED_PACKAGE
from pullquote._options import SERVER_TIMEOUT, Options
from pullquote._progress_bar import ProgressBar
from pullquote._python_encoder import named_encoder
from pullquote._terminal import Style
from pullquote.errors import InvalidArgumentError, InvalidTextError, PullquoteError

if TYPE_CHECKING:
    from pullquote.client import Client

__all__ = ["check", "main"]

# Characters of pages that are highlighted in one call: enough to keep every device busy, few enough to show progress.
GROUP_CHARACTERS = 1_000_000
GROUP_LINES = 4096
EXIT_NO_INPUT = 66
EXIT_NO_OUTPUT = 73
# Where a key may stand that no list of processes shows.
API_KEY = "PULLQUOTE_API_KEY"
LONGEST_BATCH_TIMEOUT = 2.0
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except PullquoteError as error:
        _complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        sys.stderr.close()
        return 0


def check(arguments: Sequence[str]) -> None:
    """Raise `InvalidArgumentError` where `main` would not know an option, or its value."""
    parser = _parser()
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parser.parse_args(arguments)
    except SystemExit:
        message = said.getvalue().strip().rpartition("error: ")[2]
        raise InvalidArgumentError(message) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pullquote",
        description="Finds the passages of whole pages that answer a query.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show versions and the instruction set, and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    highlight = commands.add_parser("highlight", help="print the passages of files that answer a query")
    highlight.add_argument("files", nargs="+", metavar="FILE", help="pages, as text; - is standard input")
    highlight.add_argument(
        "-q",
        "--query",
        required=True,
        action="append",
        help="the question; may be repeated, each is asked of every page",
    )
    highlight.add_argument("--fuse", action="store_true", help="one answer to all questions")
    highlight.add_argument("--max-total-chars", type=int, help="at most so many characters over all pages")
    highlight.add_argument("--max-total-tokens", type=int, help="at most so many of the model's tokens over all pages")
    add_options(highlight, format="auto")
    highlight.set_defaults(run=_highlight)

    embed = commands.add_parser("embed", help="write the vectors of texts, one a line, to a .npy file")
    embed.add_argument("file", metavar="FILE", help="texts, one a line; - is standard input")
    embed.add_argument(
        "-o", "--output", required=True, type=Path, help="where the float32 array [lines, dimension] goes"
    )
    embed.add_argument("--role", choices=["passage", "query"], default="passage", help="default: %(default)s")
    embed.set_defaults(run=_embed)

    serve = commands.add_parser("serve", help="answer over HTTP")
    _server.add_options(serve)
    _add_batches(serve, CACHE_BYTES)
    serve.add_argument(
        "--batch-timeout",
        type=float,
        default=0.0,
        help="seconds that texts wait for others where they do not fill a batch (default: %(default)s: batches grow only "
        "while the devices are busy)",
    )
    serve.add_argument("--depth", type=int, help="batches that a device has at once (default: what it wants)")
    serve.add_argument(
        "--device-timeout",
        type=float,
        help="seconds that a device may finish nothing before the others compute what it had (default: 10)",
    )
    serve.set_defaults(run=_serve)

    job = commands.add_parser("job", help="files of pages in, files of passages out; stopped at any time, it goes on")
    _add_job(job)
    job.set_defaults(run=_job)

    for command in (highlight, embed, serve, job):
        command.add_argument("--json", action="store_true", help="print JSON, one object a line")
        if command in (highlight, embed):
            command.add_argument("--encoding", default="utf-8", help="of the files (default: %(default)s)")
        command.add_argument("--model", help="a model's directory (default: the embedded all-MiniLM-L6-v2)")
        command.add_argument(
            "--encoder",
            metavar="MODULE:FUNCTION",
            help="instead of a model, a Python function from a list of strings to float32 [n, dimension]; "
            "or torch, which computes the model with libtorch",
        )
        command.add_argument("--device", action="append", help="cpu, cuda:0, ...; may be repeated (default: auto)")
        command.add_argument(
            "--dtype", default="auto", help="float32, bfloat16, float16, int8 or auto (default: %(default)s)"
        )
        command.add_argument(
            "--trace", type=Path, metavar="FILE", help="where every stage is written when it ends, for ui.perfetto.dev"
        )
        command.add_argument("--threads", type=int, help="for text and for a CPU device (default: all cores)")
    for command in (highlight, embed):
        _add_server(command)
    return parser


def _add_batches(command: argparse.ArgumentParser, cache_bytes: int) -> None:
    command.add_argument(
        "--cache-bytes",
        type=int,
        default=cache_bytes,
        help="what was read of pages is kept in at most so much memory; 0 keeps nothing (default: %(default)s)",
    )
    command.add_argument("--max-batch-tokens", type=int, help="of a batch (default: what the devices want)")
    command.add_argument(
        "--max-batch-size", type=int, help="texts of a batch (default: as many as fit; 64 with --encoder)"
    )


def _add_job(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--input", metavar="DIR|GLOB|FILE", help="Parquet or JSON lines (.jsonl, .gz, .zst); also s3://..."
    )
    job.add_argument("--output", required=True, metavar="DIR", help="a file for each of the input's; also s3://...")
    job.add_argument("-q", "--query", action="append", help="a question, asked of every page; may be repeated")
    job.add_argument("--queries", type=Path, metavar="FILE", help="questions, one a line, each asked of every page")
    job.add_argument("--query-column", metavar="NAME", help="the column of what each page is asked")
    job.add_argument("--text", default="text", metavar="NAME", help="the column of the pages (default: %(default)s)")
    job.add_argument("--id", metavar="NAME", help="the column of their ids (default: their numbers in the file)")
    job.add_argument("--title", metavar="NAME", help="the column of what a page is asked that has no query")
    job.add_argument(
        "--output-format",
        choices=["same", "parquet", "jsonl"],
        default="same",
        help="default: %(default)s as the input's",
    )
    job.add_argument(
        "--engine",
        choices=["local", "ray"],
        default="local",
        help="where the work is done: this process, or a Ray cluster (default: %(default)s)",
    )
    ray = job.add_argument_group("--engine ray")
    ray.add_argument("--actors", type=int, metavar="N", help="at most so many (default: as many as there is room for)")
    ray.add_argument("--actor-cpus", type=int, metavar="N", help="cores of each (default: those of the smallest node)")
    ray.add_argument(
        "--actor-gpus", type=float, metavar="N", help="cards of each (default: 1 where a node has any, else 0)"
    )
    job.add_argument("--status", action="store_true", help="say how far the job in --output is, and do nothing")
    add_options(job, format="text")
    # Pages of a job come once.
    _add_batches(job, cache_bytes=0)


def _add_server(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("where a server does the work")
    group.add_argument(
        "--server",
        action="append",
        metavar="URL",
        help="of pullquote serve, like http://127.0.0.1:8080 or unix:/run/pullquote.sock; may be repeated",
    )
    group.add_argument("--api-key", metavar="KEY", help=f"its key (default: that of {API_KEY} in the environment)")
    group.add_argument("--ca-certs", type=Path, metavar="PATH", help="PEM of the only authorities to trust")
    group.add_argument(
        "--timeout", type=float, default=SERVER_TIMEOUT, help="seconds of a request (default: %(default)s)"
    )


class _Version(argparse.Action):
    """Prints the versions of everything that decides what is answered, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(_versions())
        parser.exit()


def _versions() -> str:
    import importlib.metadata  # noqa: PLC0415 - only --version needs it

    def version(package: str) -> str:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return "not installed"

    packages = ("pullquote", EMBEDDED_PACKAGE, "pullquote-torch", "torch")
    lines = [f"{package} {version(package)}" for package in packages]
    try:
        lines.append(f"instruction set {_native.instruction_set()}")
    except PullquoteError as error:
        lines.append(f"instruction set: {error}")
    return "\n".join(lines)


def _asked_of(options: argparse.Namespace) -> Highlighter | Client:
    """Who does the work: this process, or a server."""
    if not options.server:
        return _highlighter(options)
    own = {"model": options.model, "encoder": options.encoder, "device": options.device, "threads": options.threads}
    own["trace"] = options.trace
    named = [f"--{name}" for name, value in own.items() if value] + (["--dtype"] if options.dtype != "auto" else [])
    if named:
        message = f"{named[0]} is the server's to know; leave it out, or --server"
        raise InvalidArgumentError(message)
    key = options.api_key or os.environ.get(API_KEY)
    from pullquote.client import Client  # noqa: PLC0415 - only --server needs it

    return Client(options.server, api_key=key, ca_certs=options.ca_certs, timeout=options.timeout)


def _highlighter(options: argparse.Namespace) -> Highlighter:
    """What the options ask for; only a server has some of them."""
    asked = vars(options)
    return Highlighter(
        options.model,
        options.device or "auto",
        options.dtype,
        options.threads,
        asked.get("cache_bytes", CACHE_BYTES),
        encoder=named_encoder(options.encoder),
        max_batch_tokens=asked.get("max_batch_tokens"),
        max_batch_size=asked.get("max_batch_size"),
        batch_timeout=asked.get("batch_timeout", 0.0),
        depth=asked.get("depth"),
        device_timeout=asked.get("device_timeout"),
        trace=options.trace,
    )


def _highlight(options: argparse.Namespace) -> int:
    style = Style(sys.stdout)
    code = 0
    total = len(options.files)
    with _asked_of(options) as asked, ProgressBar(total, "page", is_shown=total > 1) as progress:
        for names, texts, errors in _groups(options):
            for message, error_code in errors:
                progress.clear()
                _complain(message)
                code = code or error_code
            if texts:
                found = asked.highlights(options.query, texts, **_asked(options))
                progress.clear()
                for number, highlights in enumerate(found):
                    query = None if options.fuse or len(options.query) == 1 else options.query[number // len(texts)]
                    _show(names[number % len(texts)], query, highlights, options, style)
                sys.stdout.flush()
            progress.update(len(names) + len(errors))
    return code


def _asked(options: argparse.Namespace) -> Options:
    return {
        **options_from_args(options),
        "pairing": "all",
        "fuse": options.fuse,
        "max_total_chars": options.max_total_chars,
        "max_total_tokens": options.max_total_tokens,
        # People see the words marked; machines get them where they asked for them.
        "explain": options.explain or not options.json,
    }


def _groups(options: argparse.Namespace) -> Iterator[tuple[list[str], list[str], list[tuple[str, int]]]]:
    """Names, texts and errors of neighbouring files, about `GROUP_CHARACTERS` at a time; all, where they share something."""
    shared = options.max_total_chars or options.max_total_tokens or options.dedupe == "answer"
    limit = sys.maxsize if shared else GROUP_CHARACTERS
    names: list[str] = []
    texts: list[str] = []
    errors: list[tuple[str, int]] = []
    size = 0
    for name in options.files:
        try:
            text = _read(name, options.encoding)
        except PullquoteError as error:
            errors.append((str(error), error.exit_code))
        except OSError as error:
            errors.append((f"{name}: {error.strerror or error}", EXIT_NO_INPUT))
        else:
            names.append(name)
            texts.append(text)
            size += len(text)
        if size >= limit:
            yield names, texts, errors
            names, texts, errors, size = [], [], [], 0
    yield names, texts, errors


def _read(name: str, encoding: str) -> str:
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    try:
        return data.decode(encoding)
    except LookupError:
        message = f'there is no encoding called {encoding!r}; try "utf-8", "latin-1", "cp1252", "utf-16" or "shift_jis"'
        raise InvalidTextError(message) from None
    except UnicodeDecodeError as error:
        message = f"{name}: not {encoding} at byte {error.start}; name its encoding, for instance --encoding latin-1"
        raise InvalidTextError(message) from None


def _show(name: str, query: str | None, highlights: list[Highlight], options: argparse.Namespace, style: Style) -> None:
    if options.json:
        asked = {} if query is None else {"query": query}
        rows = [_row(highlight, options) for highlight in highlights]
        print(json.dumps({"page": name, **asked, "highlights": rows}, ensure_ascii=False))
        return
    print(style.bold(name if query is None else f"{name}  {query}"))
    if not highlights:
        print("  no passage\n")
    for highlight in highlights:
        print(f"  {style.dim(f'{highlight.score:.3f}  characters {highlight.start}-{highlight.end}')}")
        print(style.passage(highlight), end="\n\n")


def _row(highlight: Highlight, options: argparse.Namespace) -> dict[str, Any]:
    """A highlight as JSON has it: what nobody asked for is left out, and so is the page's number, which has a name here."""
    row = asdict(highlight)
    unasked = ["page", *([] if options.fuse else ["query"])]
    unasked += [] if options.context else ["before", "after"]
    unasked += [] if options.explain else ["matches"]
    for name in unasked:
        del row[name]
    return row


def _embed(options: argparse.Namespace) -> int:
    try:
        lines = _read(options.file, options.encoding).splitlines()
    except OSError as error:
        _complain(f"{options.file}: {error.strerror or error}")
        return EXIT_NO_INPUT
    with _asked_of(options) as asked:
        dimension = asked.dimension if isinstance(asked, Highlighter) else asked.embed(["how long?"]).shape[1]
        # The array is on disk as it grows: its size is known, its memory is not needed at once.
        with ProgressBar(len(lines), "text", is_shown=len(lines) >= GROUP_LINES) as progress:
            rows = _rows(asked, lines, options.role, progress)
            try:
                _write_npy(options.output, (len(lines), dimension), rows)
            except PullquoteError:
                # Some of them are errors of the system too, of a connection for instance.
                raise
            except OSError as error:
                _complain(f"{options.output}: {error.strerror or error}")
                return EXIT_NO_OUTPUT
        shape = [len(lines), dimension]
    if options.json:
        print(json.dumps({"output": str(options.output), "shape": shape, "dtype": "float32"}))
    return 0


def _job(options: argparse.Namespace) -> int:
    try:
        from pullquote.jobs._command import run  # noqa: PLC0415 - it needs what `pullquote[jobs]` brings
    except ModuleNotFoundError as error:
        message = f'pullquote job needs {error.name}; install it by: pip install "pullquote[jobs]"'
        raise InvalidArgumentError(message) from None
    return run(options)


def _serve(options: argparse.Namespace) -> int:
    if options.batch_timeout > LONGEST_BATCH_TIMEOUT:
        message = (
            f"--batch-timeout must be at most {LONGEST_BATCH_TIMEOUT} seconds, not {options.batch_timeout}: "
            "health is what was encoded within five"
        )
        raise InvalidArgumentError(message)
    with _highlighter(options) as highlighter:
        return _server.serve(highlighter, options)


def _rows(asked: Highlighter | Client, lines: list[str], role: str, progress: ProgressBar) -> Iterator[bytes]:
    for first in range(0, len(lines), GROUP_LINES):
        group = lines[first : first + GROUP_LINES]
        yield asked.embed(group, role="query" if role == "query" else "passage").tobytes()
        progress.update(len(group))


def _write_npy(path: Path, shape: tuple[int, int], rows: Iterator[bytes]) -> None:
    """Write the array beside its place and move it there, so that a stopped run leaves no half of one."""
    unfinished = path.with_name(path.name + ".part")
    try:
        with unfinished.open("wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            for data in rows:
                file.write(data)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _complain(message: str) -> None:
    print(f"pullquote: {message}", file=sys.stderr)
