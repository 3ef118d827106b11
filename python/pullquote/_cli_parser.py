"""The arguments of all commands, their help, and errors that name what was probably meant."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from pullquote import _mcp_command, _models_command, _native, _server
from pullquote._cli_fetch import add_fetch_options
from pullquote._cli_options import CALL_OPTIONS, PAGE_OPTIONS, add_options
from pullquote._cli_source import API_KEY
from pullquote._config import CACHE_BYTES
from pullquote._models import EMBEDDED_PACKAGE
from pullquote._options import SERVER_TIMEOUT
from pullquote._shell_completion import SHELLS, completion_script
from pullquote._signatures import did_you_mean
from pullquote.errors import InvalidArgumentError, PullquoteError

__all__ = ["Command", "Parser", "as_flags", "make_parser"]

# Runs a command with its parsed arguments, and returns the exit code.
Command = Callable[[argparse.Namespace], int]

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


class Parser(argparse.ArgumentParser):
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


def make_parser(commands_by_name: Mapping[str, Command]) -> Parser:
    """The parser of all commands, each of which runs one of these functions."""
    parser = Parser(
        prog="pullquote",
        usage="pullquote COMMAND [OPTIONS]",
        description="Finds the passages of whole pages that answer a query.",
        epilog="pullquote COMMAND --help describes a command, with examples.",
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="show versions and the CPU's instruction set, and exit"
    )
    commands = parser.add_subparsers(
        title="commands", prog="pullquote", required=True, metavar="COMMAND", dest="command", parser_class=Parser
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
    highlight.set_defaults(run=commands_by_name["highlight"])

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
    embed.set_defaults(run=commands_by_name["embed"])

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
    serve.set_defaults(run=commands_by_name["serve"])

    job = add(
        "job",
        "[OPTIONS] --input FILES --output DIR -q QUERY",
        "find passages for files of pages",
        "Continues where an earlier run stopped.",
    )
    _add_job(job)
    job.set_defaults(run=commands_by_name["job"])

    mcp = add(
        "mcp",
        "[OPTIONS]",
        "serve agents over the Model Context Protocol",
        "Over standard input and output, or HTTP.",
    )
    _mcp_command.add_options(mcp)
    mcp.set_defaults(run=commands_by_name["mcp"])

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


def as_flags(message: str, command: argparse.ArgumentParser) -> str:
    """A message of the library, with its options as they are on the command line: ``--top-k`` for ``top_k``."""
    flags = {action.dest: action.option_strings[-1] for action in command._actions if action.option_strings}
    # A name that is a word of English too is an option at the start only. A name in quotes or in a path is none.
    ours = "|".join(sorted((name for name in flags if "_" in name), key=len, reverse=True)) or "(?!)"
    first = re.match(r"(\w+)(?= must | is )", message)
    if first and first[1] in flags:
        message = flags[first[1]] + message[first.end() :]
    return re.sub(rf"(?<![\w/.'\"-])({ours})(?![\w/.'\"])(=True)?", lambda found: flags[found[1]], message)
