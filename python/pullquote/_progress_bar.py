"""Progress on standard error: a bar that is redrawn, or lines where there is no terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType

__all__ = ["ProgressBar"]

# Seconds between two updates of the bar, and between two lines.
INTERVAL = 0.1
LINE_INTERVAL = 60.0
WIDTH = 24


class ProgressBar:
    """Shows progress, rate and remaining time of a known total, if standard error is a terminal.

    With `writes_lines`, it writes a line at the start and one each minute if it is not. `done` is the work of earlier runs, which
    does not count for the rate.
    """

    def __init__(
        self, total: int, unit: str, *, done: int = 0, is_shown: bool = True, writes_lines: bool = False
    ) -> None:
        """`unit` is a singular, for example ``page``."""
        self._total, self._unit, self._done, self._before = total, unit, done, done
        is_terminal = sys.stderr.isatty()
        self._is_shown, self._writes_lines = is_shown and is_terminal, writes_lines and not is_terminal
        self._began = time.monotonic()
        self._next = self._began if self._writes_lines else self._began + INTERVAL
        self.note = ""

    def update(self, count: int) -> None:
        """Add finished work."""
        self._done += count
        if not (self._is_shown or self._writes_lines) or (now := time.monotonic()) < self._next:
            return
        if self._is_shown:
            self._next = now + INTERVAL
            bar = "#" * int(self._share() * WIDTH)
            sys.stderr.write(f"\r{self._share():4.0%} [{bar:<{WIDTH}}] {self._text()}\x1b[K")
        else:
            self._next = now + LINE_INTERVAL
            sys.stderr.write(f"pullquote: {self._share():.0%}, {self._text()}\n")
        sys.stderr.flush()

    def clear(self) -> None:
        """Clear the bar, for other output; the next update redraws it."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._next = 0.0

    def _share(self) -> float:
        return min(self._done / max(self._total, 1), 1.0)

    def _text(self) -> str:
        speed = (self._done - self._before) / max(time.monotonic() - self._began, 1e-9)
        left = f", {(self._total - self._done) / speed:,.0f} s left" if speed > 0 else ""
        return f"{self.note or f'{self._done:,} of {self._total:,} {self._unit}s'}{left}"

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()
