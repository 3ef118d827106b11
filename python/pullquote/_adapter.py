"""Shared by the adapters of frameworks: all documents of a framework's call become one call of `highlights`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pullquote._engine.highlighter import Highlighter, shared_highlighter
from pullquote._request.options import Options
from pullquote._request.signatures import what_was_meant
from pullquote.errors import InvalidTypeError

if TYPE_CHECKING:
    from pullquote._results.highlight import Highlight
    from pullquote.client import Client

__all__ = ["Source", "check_options", "check_source", "default_source", "find_passages", "title_of"]

Source: TypeAlias = "Highlighter | Client"

# The adapter sets these from the framework's query and documents.
SET_BY_ADAPTER = {"titles", "pairing", "fuse"}


def default_source(source: Source | None) -> Source:
    """The given source, or the highlighter that `pullquote.highlights` shares; its first use loads the model."""
    return shared_highlighter() if source is None else source


def check_source(source: object) -> None:
    """Raise `InvalidTypeError` unless the value is None or has the methods of a `Highlighter` or a `Client`."""
    if source is not None and not (hasattr(source, "highlights") and hasattr(source, "embed")):
        message = f"highlighter must be a Highlighter, a Client, or None for the shared highlighter, not {source!r:.80}"
        raise InvalidTypeError(message)


def check_options(options: Mapping[str, Any], adapter: str) -> Options:
    """The options of an adapter's calls. Raises `InvalidTypeError`, a `TypeError`, for an unknown one."""
    known = Options.__annotations__.keys() - SET_BY_ADAPTER
    if unknown := options.keys() - known:
        name = min(unknown)
        own = f"; {adapter} sets it" if name in SET_BY_ADAPTER else what_was_meant(name, sorted(known))
        message = f"{adapter}(): got an unexpected keyword argument {name!r}{own}"
        raise InvalidTypeError(message)
    return cast(Options, dict(options))


def title_of(metadata: Mapping[str, Any]) -> str | None:
    """The document's title, which distinguishes competing documents."""
    title = metadata.get("title")
    return title if isinstance(title, str) and title else None


def find_passages(
    source: Source,
    query: str,
    texts: Sequence[str],
    titles: Iterable[str | None],
    options: Options,
    limit: int | None = None,
) -> list[Highlight]:
    """The passages of all texts, at most `limit`: best first, or with ``order="position"`` as in the texts."""
    if not texts:
        return []
    call: Options = {**options, "titles": titles}
    found = source.highlights(query, texts, **call)
    best = found.best(limit)
    if options.get("order") == "position":
        return sorted(best, key=lambda highlight: (highlight.page, highlight.start))
    return best
