"""The command line: ``pullquote highlight``, ``embed``, ``serve``, ``job``, ``mcp`` and ``models``.

Prints text, or JSON lines with ``--json``. A file that cannot be read is an error on standard error; other files continue, and the
exit code is that of the first error (see `pullquote.errors`).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import numpy as np

from pullquote import _mcp_command, _models_command, _native, _server
from pullquote._cli_documents import places, read_file
from pullquote._cli_fetch import add_fetch_options, is_address, read_address
from pullquote._cli_options import CALL_OPTIONS, PAGE_OPTIONS, add_options, options_from_args
from pullquote._completion import SHELLS, completion_script
from pullquote._config import CACHE_BYTES, EngineConfig
from pullquote._highlighter import Highlighter
from pullquote._highlights import Highlight
from pullquote._models import EMBEDDED_PACKAGE
from pullquote._options import SERVER_TIMEOUT, Options
from pullquote._progress_bar import ProgressBar
from pullquote._python_encoder import named_encoder
from pullquote._signatures import did_you_mean
from pullquote._terminal import Style
from pullquote._text_files import check_is_text, decode, is_piped, name_of, read_bytes
from pullquote.errors import InvalidArgumentError, PullquoteError

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
# Options of a model, which a server has already.
MODEL_OPTIONS = ("truncate-dim", "prompt-name", "query-prompt", "passage-prompt")
MAX_BATCH_TIMEOUT = 2.0
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit code."""
    parser = _parser()
    given = sys.argv[1:] if arguments is None else arguments
    if not given:
        parser.print_help()
        return InvalidArgumentError.exit_code
    options = parser.parse_args(given)
    options.parser = parser.commands[options.command]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: _complain(f"warning: {_as_flags(str(message), options.parser)}")
            return int(options.run(options))
    except PullquoteError as error:
        _complain(_as_flags(str(error), options.parser))
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed it, like `head`.
        sys.stderr.close()
        return 0


def _as_flags(message: str, command: argparse.ArgumentParser) -> str:
    """A message of the library, with its options as they are on the command line: ``--top-k`` for ``top_k``."""
    flags = {action.dest: action.option_strings[-1] for action in command._actions if action.option_strings}
    # A name that is a word of English too is an option at the start only. A name in quotes or in a path is none.
    ours = "|".join(sorted((name for name in flags if "_" in name), key=len, reverse=True)) or "(?!)"
    first = re.match(r"(\w+)(?= must | is )", message)
    if first and first[1] in flags:
        message = flags[first[1]] + message[first.end() :]
    return re.sub(rf"(?<![\w/.'\"-])({ours})(?![\w/.'\"])(=True)?", lambda found: flags[found[1]], message)


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


EXIT_CODES = """exit codes:
  0    done, also if no passage was found
  2    an argument is wrong
  65   a file is not text, or a model cannot be used
  66   a file or a model is not there
  69   no encoder, device or server
  70   an encoder failed
  71   not enough memory
  73   the output cannot be written
  75   the server is overloaded, or the time was up: try again later
  76   the server's answer breaks the protocol
  77   the server needs another key
  130  interrupted"""

EXAMPLES = {
    "highlight": """examples:
  pullquote highlight -q "How much did Apollo cost?" apollo.txt
  tesseract scan.png - | pullquote highlight -q "What is this for?"
  pullquote highlight --json -q "Who paid?" --max-total-highlights 3 pages/*.md
  pullquote highlight -q "Who paid?" --mark "<mark>" "</mark>" page.html
  pullquote highlight -q "What is this for?" https://example.org""",
    "embed": """examples:
  pullquote embed -o vectors.npy lines.txt
  cut -f 2 table.tsv | pullquote embed -o vectors.npy --role query""",
    "serve": """examples:
  pullquote serve
  pullquote serve --port 9000 --api-key secret --fetch
  pullquote serve --uds /run/pullquote.sock --device cpu --dtype int8""",
    "job": """examples:
  pullquote job --input crawl/ --output found/ -q "Who was put on trial?" --id url
  pullquote job --input pages.parquet --output found/ --query-column question
  pullquote job --output found/ --status""",
    "mcp": """examples:
  pullquote mcp --folder notes/
  pullquote mcp --folder notes/ --http 127.0.0.1:8000""",
    "models": """examples:
  pullquote models
  pullquote models get BAAI/bge-small-en-v1.5""",
    "completion": """examples:
  pullquote completion bash > ~/.local/share/bash-completion/completions/pullquote
  pullquote completion zsh >> ~/.zshrc
  pullquote completion fish > ~/.config/fish/completions/pullquote.fish""",
}


# argparse's names of the types of options.
TYPES = {"int": "a whole number", "float": "a number", "weight": '"auto" or a number'}


class _Parser(argparse.ArgumentParser):
    """Prints one line of usage before an error, and the name that was probably intended by an unknown option."""

    commands: Mapping[str, argparse.ArgumentParser]

    def __init__(self, **arguments: Any) -> None:
        # --prot could be --port or --protect-all.
        super().__init__(**arguments, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        for kind, words in TYPES.items():
            message = message.replace(f"invalid {kind} value:", f"must be {words}, not")
        if choice := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message):
            if "--format" in message and choice[1].lower() in {"pdf", "docx", "epub"}:
                message += "; leave it out: PDF, DOCX and EPUB are recognized by themselves"
            else:
                message += did_you_mean(choice[1], re.findall(r"[\w-]+", choice[2]))
        self.exit(
            InvalidArgumentError.exit_code, f"{self.format_usage().splitlines()[0]}\n{self.prog}: error: {message}\n"
        )

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        if args and args[0].startswith("-") and args[0] not in _flags(self):
            self.error(_unknown(args[0], self))
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            command = self.commands[options.command]
            command.error(_unknown(next((word for word in unknown if word.startswith("-")), unknown[0]), command))
        return options


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return [flag for action in parser._actions for flag in action.option_strings]


def _unknown(word: str, parser: argparse.ArgumentParser) -> str:
    """Why a word cannot be an argument."""
    if not word.startswith("-"):
        return f"{word!r} is an unexpected argument"
    name = word.partition("=")[0]
    return f"there is no argument {name}{did_you_mean(name, _flags(parser)).replace(chr(39), '')}"


def _parser() -> _Parser:
    parser = _Parser(
        prog="pullquote",
        usage="pullquote COMMAND [OPTIONS]",
        description="Finds the passages of whole pages that answer a query.",
        epilog="pullquote COMMAND --help describes a command, with examples.",
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="show versions and the CPU's instruction set, and exit"
    )
    commands = parser.add_subparsers(
        title="commands", prog="pullquote", required=True, metavar="COMMAND", dest="command", parser_class=_Parser
    )

    def add(name: str, usage: str, about: str, description: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=about,
            usage=f"pullquote {name} {usage}",
            description=f"{about[0].upper()}{about[1:]}. {description}".strip(),
            epilog=f"{EXAMPLES[name]}\n\n{EXIT_CODES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    highlight = add(
        "highlight",
        "[OPTIONS] -q QUERY [FILE ...]",
        "print the passages of files that answer a query",
        "Reads plain text, Markdown, HTML, PDF, DOCX and EPUB, from files or from the web.",
    )
    highlight.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="page, or the https:// address of one; - is standard input, as is no FILE in a pipe",
    )
    highlight.add_argument(
        "-q",
        "--query",
        required=True,
        action="append",
        help="question about every page; repeatable",
    )
    add_options(highlight, CALL_OPTIONS)
    add_fetch_options(highlight)
    highlight.set_defaults(run=_highlight)

    embed = add("embed", "[OPTIONS] -o FILE [FILE]", "write the vectors of lines of text to a .npy file", "")
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
    embed.set_defaults(run=_embed)

    serve = add("serve", "[OPTIONS]", "serve over HTTP", "Prints its address when it is ready; open it in a browser.")
    _server.add_options(serve)
    batches = serve.add_argument_group("batches")
    _add_batches(batches, CACHE_BYTES)
    batches.add_argument(
        "--batch-timeout",
        type=float,
        default=0.0,
        help="seconds that texts wait for others when they do not fill a batch; with 0, batches grow only while the devices are "
        "busy (default: %(default)s)",
    )
    batches.add_argument("--depth", type=int, help="batches in flight on each device (default: the device's)")
    batches.add_argument(
        "--device-timeout",
        type=float,
        help="seconds without a finished batch after which other devices take over (default: 10)",
    )
    serve.set_defaults(run=_serve)

    job = add(
        "job",
        "[OPTIONS] --input FILES --output DIR -q QUERY",
        "find passages for files of pages",
        "Continues where an earlier run stopped.",
    )
    _add_job(job)
    job.set_defaults(run=_job)

    mcp = add(
        "mcp",
        "[OPTIONS]",
        "serve agents over the Model Context Protocol",
        "Over standard input and output, or HTTP.",
    )
    _mcp_command.add_options(mcp)
    mcp.set_defaults(run=_mcp)

    for command in (highlight, embed, serve, job):
        _add_output(command, is_highlight=command is highlight, reads_text=command in {highlight, embed})
    for command in (highlight, embed, serve, job, mcp):
        _add_model(command, has_prompts=command is not job)
    for command in (highlight, embed, mcp):
        _add_server(command)

    models = add(
        "models",
        "[OPTIONS] [get NAME ...]",
        "list the models of the cache, or download some",
        "The cache is that of the Hugging Face Hub.",
    )
    _models_command.add_options(models)

    completion = add("completion", "{bash,zsh,fish}", "print a script that completes commands in a shell", "")
    completion.add_argument("shell", choices=SHELLS, help="the shell")
    completion.set_defaults(run=lambda options: print(completion_script(commands.choices, options.shell), end="") or 0)
    parser.commands = commands.choices
    return parser


def _add_output(command: argparse.ArgumentParser, *, is_highlight: bool, reads_text: bool) -> None:
    group = command.add_argument_group("input and output")
    group.add_argument("--json", action="store_true", help="print JSON lines")
    if is_highlight:
        group.add_argument(
            "--mark",
            nargs=2,
            metavar=("PRE", "POST"),
            help="what to print around words that match; other text is escaped for HTML if PRE is a tag",
        )
    if reads_text:
        group.add_argument("--encoding", help="encoding of the files (default: that of a byte order mark, else utf-8)")


def _add_model(command: argparse.ArgumentParser, *, has_prompts: bool) -> None:
    group = command.add_argument_group("model and devices")
    group.add_argument(
        "--model",
        help="name of a model of the Hugging Face Hub, such as BAAI/bge-small-en-v1.5, or the directory of one; private and gated "
        "models need the environment variable HF_TOKEN (default: the embedded all-MiniLM-L6-v2)",
    )
    group.add_argument("--revision", help="branch, tag or commit of a named model (default: main)")
    if has_prompts:
        group.add_argument("--truncate-dim", type=int, help="values of a vector to keep (default: all)")
        group.add_argument("--prompt-name", help="name of the query's prompt in the model's files (default: query)")
        group.add_argument("--query-prompt", help="text before queries (default: the model's)")
        group.add_argument("--passage-prompt", help="text before passages (default: the model's)")
    group.add_argument(
        "--encoder",
        metavar="MODULE:FUNCTION",
        help="instead of a model, a Python function from a list of strings to float32 [n, dimension]; "
        "or torch, to compute the model with libtorch",
    )
    group.add_argument("--device", action="append", help="cpu, cuda:0, ...; repeatable (default: auto)")
    group.add_argument(
        "--dtype", default="auto", help="float32, bfloat16, float16, int8 or auto (default: %(default)s)"
    )
    group.add_argument(
        "--cuda-graphs",
        action="store_const",
        const="auto",
        default=False,
        help="queue the kernels of frequent shapes of batches as CUDA graphs (default: off; not yet run on a GPU)",
    )
    group.add_argument("--threads", type=int, help="threads for text, and for a CPU device (default: all cores)")
    group.add_argument("--trace", type=Path, metavar="FILE", help="file for a trace of all stages, for ui.perfetto.dev")


def _add_batches(command: Any, cache_bytes: int) -> None:
    command.add_argument(
        "--cache-bytes",
        type=int,
        default=cache_bytes,
        help="bytes of the cache of pages and queries; 0 disables it (default: %(default)s)",
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
    _add_batches(job.add_argument_group("batches"), cache_bytes=0)


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
    group.add_argument(
        "--ca-certs", type=Path, metavar="PATH", help="PEM file with the only trusted certificate authorities"
    )
    here = "" if command.prog.endswith("mcp") else ", or for each call without --server (default: none)"
    group.add_argument("--timeout", type=float, help=f"seconds for a request (default: {SERVER_TIMEOUT:g}){here}")


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


def _highlighter_or_client(options: argparse.Namespace, *, has_timeout: bool = True) -> Highlighter | Client:
    if not options.server:
        of_server = ("api_key", "ca_certs", *(() if has_timeout else ("timeout",)))
        if named := [name for name in of_server if getattr(options, name) is not None]:
            message = f"--{named[0].replace('_', '-')} is for a server; name one by --server, or leave it out"
            raise InvalidArgumentError(message)
        return _highlighter(options)
    own = {"model": options.model, "encoder": options.encoder, "device": options.device, "threads": options.threads}
    own |= {"revision": options.revision, "trace": options.trace}
    own |= {name: vars(options)[name.replace("-", "_")] for name in MODEL_OPTIONS}
    named = [f"--{name}" for name, value in own.items() if value is not None] + (
        ["--dtype"] if options.dtype != "auto" else ["--cuda-graphs"] if options.cuda_graphs else []
    )
    if named:
        message = f"the server determines {named[0]}; leave it out, or --server"
        raise InvalidArgumentError(message)
    key = options.api_key or os.environ.get(API_KEY)
    from pullquote.client import Client  # noqa: PLC0415 - only --server needs it

    timeout = SERVER_TIMEOUT if options.timeout is None else options.timeout
    return Client(options.server, api_key=key, ca_certs=options.ca_certs, timeout=timeout)


def _highlighter(options: argparse.Namespace, kind: type[Highlighter] = Highlighter) -> Highlighter:
    given = vars(options)
    arguments = {field.name: given[field.name] for field in fields(EngineConfig) if field.name in given}
    arguments |= {"devices": options.device or "auto", "encoder": named_encoder(options.encoder)}
    return kind(**arguments)


def _highlight(options: argparse.Namespace) -> int:
    if options.mark and not options.files and Path(options.mark[1]).is_file():
        message = (
            f"--mark takes two texts, and the second is a file, {options.mark[1]!r}; name both, as --mark '<b>' '</b>'"
        )
        raise InvalidArgumentError(message)
    style = Style(sys.stdout)
    code = 0
    files = _files(options.files)
    total = len(files)
    with _highlighter_or_client(options) as source, ProgressBar(total, "page", is_shown=total > 1) as progress:
        documents: dict[str, Document] = {}
        for names, texts, errors in _groups(files, options, documents):
            for message, error_code in errors:
                progress.clear()
                _complain(_as_flags(message, options.parser))
                code = code or error_code
            if texts:
                found = source.highlights(options.query, texts, **_call_options(options))
                progress.clear()
                for number, highlights in enumerate(found):
                    query = None if options.fuse or len(options.query) == 1 else options.query[number // len(texts)]
                    name = names[number % len(texts)]
                    page_format = found.formats[number % len(texts)]
                    _show(FileAnswer(name, query, page_format, highlights, documents.get(name)), options, style)
                sys.stdout.flush()
            progress.update(len(names) + len(errors))
    return code


def _call_options(options: argparse.Namespace) -> Options:
    # Text output marks the matched words.
    return {
        **options_from_args(options, CALL_OPTIONS),
        "pairing": "all",
        "timeout": _call_timeout(options),
        "explain": options.explain or options.mark is not None or not options.json,
    }


def _call_timeout(options: argparse.Namespace) -> float | None:
    """Seconds of a call. With a server, each request has them."""
    return None if options.server else options.timeout


def _files(names: list[str]) -> list[str]:
    """The named files, or standard input in a pipe."""
    if names.count("-") > 1:
        message = "- is standard input, which can be read once"
        raise InvalidArgumentError(message)
    if names or is_piped():
        return names or ["-"]
    message = "no FILE; name a page, or pipe one in"
    raise InvalidArgumentError(message)


def _groups(
    files: list[str], options: argparse.Namespace, documents: dict[str, Document]
) -> Iterator[tuple[list[str], list[str], list[tuple[str, int]]]]:
    """Names, texts and errors of neighbouring files, about `GROUP_CHARACTERS` at a time; all files if pages share a budget.

    Adds PDFs, DOCX, EPUBs and fetched pages to `documents`.
    """
    limits = (options.max_total_chars, options.max_total_tokens, options.max_total_highlights)
    shared = any(limits) or options.dedupe == "answer"
    limit = sys.maxsize if shared else GROUP_CHARACTERS
    names: list[str] = []
    texts: list[str] = []
    errors: list[tuple[str, int]] = []
    size = 0
    for name in files:
        try:
            if is_address(name):
                document: Document | None = read_address(name, options)
                text = document.text if document else ""
            else:
                text, document = read_file(name, options.encoding)
            if document is not None:
                documents[name] = document
        except PullquoteError as error:
            errors.append((str(error), error.exit_code))
        except OSError as error:
            errors.append((f"{name}: {error.strerror or error}{_nearly_address(name)}", EXIT_NO_INPUT))
        else:
            names.append(name)
            texts.append(text)
            size += len(text)
        if size >= limit:
            yield names, texts, errors
            names, texts, errors, size = [], [], [], 0
    yield names, texts, errors


def _nearly_address(name: str) -> str:
    """What helps if a file that is not there is named like a page of the web."""
    if "://" in name:
        return "; only addresses that begin with http:// or https:// are fetched"
    return f"; a page of the web is https://{name}" if name.startswith("www.") else ""


@dataclass(frozen=True, slots=True)
class FileAnswer:
    """The passages of a file for a query; `query` is `None` if there is only one."""

    page: str
    query: str | None
    format: str
    highlights: list[Highlight]
    document: Document | None

    @property
    def is_answered(self) -> bool:
        """As `Highlights.answered`, for this page and query."""
        return any(highlight.score >= _native.ANSWERED for highlight in self.highlights)


def _show(answer: FileAnswer, options: argparse.Namespace, style: Style) -> None:
    if options.json:
        question = {} if answer.query is None else {"query": answer.query}
        rows = [_row(highlight, options) | places(answer.document, highlight) for highlight in answer.highlights]
        row = {
            "page": answer.page,
            **question,
            "format": answer.format,
            "answered": answer.is_answered,
            "highlights": rows,
        }
        print(json.dumps(row, ensure_ascii=False))
        return
    kind = "" if answer.format == "text" else style.dim(f"  ({answer.format})")
    print(style.bold(answer.page if answer.query is None else f"{answer.page}  {answer.query}") + kind)
    if not answer.highlights:
        print("  no passage\n")
    elif not answer.is_answered:
        print("  nothing here answers this; the nearest passages:\n")
    for highlight in answer.highlights:
        number = answer.document and answer.document.page_number(highlight)
        place = f"page {number}  " if number else ""
        print(f"  {style.dim(f'{highlight.score:.3f}  {place}characters {highlight.start}-{highlight.end}')}")
        text = style.passage(highlight) if options.mark is None else style.wrapped(_marked(highlight, options.mark))
        print(text, end="\n\n")


def _marked(highlight: Highlight, mark: list[str]) -> str:
    pre, post = mark
    return highlight.marked(pre, post, encoder="html" if pre.startswith("<") else None, words=bool(highlight.matches))


def _row(highlight: Highlight, options: argparse.Namespace) -> dict[str, Any]:
    """A highlight for JSON, without fields that the options do not request; the page's name replaces its number."""
    row: dict[str, Any] = {**highlight.to_dict()}
    if options.mark is not None:
        row["marked"] = _marked(highlight, options.mark)
    # Those of PDFs come from the document that was read here.
    dropped = ["page", "id", "page_number", "rectangles", *([] if options.fuse else ["query"])]
    dropped += [] if options.context else ["before", "after"]
    dropped += [] if highlight.header else ["header"]
    dropped += [] if options.explain else ["matches"]
    for name in dropped:
        del row[name]
    return row


def _embed(options: argparse.Namespace) -> int:
    if str(options.output) == "-" and sys.stdout.isatty():
        message = "--output - is for a pipe, not a terminal; name a file"
        raise InvalidArgumentError(message)
    try:
        [name] = _files([options.file] if options.file else [])
        data, shown = read_bytes(name), name_of(name)
        check_is_text(data, shown)
        lines = decode(data, shown, options.encoding).splitlines()
    except OSError as error:
        _complain(f"{options.file}: {error.strerror or error}")
        return EXIT_NO_INPUT
    with _highlighter_or_client(options) as source:
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
                _complain(f"{options.output}: {error.strerror or error}")
                return EXIT_NO_OUTPUT
        shape = [len(lines), dimension]
    if options.json and str(options.output) != "-":
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
    with _highlighter_or_client(options, has_timeout=False) as source:
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
    if options.store is not None:
        # Before the model is loaded, which may take long.
        _native.check_store(options.store)
    with _highlighter(options, _server.ServedHighlighter) as highlighter:
        return _server.serve(highlighter, options)


def _rows(
    source: Highlighter | Client, lines: list[str], options: argparse.Namespace, progress: ProgressBar
) -> Iterator[bytes]:
    for first in range(0, len(lines), GROUP_LINES):
        group = lines[first : first + GROUP_LINES]
        yield source.embed(group, role=options.role, timeout=_call_timeout(options)).tobytes()
        progress.update(len(group))


def _write_npy(path: Path, shape: tuple[int, int], rows: Iterator[bytes]) -> None:
    """Write a temporary file and rename it, so a stopped run leaves no incomplete array."""

    def write(file: BinaryIO) -> None:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        for data in rows:
            file.write(data)

    if str(path) == "-":
        return write(sys.stdout.buffer)
    unfinished = path.with_name(path.name + ".part")
    try:
        with unfinished.open("wb") as file:
            write(file)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _complain(message: str) -> None:
    print(f"pullquote: {message}", file=sys.stderr)
