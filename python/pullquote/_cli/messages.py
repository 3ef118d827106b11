"""Messages of the library, with its options as the command line names them."""

from __future__ import annotations

import argparse
import re

__all__ = ["as_flags"]


def as_flags(message: str, command: argparse.ArgumentParser) -> str:
    """A message of the library, with its options as they are on the command line: ``--top-k`` for ``top_k``."""
    flags = {action.dest: action.option_strings[-1] for action in command._actions if action.option_strings}
    # A name that is a word of English too is an option at the start only. A name in quotes or in a path is none.
    ours = "|".join(sorted((name for name in flags if "_" in name), key=len, reverse=True)) or "(?!)"
    first = re.match(r"(\w+)(?= must | is )", message)
    if first and first[1] in flags:
        message = flags[first[1]] + message[first.end() :]
    # What only Python can pass.
    message = re.sub(r'(, "caller")?, or None\b( for [a-z ]+)?', "", message)
    return re.sub(rf"(?<![\w/.'\"-])({ours})(?![\w/.'\"])(=True)?", lambda found: flags[found[1]], message)
