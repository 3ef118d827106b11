"""Progress of long calls where a person waits: in notebooks, and at an interactive prompt."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["call_progress"]

# Seconds until a call shows progress, and between two updates.
DELAY = 1.0
INTERVAL = 0.2
VARIABLE = "PULLQUOTE_PROGRESS"


@contextmanager
def call_progress() -> Iterator[_Report | None]:
    """A callback for the windows and encoded rows of a running call; `None` unless a person watches.

    The environment variable ``PULLQUOTE_PROGRESS=0`` turns it off.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    is_notebook = shell is not None and getattr(shell, "kernel", None) is not None
    is_prompt = (shell is not None or hasattr(sys, "ps1")) and sys.stderr is not None and sys.stderr.isatty()
    if os.environ.get(VARIABLE) == "0" or not (is_notebook or is_prompt):
        yield None
        return
    report = _Report(is_notebook)
    try:
        yield report
    finally:
        report.clear()


class _Report:
    """Shows a bar, and removes it at the end."""

    def __init__(self, is_notebook: bool) -> None:
        self._is_notebook = is_notebook
        self._began = time.monotonic()
        self._next = self._began + DELAY
        self._handle: Any = None
        self._is_shown = False

    def __call__(self, windows: int, rows: int) -> None:
        now = time.monotonic()
        if now < self._next or not windows:
            return
        self._next = now + INTERVAL
        # `effort` may need fewer windows than there are.
        text = f"{rows:,} of at most {windows:,} windows encoded, {now - self._began:,.0f} s"
        if self._is_notebook:
            self._display(f'<progress value="{rows}" max="{windows}"></progress> {text}')
        else:
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()
        self._is_shown = True

    def clear(self) -> None:
        if not self._is_shown:
            return
        if self._is_notebook:
            # Empty HTML would stay in a saved notebook.
            self._handle.update({"text/plain": ""}, raw=True)
        else:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _display(self, text: str) -> None:
        from IPython.display import HTML, display  # noqa: PLC0415 - a notebook runs here, so it is imported already

        if self._handle is None:
            self._handle = display(HTML(text), display_id=True)
        else:
            self._handle.update(HTML(text))
