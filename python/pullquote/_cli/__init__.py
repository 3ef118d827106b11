"""The command line: ``pullquote highlight``, ``embed``, ``serve``, ``job``, ``mcp`` and ``models``.

Prints text, or JSON lines with ``--json``. A file that cannot be read is an error on standard error; other files continue, and the
exit code is that of the first error (see `pullquote.errors`).
"""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Sequence

from pullquote._cli.messages import as_flags
from pullquote._cli.parser import make_parser
from pullquote._cli.source import complain
from pullquote.errors import InvalidArgumentError, PullquoteError

__all__ = ["check_arguments", "main"]

EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit code."""
    parser = make_parser()
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
    parser = make_parser()
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):
            parser.parse_args(arguments)
    except SystemExit:
        message = stderr.getvalue().strip().rpartition("error: ")[2]
        raise InvalidArgumentError(message) from None
