"""The command line: ``pullquote highlight``, ``embed``, ``serve``, ``job`` and ``mcp``.

Prints text, or JSON lines with ``--json``. A file that cannot be read is an error on standard error; other files continue, and the
exit code is that of the first error (see `pullquote.errors`).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pullquote import _mcp_command, _native, _server
from pullquote._cli_documents import places, read_document
from pullquote._cli_options import CALL_OPTIONS, PAGE_OPTIONS, add_options, options_from_args
from pullquote._config import CACHE_BYTES, EngineConfig
from pullquote._highlighter import Highlighter
from pullquote._highlights import Highlight
from pullquote._models import EMBEDDED_PACKAGE
from pullquote._options import SERVER_TIMEOUT, Options
from pullquote._progress_bar import ProgressBar
from pullquote._python_encoder import named_encoder
from pullquote._terminal import Style
from pullquote.errors import InvalidArgumentError, InvalidTextError, PullquoteError

if TYPE_CHECKING:
    from pullquote.client import Client
    from pullquote.documents import Document

__all__ = ["check_arguments", "main"]

# Characters in one call: enough to keep every device busy, few enough to show progress.
GROUP_CHARACTERS = 1_000_000
GROUP_LINES = 4096
EXIT_NO_INPUT = 66
EXIT_NO_OUTPUT = 73
# Environment variable of the server's key: unlike --api-key, process lists do not show it.
API_KEY = "PULLQUOTE_API_KEY"
MAX_BATCH_TIMEOUT = 2.0
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except PullquoteError as error:
        _complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed it, like `head`.
        sys.stderr.close()
        return 0


def check_arguments(arguments: Sequence[str]) -> None:
    """Raise `InvalidArgumentError` for arguments that `main` would refuse."""
    parser = _parser()
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):
            parser.parse_args(arguments)
    except SystemExit:
        message = stderr.getvalue().strip().rpartition("error: ")[2]
        raise InvalidArgumentError(message) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pullquote",
        description="Finds the passages of whole pages that answer a query.",
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="show versions and the CPU's instruction set, and exit"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    highlight = commands.add_parser("highlight", help="print the passages of files that answer a query")
    highlight.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="page: text, Markdown, HTML, PDF or DOCX; - is standard input, for text",
    )
    highlight.add_argument(
        "-q",
        "--query",
        required=True,
        action="append",
        help="question about every page; repeatable",
    )
    add_options(highlight, CALL_OPTIONS, format="auto")
    highlight.set_defaults(run=_highlight)

    embed = commands.add_parser("embed", help="write the vectors of lines of text to a .npy file")
    embed.add_argument("file", metavar="FILE", help="a text in each line; - is standard input")
    embed.add_argument(
        "-o", "--output", required=True, type=Path, help="file for the array, float32 [lines, dimension]"
    )
    embed.add_argument(
        "--role",
        choices=["passage", "query"],
        default="passage",
        help="which of the model's prompts to use (default: %(default)s)",
    )
    embed.set_defaults(run=_embed)

    serve = commands.add_parser("serve", help="serve over HTTP")
    _server.add_options(serve)
    _add_batches(serve, CACHE_BYTES)
    serve.add_argument(
        "--batch-timeout",
        type=float,
        default=0.0,
        help="seconds that texts wait for others when they do not fill a batch; with 0, batches grow only while the devices are "
        "busy (default: %(default)s)",
    )
    serve.add_argument("--depth", type=int, help="batches in flight on each device (default: the device's)")
    serve.add_argument(
        "--device-timeout",
        type=float,
        help="seconds without a finished batch after which other devices take over (default: 10)",
    )
    serve.set_defaults(run=_serve)

    job = commands.add_parser("job", help="find passages for files of pages; continues where an earlier run stopped")
    _add_job(job)
    job.set_defaults(run=_job)

    mcp = commands.add_parser("mcp", help="serve agents over the Model Context Protocol")
    _mcp_command.add_options(mcp)
    mcp.set_defaults(run=_mcp)

    for command in (highlight, embed, serve, job, mcp):
        if command is not mcp:
            command.add_argument("--json", action="store_true", help="print JSON lines")
        if command in (highlight, embed):
            command.add_argument("--encoding", default="utf-8", help="encoding of the files (default: %(default)s)")
        command.add_argument("--model", help="directory of a model (default: the embedded all-MiniLM-L6-v2)")
        command.add_argument(
            "--encoder",
            metavar="MODULE:FUNCTION",
            help="instead of a model, a Python function from a list of strings to float32 [n, dimension]; "
            "or torch, to compute the model with libtorch",
        )
        command.add_argument("--device", action="append", help="cpu, cuda:0, ...; repeatable (default: auto)")
        command.add_argument(
            "--dtype", default="auto", help="float32, bfloat16, float16, int8 or auto (default: %(default)s)"
        )
        command.add_argument(
            "--trace", type=Path, metavar="FILE", help="file for a trace of all stages, for ui.perfetto.dev"
        )
        command.add_argument("--threads", type=int, help="threads for text, and for a CPU device (default: all cores)")
    for command in (highlight, embed, mcp):
        _add_server(command)
    return parser


def _add_batches(command: argparse.ArgumentParser, cache_bytes: int) -> None:
    command.add_argument(
        "--cache-bytes",
        type=int,
        default=cache_bytes,
        help="bytes of the page cache; 0 disables it (default: %(default)s)",
    )
    command.add_argument("--max-batch-tokens", type=int, help="maximum tokens of a batch (default: the device's)")
    command.add_argument(
        "--max-batch-size", type=int, help="maximum texts of a batch (default: as many as fit; 64 with --encoder)"
    )


def _add_job(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--input", metavar="DIR|GLOB|FILE", help="Parquet or JSON lines (.jsonl, .gz, .zst); also s3://..."
    )
    job.add_argument(
        "--output", required=True, metavar="DIR", help="directory for a file for each input file; also s3://..."
    )
    job.add_argument("-q", "--query", action="append", help="question about every page; repeatable")
    job.add_argument("--queries", type=Path, metavar="FILE", help="file with a question about every page in each line")
    job.add_argument("--query-column", metavar="NAME", help="column of the query for each page")
    job.add_argument("--text", default="text", metavar="NAME", help="column of the pages (default: %(default)s)")
    job.add_argument("--id", metavar="NAME", help="column of their ids (default: their numbers in the file)")
    job.add_argument("--title", metavar="NAME", help="column of titles, for pages without a query")
    job.add_argument(
        "--output-format",
        choices=["same", "parquet", "jsonl"],
        default="same",
        help="format of the outputs (default: %(default)s as the input)",
    )
    job.add_argument(
        "--engine",
        choices=["local", "ray"],
        default="local",
        help="where to run: in this process, or on a Ray cluster (default: %(default)s)",
    )
    ray = job.add_argument_group("--engine ray")
    ray.add_argument("--actors", type=int, metavar="N", help="maximum number of actors (default: as many as fit)")
    ray.add_argument(
        "--actor-cpus", type=int, metavar="N", help="cores of each actor (default: those of the smallest node)"
    )
    ray.add_argument(
        "--actor-gpus", type=float, metavar="N", help="GPUs of each actor (default: 1 if a node has any, else 0)"
    )
    job.add_argument("--status", action="store_true", help="show the progress of the job in --output, and exit")
    add_options(job, PAGE_OPTIONS)
    # A job reads each page once.
    _add_batches(job, cache_bytes=0)


def _add_server(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("use a server")
    group.add_argument(
        "--server",
        action="append",
        metavar="URL",
        help="URL of pullquote serve, such as http://127.0.0.1:8080 or unix:/run/pullquote.sock; repeatable",
    )
    group.add_argument(
        "--api-key", metavar="KEY", help=f"the server's key (default: the environment variable {API_KEY})"
    )
    group.add_argument("--ca-certs", type=Path, metavar="PATH", help="PEM file of the only trusted authorities")
    group.add_argument(
        "--timeout", type=float, default=SERVER_TIMEOUT, help="seconds for a request (default: %(default)s)"
    )


class _Version(argparse.Action):
    """Prints the versions that determine answers, and exits."""

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


def _highlighter_or_client(options: argparse.Namespace) -> Highlighter | Client:
    if not options.server:
        return _highlighter(options)
    own = {"model": options.model, "encoder": options.encoder, "device": options.device, "threads": options.threads}
    own["trace"] = options.trace
    named = [f"--{name}" for name, value in own.items() if value] + (["--dtype"] if options.dtype != "auto" else [])
    if named:
        message = f"the server determines {named[0]}; leave it out, or --server"
        raise InvalidArgumentError(message)
    key = options.api_key or os.environ.get(API_KEY)
    from pullquote.client import Client  # noqa: PLC0415 - only --server needs it

    return Client(options.server, api_key=key, ca_certs=options.ca_certs, timeout=options.timeout)


def _highlighter(options: argparse.Namespace) -> Highlighter:
    given = vars(options)
    arguments = {field.name: given[field.name] for field in fields(EngineConfig) if field.name in given}
    arguments |= {"devices": options.device or "auto", "encoder": named_encoder(options.encoder)}
    return Highlighter(**arguments)


def _highlight(options: argparse.Namespace) -> int:
    style = Style(sys.stdout)
    code = 0
    total = len(options.files)
    with _highlighter_or_client(options) as source, ProgressBar(total, "page", is_shown=total > 1) as progress:
        documents: dict[str, Document] = {}
        for names, texts, errors in _groups(options, documents):
            for message, error_code in errors:
                progress.clear()
                _complain(message)
                code = code or error_code
            if texts:
                found = source.highlights(options.query, texts, **_call_options(options))
                progress.clear()
                for number, highlights in enumerate(found):
                    query = None if options.fuse or len(options.query) == 1 else options.query[number // len(texts)]
                    name = names[number % len(texts)]
                    _show(name, query, highlights, options, style, documents.get(name))
                sys.stdout.flush()
            progress.update(len(names) + len(errors))
    return code


def _call_options(options: argparse.Namespace) -> Options:
    # Text output marks the matched words.
    return {
        **options_from_args(options, CALL_OPTIONS),
        "pairing": "all",
        "explain": options.explain or not options.json,
    }


def _groups(
    options: argparse.Namespace, documents: dict[str, Document]
) -> Iterator[tuple[list[str], list[str], list[tuple[str, int]]]]:
    """Names, texts and errors of neighbouring files, about `GROUP_CHARACTERS` at a time; all files if pages share a budget.

    Adds PDFs and DOCX to `documents`.
    """
    shared = options.max_total_chars or options.max_total_tokens or options.dedupe == "answer"
    limit = sys.maxsize if shared else GROUP_CHARACTERS
    names: list[str] = []
    texts: list[str] = []
    errors: list[tuple[str, int]] = []
    size = 0
    for name in options.files:
        try:
            if (document := read_document(name)) is not None:
                documents[name] = document
            text = document.text if document else _read(name, options.encoding)
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
        message = f'there is no encoding {encoding!r}; try "utf-8", "latin-1", "cp1252", "utf-16" or "shift_jis"'
        raise InvalidTextError(message) from None
    except UnicodeDecodeError as error:
        message = f"{name}: not {encoding} at byte {error.start}; name its encoding, for instance --encoding latin-1"
        raise InvalidTextError(message) from None


def _show(
    name: str,
    query: str | None,
    highlights: list[Highlight],
    options: argparse.Namespace,
    style: Style,
    document: Document | None,
) -> None:
    if options.json:
        question = {} if query is None else {"query": query}
        rows = [_row(highlight, options) | places(document, highlight) for highlight in highlights]
        print(json.dumps({"page": name, **question, "highlights": rows}, ensure_ascii=False))
        return
    print(style.bold(name if query is None else f"{name}  {query}"))
    if not highlights:
        print("  no passage\n")
    for highlight in highlights:
        page = (
            ""
            if document is None or not document.page_number(highlight)
            else f"page {document.page_number(highlight)}  "
        )
        print(f"  {style.dim(f'{highlight.score:.3f}  {page}characters {highlight.start}-{highlight.end}')}")
        print(style.passage(highlight), end="\n\n")


def _row(highlight: Highlight, options: argparse.Namespace) -> dict[str, Any]:
    """A highlight for JSON, without fields that the options do not request; the page's name replaces its number."""
    row = asdict(highlight)
    dropped = ["page", *([] if options.fuse else ["query"])]
    dropped += [] if options.context else ["before", "after"]
    dropped += [] if options.explain else ["matches"]
    for name in dropped:
        del row[name]
    return row


def _embed(options: argparse.Namespace) -> int:
    try:
        lines = _read(options.file, options.encoding).splitlines()
    except OSError as error:
        _complain(f"{options.file}: {error.strerror or error}")
        return EXIT_NO_INPUT
    with _highlighter_or_client(options) as source:
        dimension = source.dimension if isinstance(source, Highlighter) else source.embed(["one text"]).shape[1]
        # The array is written as it grows, so it need not fit into memory.
        with ProgressBar(len(lines), "text", is_shown=len(lines) >= GROUP_LINES) as progress:
            rows = _rows(source, lines, options.role, progress)
            try:
                _write_npy(options.output, (len(lines), dimension), rows)
            except PullquoteError:
                # Some are an OSError too, for example a ConnectionError.
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
        from pullquote.jobs._command import run  # noqa: PLC0415 - it needs what `pullquote[jobs]` installs
    except ModuleNotFoundError as error:
        message = f'pullquote job needs {error.name}; run: pip install "pullquote[jobs]"'
        raise InvalidArgumentError(message) from None
    return run(options)


def _mcp(options: argparse.Namespace) -> int:
    try:
        from pullquote.mcp import make_server  # noqa: PLC0415 - it needs what `pullquote[mcp]` installs
    except ModuleNotFoundError as error:
        message = f'pullquote mcp needs {error.name}; run: pip install "pullquote[mcp]"'
        raise InvalidArgumentError(message) from None
    if options.server and len(options.server) > 1:
        message = "pullquote mcp takes one --server"
        raise InvalidArgumentError(message)
    with _highlighter_or_client(options) as source:
        server = make_server(
            source,
            url=options.server[0] if options.server else None,
            api_key=options.api_key or os.environ.get(API_KEY),
            ca_certs=options.ca_certs,
            timeout=options.timeout,
            folders=options.folder,
            fetch=options.fetch,
        )
        return _mcp_command.serve(server, options.http)


def _serve(options: argparse.Namespace) -> int:
    if options.batch_timeout > MAX_BATCH_TIMEOUT:
        message = (
            f"--batch-timeout must be at most {MAX_BATCH_TIMEOUT} seconds, not {options.batch_timeout}: "
            "/health encodes a text within five"
        )
        raise InvalidArgumentError(message)
    with _highlighter(options) as highlighter:
        return _server.serve(highlighter, options)


def _rows(source: Highlighter | Client, lines: list[str], role: str, progress: ProgressBar) -> Iterator[bytes]:
    for first in range(0, len(lines), GROUP_LINES):
        group = lines[first : first + GROUP_LINES]
        yield source.embed(group, role="query" if role == "query" else "passage").tobytes()
        progress.update(len(group))


def _write_npy(path: Path, shape: tuple[int, int], rows: Iterator[bytes]) -> None:
    """Write a temporary file and rename it, so a stopped run leaves no incomplete array."""
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
