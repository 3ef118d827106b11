"""Where time goes: the totals of stages, and the file of a trace."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pullquote.errors import InvalidArgumentError

__all__ = ["StageTime", "TraceFile"]


@dataclass(frozen=True, slots=True)
class StageTime:
    """How long a stage took, and how often it was gone through."""

    seconds: float
    """In all; stages of different calls and batches go on at the same time."""
    count: int
    """How often."""


class _Traced(Protocol):
    def write_trace(self, path: str) -> None: ...


class TraceFile:
    """The file that a trace is written to, once, by the process that asked for it.

    Raises `InvalidArgumentError` where the file cannot be written: before any work is done, not behind it.
    """

    def __init__(self, path: str | Path) -> None:
        """Make the file, empty."""
        self._path = Path(path)
        self._process = os.getpid()
        self._is_written = False
        try:
            self._path.touch()
        except OSError as error:
            message = f"trace must be a file that can be written, not {str(path)!r}: {error.strerror or error}"
            raise InvalidArgumentError(message) from None

    def write(self, traced: _Traced) -> None:
        """Write what is remembered, unless it was written or this is a fork."""
        if not self._is_written and self._process == os.getpid():
            self._is_written = True
            traced.write_trace(str(self._path))
