"""pullquote on Ray.

Pages of a Ray Data set (`PageHighlighter`), files of a job (``pullquote job --engine ray``), and the server as a deployment of
Ray Serve (`app`, `build`).

Importing this imports Ray, which ``pip install "pullquote[ray]"`` brings; importing pullquote does not. Ray Serve is imported
when `app` or `build` is asked for. See docs/ray.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullquote.ray._pages import PageHighlighter
from pullquote.ray._resources import given

if TYPE_CHECKING:
    from pullquote.ray._deployment import app, build

__all__ = ["PageHighlighter", "app", "build", "given"]


def __getattr__(name: str) -> Any:
    if name not in {"app", "build"}:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from pullquote.ray import _deployment  # noqa: PLC0415 - a job has no need of Ray Serve

    return getattr(_deployment, name)
