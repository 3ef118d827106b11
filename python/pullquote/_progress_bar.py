"""A progress bar on a terminal: one line of standard error, drawn over and over."""

from __future__ import annotations

import sys
import time
from types import TracebackType

__all__ = ["ProgressBar"]

# Seconds between two drawings.
INTERVAL = 0.1
WIDTH = 24


class ProgressBar:
    """How much of a known total is done, how fast, and how long the rest will take. Draws nothing where there is no terminal.

    ``done`` may begin above zero, where a part was done earlier; the speed counts only what was done since.
    """

    def __init__(self, total: int, unit: str, *, done: int = 0, is_shown: bool = True) -> None:
        """Name the total and its unit, like ``page``."""
        self._total, self._unit, self._done, self._before = total, unit, done, done
        self._is_shown = is_shown and sys.stderr.isatty()
        self._began = time.monotonic()
        self._next = self._began + INTERVAL
        self.note = ""

    def update(self, count: int) -> None:
        """Count what was done since the last call."""
        self._done += count
        if self._is_shown and time.monotonic() >= self._next:
            self._next = time.monotonic() + INTERVAL
            sys.stderr.write(f"\r{self._line()}\x1b[K")
            sys.stderr.flush()

    def clear(self) -> None:
        """Make room for a line of text; the next update draws the bar again."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._next = 0.0

    def _line(self) -> str:
        share = min(self._done / max(self._total, 1), 1.0)
        speed = (self._done - self._before) / max(time.monotonic() - self._began, 1e-9)
        left = f", {(self._total - self._done) / speed:,.0f} s left" if speed > 0 else ""
        bar = "#" * int(share * WIDTH)
        told = f"{self._done:,} of {self._total:,} {self._unit}s" if not self.note else self.note
        return f"{share:4.0%} [{bar:<{WIDTH}}] {told}{left}"

    def __enter__(self) -> ProgressBar:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the line away."""
        self.clear()
