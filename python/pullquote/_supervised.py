"""The command line for a program that starts it: it ends as soon as its standard input does, however that program has ended.

::

    python -m pullquote._supervised serve --uds /tmp/pullquote.sock
"""

from __future__ import annotations

import os
import sys
import threading

from pullquote import _cli

__all__ = ["main"]


def main() -> int:
    """Run the command line; returns the exit code, where the starter is still there to hear of it."""
    threading.Thread(target=_watch, name="pullquote-attached", daemon=True).start()
    return _cli.main()


def _watch() -> None:
    while os.read(0, 4096):
        pass
    # Nobody is there for whom anything could be ended in order.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
