"""Passages in a terminal: wrapped, with the query's words marked where the terminal can."""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from typing import TextIO

__all__ = ["Style"]

# Words that say nothing about what is asked; marking them would hide those that do.
STOP_WORDS = frozenset(
    [
        "a",
        "about",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "how",
        "in",
        "is",
        "it",
        "its",
        "of",
        "on",
        "or",
        "that",
        "the",
        "their",
        "this",
        "to",
        "was",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "whom",
        "whose",
        "why",
        "will",
        "with",
        "der",
        "die",
        "das",
        "und",
        "ist",
        "in",
        "wer",
        "was",
        "wann",
        "wo",
        "warum",
        "wie",
        "le",
        "la",
        "les",
        "des",
        "est",
        "qui",
        "que",
        "quoi",
        "quand",
        "el",
        "los",
        "las",
        "es",
        "quien",
        "cuando",
        "donde",
    ]
)
INDENT = "    "


class Style:
    """How a stream shows text: with colours on a terminal, plain elsewhere and where ``NO_COLOR`` is set."""

    def __init__(self, stream: TextIO) -> None:
        """Look at the stream and the environment once."""
        self.colours = stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self.width = min(shutil.get_terminal_size((100, 24)).columns, 100)

    def bold(self, text: str) -> str:
        """Print bold."""
        return self._escape("1", text)

    def dim(self, text: str) -> str:
        """Print faint."""
        return self._escape("2", text)

    def passage(self, text: str, query: str) -> str:
        """Wrap and indent a passage, with the query's words marked."""
        lines = []
        for line in text.splitlines():
            lines += textwrap.wrap(line, self.width, initial_indent=INDENT, subsequent_indent=INDENT) or [""]
        return self.mark("\n".join(lines), query)

    def mark(self, text: str, query: str) -> str:
        """Mark the words of the query, in any case and with any ending."""
        words = {word for word in re.findall(r"\w+", query.casefold()) if word not in STOP_WORDS}
        if not self.colours or not words:
            return text
        longest_first = sorted(words, key=len, reverse=True)
        pattern = "|".join(re.escape(word) for word in longest_first)
        # In scripts without spaces a word may start anywhere.
        start = r"\b" if query.isascii() else ""
        return re.sub(
            f"{start}(?:{pattern})", lambda match: self._escape("1;33", match.group()), text, flags=re.IGNORECASE
        )

    def _escape(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours else text
