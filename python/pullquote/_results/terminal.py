"""Passages in a terminal: wrapped, with matched words in colour."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Callable
from typing import TextIO

from pullquote._results.highlight import Highlight
from pullquote._results.prompts import subject

__all__ = ["Style"]

INDENT = "    "
# Of text around a passage, where colours do not tell them apart.
AROUND = "  | "
# Mark matched words until lines are wrapped. Unicode reserves these characters for internal use.
OPEN, CLOSE = "\ufdd0", "\ufdd1"


class Style:
    """Formats text for a stream: with colours on a terminal, unless ``NO_COLOR`` is set."""

    def __init__(self, stream: TextIO) -> None:
        """Read the stream and the environment, once."""
        self.colours = stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self.width = min(shutil.get_terminal_size((100, 24)).columns, 100)

    def bold(self, text: str) -> str:
        """Text in bold."""
        return self._escape("1", text)

    def dim(self, text: str) -> str:
        """Faint text."""
        return self._escape("2", text)

    def passage(self, highlight: Highlight, *, lists_words: bool = False) -> str:
        """Wrap and indent a passage, with its matches in colour, and its breadcrumbs and its context faint.

        Without colours, the latter have a bar, and `lists_words` adds the matches in a line.
        """

        def around(text: str) -> str:
            return self._lines(text, self.dim, INDENT if self.colours else AROUND)

        parts = [around(subject(highlight)), around(highlight.header), around(highlight.before)]
        parts.append(self._marked(highlight))
        parts.append(around(highlight.after))
        if lists_words and not self.colours and highlight.matches:
            words = dict.fromkeys(
                highlight.text[each.start - highlight.start :][: each.end - each.start] for each in highlight.matches
            )
            parts.append(f"{INDENT}(words: {', '.join(words)})")
        return "\n".join(part for part in parts if part)

    def wrapped(self, text: str) -> str:
        """Wrap and indent a text."""
        return self._lines(text, str)

    def _marked(self, highlight: Highlight) -> str:
        text = highlight.text
        if self.colours:
            for match in reversed(highlight.matches):
                start, end = match.start - highlight.start, match.end - highlight.start
                text = f"{text[:start]}{OPEN}{text[start:end]}{CLOSE}{text[end:]}"
        return self._lines(text, lambda line: line.replace(OPEN, "\x1b[1;33m").replace(CLOSE, "\x1b[0m"))

    def _lines(self, text: str, show: Callable[[str], str], indent: str = INDENT) -> str:
        lines = []
        for line in text.strip().splitlines():
            lines += textwrap.wrap(line, self.width, initial_indent=indent, subsequent_indent=indent) or [""]
        return "\n".join(show(line) if line else line for line in lines)

    def _escape(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours else text
