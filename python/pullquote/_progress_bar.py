"""A progress bar: one line of standard error, redrawn."""

from __future__ import annotations

import sys
import time
from types import TracebackType

__all__ = ["ProgressBar"]

# Seconds between two updates of the line.
INTERVAL = 0.1
WIDTH = 24


class ProgressBar:
    """Shows progress, rate and remaining time of a known total, if standard error is a terminal.

    `done` is the work of earlier runs, which does not count for the rate.
    """

    def __init__(self, total: int, unit: str, *, done: int = 0, is_shown: bool = True) -> None:
        """`unit` is a singular, for example ``page``."""
        self._total, self._unit, self._done, self._before = total, unit, done, done
        self._is_shown = is_shown and sys.stderr.isatty()
        self._began = time.monotonic()
        self._next = self._began + INTERVAL
        self.note = ""

    def update(self, count: int) -> None:
        """Add finished work."""
        self._done += count
        if self._is_shown and time.monotonic() >= self._next:
            self._next = time.monotonic() + INTERVAL
            sys.stderr.write(f"\r{self._line()}\x1b[K")
            sys.stderr.flush()

    def clear(self) -> None:
        """Clear the line, for other output; the next update redraws it."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._next = 0.0

    def _line(self) -> str:
        share = min(self._done / max(self._total, 1), 1.0)
        speed = (self._done - self._before) / max(time.monotonic() - self._began, 1e-9)
        left = f", {(self._total - self._done) / speed:,.0f} s left" if speed > 0 else ""
        bar = "#" * int(share * WIDTH)
        text = self.note or f"{self._done:,} of {self._total:,} {self._unit}s"
        return f"{share:4.0%} [{bar:<{WIDTH}}] {text}{left}"

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()
