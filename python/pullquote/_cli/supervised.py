"""The command line for a supervisor: it exits when its standard input closes, so it never outlives the process that started it.

::

    python -m pullquote._cli.supervised serve --uds /tmp/pullquote.sock
"""

from __future__ import annotations

import os
import sys
import threading

from pullquote import _cli

__all__ = ["main"]


def main() -> int:
    """Run the command line, and return its exit code."""
    threading.Thread(target=_exit_with_stdin, name="pullquote-supervised", daemon=True).start()
    return _cli.main()


def _exit_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    # The supervisor is gone, so there is no orderly shutdown to report.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
