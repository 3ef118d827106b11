"""The command line, as ``python -m pullquote``."""

import sys

from pullquote._cli import main

if __name__ == "__main__":
    sys.exit(main())
