"""``python -m pullquote`` is the command line."""

import sys

from pullquote.cli import main

if __name__ == "__main__":
    sys.exit(main())
