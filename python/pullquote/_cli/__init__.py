"""The command line: ``pullquote highlight``, ``embed``, ``serve``, ``job``, ``mcp`` and ``models``.

Prints text, or JSON lines with ``--json``. A file that cannot be read is an error on standard error; other files continue, and the
exit code is that of the first error (see `pullquote.errors`).
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import warnings
from collections.abc import Sequence

from pullquote._cli.messages import as_flags
from pullquote._cli.parser import make_parser
from pullquote._cli.source import complain
from pullquote.errors import InvalidArgumentError, PullquoteError

__all__ = ["check_arguments", "main"]

EXIT_INTERRUPTED = 130
EXIT_NO_OUTPUT = 73
STANDARD_ERROR = 2
# A full disk, a quota, a limit of a file's size, a broken disk; a closed stream.
OUTPUT_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit code."""
    _open_closed_streams()
    try:
        try:
            return _run(sys.argv[1:] if arguments is None else arguments)
        finally:
            # Not at the interpreter's end, which could only print what is wrong.
            sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed it, like `head`.
        _drop_output()
        return 0
    except OSError as error:
        if error.filename is not None or error.errno not in OUTPUT_ERRORS:
            raise
        _drop_output()
        complain(f"standard output: {error.strerror}")
        return EXIT_NO_OUTPUT


def _run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    if not arguments:
        parser.print_help()
        return InvalidArgumentError.exit_code
    options = parser.parse_args(arguments)
    options.parser = parser.commands[options.command]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: complain(f"warning: {as_flags(str(message), options.parser)}")
            return int(options.run(options))
    except PullquoteError as error:
        complain(as_flags(str(error), options.parser))
        return error.exit_code


def _open_closed_streams() -> None:
    """Take the numbers of closed standard streams, which files that are opened later would get.

    Writing to standard output fails then, and what goes to standard error is lost.
    """
    for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        if stream is None:
            opened = os.open(os.devnull, os.O_WRONLY if number == STANDARD_ERROR else os.O_RDONLY)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - a number
    sys.stderr = sys.stderr or open(STANDARD_ERROR, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _drop_output() -> None:
    """Let what is not yet written go nowhere, so that the interpreter's end does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
