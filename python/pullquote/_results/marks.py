"""Marks around passages and words: in HTML, Markdown or plain text, never across markup."""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pullquote import _native
from pullquote.errors import InvalidArgumentError

__all__ = ["Marks", "merged", "prose_spans", "shown_span", "start_of", "without_blank_lines"]

# A mark ends before a blank line, and another begins after it.
BLANK_LINE = re.compile(r"\s*\n[ \t\r]*\n\s*")
TAG = re.compile(r"<([A-Za-z][\w-]*)(?:\s[^<>]*)?>")
_Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Marks:
    """The text before and after a mark, and whether the text between is escaped for HTML."""

    pre: str
    post: str | None
    encoder: Literal["html"] | None

    def __post_init__(self) -> None:
        """Check the values; without `post`, that is the end of the tag `pre`."""
        if self.post is None and isinstance(self.pre, str):
            if (tag := TAG.fullmatch(self.pre)) is None:
                message = f"pre={self.pre!r} is not a tag of HTML, so there is no end of it; pass post too"
                raise InvalidArgumentError(message)
            object.__setattr__(self, "post", f"</{tag[1]}>")
        if self.encoder not in {"html", None}:
            message = f'encoder must be "html" or None, not {self.encoder!r}'
            raise InvalidArgumentError(message)
        for name, value in (("pre", self.pre), ("post", self.post)):
            if not isinstance(value, str):
                message = f"{name} must be a string, not {type(value).__name__}"
                raise InvalidArgumentError(message)

    def escaped(self, text: str) -> str:
        """The text as it stands around marks."""
        return html.escape(text) if self.encoder else text

    def around(self, text: str, spans: Iterable[_Span]) -> str:
        """The text with marks around spans, which are in order and do not overlap."""
        parts, written = [], 0
        for start, end in spans:
            parts += [self.escaped(text[written:start]), self.pre, self.escaped(text[start:end]), self.post or ""]
            written = end
        return "".join([*parts, self.escaped(text[written:])])


def shown_span(source: str, span: _Span) -> tuple[str, _Span]:
    """The text of Markdown that a browser shows, and where a span of the source is in it."""
    shown, first, last, length = [], None, 0, 0
    for run in _native.shown_runs(source):
        if run.start < span[1] and run.end > span[0]:
            # Where a run is not its source (an entity), it belongs to the span as a whole.
            verbatim = source[run.start : run.end] == run.text
            if first is None:
                first = length + (max(span[0] - run.start, 0) if verbatim else 0)
            last = length + (min(span[1] - run.start, len(run.text)) if verbatim else len(run.text))
        shown.append(run.text)
        length += len(run.text)
    return "".join(shown), (first or 0, last)


def merged(spans: Iterable[_Span]) -> list[_Span]:
    """Sorted, with overlapping ones joined."""
    merged: list[_Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def without_blank_lines(text: str, spans: Iterable[_Span]) -> list[_Span]:
    """The parts of spans between blank lines."""
    parts = []
    for start, end in spans:
        for gap in BLANK_LINE.finditer(text, start, end):
            if start < gap.start():
                parts.append((start, gap.start()))
            start = gap.end()  # noqa: PLW2901 - the rest of the span
        if start < end:
            parts.append((start, end))
    return parts


def prose_spans(source: str, spans: Iterable[_Span]) -> list[_Span]:
    """The parts of spans of Markdown that are prose, without white space around them; spans are in order."""
    runs = [(run.start, run.end) for run in _native.shown_runs(source) if run.is_prose and run.start < run.end]
    ends = [end for _, end in runs]
    parts = []
    for start, end in spans:
        for first, last in runs[bisect_right(ends, start) :]:
            if first >= end:
                break
            first, last = max(start, first), min(end, last)  # noqa: PLW2901 - the part within the span
            inner = source[first:last].strip()
            if inner:
                first = source.index(inner, first)  # noqa: PLW2901 - without white space
                parts.append((first, first + len(inner)))
    return parts


def start_of(text: str, size: int) -> str:
    """The start of a text, at most `size` characters, cut after a word if one ends there."""
    if len(text) <= size:
        return text
    cut = text[:size]
    end = max((match.start() for match in re.finditer(r"\s+", cut)), default=0)
    return (cut if text[size].isspace() or not end else cut[:end]).rstrip()
