"""``python -m pullquote`` is the command line."""

import sys

from pullquote._cli import main

if __name__ == "__main__":
    sys.exit(main())
