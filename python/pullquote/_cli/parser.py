"""The arguments of all commands, their help, and errors that name what was probably meant."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from pullquote import _native
from pullquote._cli import (
    cite_command,
    embed_command,
    highlight_command,
    job_command,
    mcp_command,
    models_command,
    serve_command,
)
from pullquote._cli.completion import SHELLS, completion_script
from pullquote._cli.settings import add_settings
from pullquote._document_formats import PARSED, READABLE
from pullquote._models.choice import EMBEDDED_PACKAGE
from pullquote._request.signatures import did_you_mean
from pullquote.errors import InvalidArgumentError, PullquoteError

__all__ = ["Parser", "make_parser"]

EXIT_CODES = """exit codes:
  0    done
  1    nothing answers the question (highlight), or a sentence is not fully supported (cite)
  2    an argument is wrong
  65   a file is not text, or a model cannot be used
  66   a file or a model is not there
  69   no encoder, device or server, or a package is missing
  70   an encoder failed
  71   not enough memory
  73   the output cannot be written
  75   the server is overloaded, or the time was up: try again later
  76   the server's answer breaks the protocol
  77   the server needs another key
  130  interrupted"""

EXAMPLES = {
    "highlight": """examples:
  pullquote highlight "How much did Apollo cost?" apollo.txt
  pullquote highlight -r "Who paid?" notes/
  tesseract scan.png - | pullquote highlight -q "What is this for?"
  pullquote highlight --json -q "Who paid?" --max-total-highlights 3 pages/*.md
  pullquote highlight -q "Who paid?" --mark "<mark>" "</mark>" page.html
  pullquote highlight -q "What is this for?" https://example.org""",
    "cite": """examples:
  pullquote cite answer.md moon.html bread.txt
  pullquote cite --json answer.md notes/*.md
  some-model | pullquote cite - https://example.org/page""",
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
  pullquote mcp --folder notes/""",
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
            if "--format" in message and choice[1].lower() in PARSED:
                message += f"; leave it out: {READABLE} are recognized by themselves"
            else:
                message += did_you_mean(choice[1], re.findall(r"[\w-]+", choice[2]))
        self.exit(
            InvalidArgumentError.exit_code, f"{self.format_usage().splitlines()[0]}\n{self.prog}: error: {message}\n"
        )

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is sys.stdout:
            # argparse hides that a disk is full.
            file.write(message)
        else:
            super()._print_message(message, file)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        if args and args[0].startswith("-") and args[0] not in _flags(self):
            self.error(_unknown(args[0], self))
        options, unknown = self.parse_known_args(args, namespace)
        if hasattr(options, "files"):
            # Those after an option, for which argparse has no argument.
            options.files += [word for word in unknown if word == "-" or not word.startswith("-")]
            unknown = [word for word in unknown if word != "-" and word.startswith("-")]
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


def make_parser() -> Parser:
    """The parser of all commands. The attribute `run` of its result runs the command, and returns the exit code."""
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
        "[OPTIONS] QUERY [FILE ...]",
        "print the passages of files that answer a query",
        f"Reads {READABLE}, from files or from the web.",
    )
    highlight_command.add_options(highlight)
    highlight.set_defaults(run=highlight_command.run)

    cite = add(
        "cite",
        "[OPTIONS] ANSWER SOURCE ...",
        "check each sentence of a text against files",
        "Prints the passages that support it, or that none does.",
    )
    cite_command.add_options(cite)
    cite.set_defaults(run=cite_command.run)

    embed = add("embed", "[OPTIONS] -o FILE [FILE]", "write the vectors of lines of text to a .npy file", "")
    embed_command.add_options(embed)
    embed.set_defaults(run=embed_command.run)

    serve = add("serve", "[OPTIONS]", "serve over HTTP", "Prints its address when it is ready; open it in a browser.")
    serve.set_defaults(run=serve_command.run)

    job = add(
        "job",
        "[OPTIONS] --input FILES --output DIR -q QUERY",
        "find passages for files of pages",
        "Continues where an earlier run stopped.",
    )
    job_command.add_options(job)
    job.set_defaults(run=job_command.run)

    mcp = add(
        "mcp",
        "[OPTIONS]",
        "serve agents over the Model Context Protocol",
        "Over standard input and output; pullquote serve does it over HTTP.",
    )
    mcp_command.add_options(mcp)
    mcp.set_defaults(run=mcp_command.run)

    for command in (highlight, cite, embed, serve, job):
        reads_text = command in {highlight, cite, embed}
        _add_output(command, is_highlight=command is highlight, reads_text=reads_text)
    for name, command in commands.choices.items():
        add_settings(command, name)
    # A job reads each page once.
    job.set_defaults(cache_bytes=0)

    models = add(
        "models",
        "[OPTIONS] [get NAME ...]",
        "list the models of the cache, or download some",
        "The cache is that of the Hugging Face Hub.",
    )
    models_command.add_options(models)

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
