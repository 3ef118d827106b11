"""Shared by the adapters of frameworks: all documents of a framework's call become one call of `highlights`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pullquote import _native
from pullquote._engine.highlighter import Highlighter, shared_highlighter
from pullquote._models.choice import EMBEDDED_NAME
from pullquote._request.options import Options
from pullquote._request.signatures import did_you_mean, what_was_meant
from pullquote._results.prompts import subject
from pullquote.errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    from pullquote._results.highlight import Highlight
    from pullquote.client import Client

__all__ = [
    "Source",
    "breadcrumbs_of",
    "check_limit",
    "check_options",
    "check_source",
    "default_source",
    "embedding_source",
    "find_passages",
    "model_of",
    "title_of",
]

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


def embedding_source(source: Source | None, model: str | None, option: str) -> Source | None:
    """The source of an adapter's vectors: the highlighter that is given, or the shared one of the model.

    `option` is what the framework calls the model. Raises `InvalidArgumentError` for both.
    """
    check_source(source)
    if model is None or source is None:
        return source if model is None else shared_highlighter(None if model == EMBEDDED_NAME else model)
    if model == model_of(source):
        return source
    message = f"{option}={model!r} is not the model of the highlighter, {model_of(source)!r}; pass one of the two"
    raise InvalidArgumentError(message)


def model_of(source: Source | None) -> str:
    """The name of the model of a source; a server's is only known there."""
    return EMBEDDED_NAME if source is None else getattr(source, "model_name", "pullquote")


def check_options(options: Mapping[str, Any], adapter: str, own: Sequence[str] = ()) -> Options:
    """The options of an adapter's calls.

    Raises `InvalidTypeError`, a `TypeError`, for an unknown one, and for a wrong value what a call would raise.

    `own` are the adapter's arguments for all documents together, which an unknown option is compared with first. A framework
    passes them as one mapping, `options`, if it makes an adapter of its serialized form.
    """
    if isinstance(serialized := options.get("options"), Mapping):
        options = {**serialized, **{name: value for name, value in options.items() if name != "options"}}
    known = Options.__annotations__.keys() - SET_BY_ADAPTER
    if unknown := options.keys() - known:
        name = min(unknown)
        meant = what_was_meant(name, sorted(known))
        if of_all := did_you_mean(name, own):
            each = meant.removeprefix("; did you mean").removesuffix("?")
            meant = f"{of_all.removesuffix('?')} of all documents{f', or{each} of each' if each else ''}?"
        own_one = f"; {adapter} sets it" if name in SET_BY_ADAPTER else meant
        message = f"{adapter}(): got an unexpected keyword argument {name!r}{own_one}"
        raise InvalidTypeError(message)
    of_pages = {"titles", "ids", "count_tokens"} | (
        {"format"} if not isinstance(options.get("format", ""), str) else set()
    )
    _native.check_options({name: value for name, value in options.items() if name not in of_pages})
    return cast(Options, dict(options))


def check_limit(name: str, limit: object) -> None:
    """Raise `InvalidArgumentError` unless a number of passages of all documents is None or at least 1."""
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        message = f"{name} must be at least 1, or None for all, not {limit!r}"
        raise InvalidArgumentError(message)


def title_of(metadata: Mapping[str, Any]) -> str | None:
    """The document's title, which distinguishes competing documents."""
    title = metadata.get("title")
    return title if isinstance(title, str) and title else None


def breadcrumbs_of(passage: Highlight) -> dict[str, str]:
    """The metadata of a passage that names its subject: ``{"breadcrumbs": "Plans > Student"}``; empty without breadcrumbs."""
    names = subject(passage)
    return {"breadcrumbs": names} if names else {}


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
