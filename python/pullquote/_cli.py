"""The command line: ``pullquote highlight``, ``embed``, ``serve``, ``job``, ``mcp`` and ``models``.

Prints text, or JSON lines with ``--json``. A file that cannot be read is an error on standard error; other files continue, and the
exit code is that of the first error (see `pullquote.errors`).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import warnings
from collections.abc import Sequence

from pullquote import _mcp_command, _native, _server
from pullquote._cli_parser import as_flags, make_parser
from pullquote._cli_source import API_KEY, complain, highlighter, highlighter_or_client
from pullquote._embed_command import embed
from pullquote._highlight_command import highlight
from pullquote.errors import InvalidArgumentError, PullquoteError

__all__ = ["check_arguments", "main"]

MAX_BATCH_TIMEOUT = 2.0
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit code."""
    parser = make_parser(COMMANDS)
    given = sys.argv[1:] if arguments is None else arguments
    if not given:
        parser.print_help()
        return InvalidArgumentError.exit_code
    options = parser.parse_args(given)
    options.parser = parser.commands[options.command]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: complain(f"warning: {as_flags(str(message), options.parser)}")
            return int(options.run(options))
    except PullquoteError as error:
        complain(as_flags(str(error), options.parser))
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed it, like `head`.
        sys.stderr.close()
        return 0


def check_arguments(arguments: Sequence[str]) -> None:
    """Raise `InvalidArgumentError` for arguments that `main` would refuse."""
    parser = make_parser(COMMANDS)
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):
            parser.parse_args(arguments)
    except SystemExit:
        message = stderr.getvalue().strip().rpartition("error: ")[2]
        raise InvalidArgumentError(message) from None


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
    with highlighter_or_client(options, has_timeout=False) as source:
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
    with highlighter(options, _server.ServedHighlighter) as served:
        return _server.serve(served, options)


COMMANDS = {"highlight": highlight, "embed": embed, "serve": _serve, "job": _job, "mcp": _mcp}
