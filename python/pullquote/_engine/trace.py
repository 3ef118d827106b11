"""The file of a trace."""

from __future__ import annotations

import os
from pathlib import Path

from pullquote._native import EngineHandle
from pullquote.errors import InvalidArgumentError

__all__ = ["TraceFile"]


class TraceFile:
    """Written once, by the process that opened it: a fork must not overwrite its parent's trace."""

    def __init__(self, path: str | Path) -> None:
        """Create the file. Raises `InvalidArgumentError` if it cannot be written."""
        self._path = Path(path)
        self._process = os.getpid()
        self._is_written = False
        try:
            self._path.touch()
        except OSError as error:
            message = f"trace must be a file that can be written, not {str(path)!r}: {error.strerror or error}"
            raise InvalidArgumentError(message) from None

    def write(self, engine: EngineHandle) -> None:
        """Write the engine's trace, the first time."""
        if not self._is_written and self._process == os.getpid():
            self._is_written = True
            engine.write_trace(str(self._path))
