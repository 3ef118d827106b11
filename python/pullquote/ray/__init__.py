"""pullquote on Ray.

`PageHighlighter` highlights the rows of a Ray Data set, ``pullquote job --engine ray`` the files of a job, and `app` and `build`
deploy the server on Ray Serve. docs/ray.md has examples.

Importing this imports Ray, which ``pip install "pullquote[ray]"`` installs. Using `app` or `build` imports Ray Serve.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullquote._extras import needs_extra

with needs_extra("ray"):
    from pullquote._engine.ray_resources import assigned_resources
    from pullquote.ray._pages import PageHighlighter

if TYPE_CHECKING:
    from pullquote.ray._deployment import app, build

__all__ = ["PageHighlighter", "app", "assigned_resources", "build"]


def __getattr__(name: str) -> Any:
    if name not in {"app", "build"}:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from pullquote.ray import _deployment  # noqa: PLC0415 - jobs do not need Ray Serve

    return getattr(_deployment, name)
