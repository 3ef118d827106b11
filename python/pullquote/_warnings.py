"""Warnings for the lines of a caller."""

from __future__ import annotations

import sys
import warnings

__all__ = ["warn"]


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning for the line outside this package that called it."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("pullquote."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
