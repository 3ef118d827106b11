"""Representations of highlights: text in a terminal, and HTML in a notebook."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from pullquote.errors import PullquoteError

if TYPE_CHECKING:
    from pullquote._results.highlights import Highlight, Highlights

__all__ = ["as_html", "as_text", "highlight_as_text"]

# Passages that a representation shows, and characters of each line and of the page around a passage.
SHOWN = 10
LINE = 100
AROUND = 160
STYLE = (
    "font-family:system-ui,sans-serif;line-height:1.5;max-width:48em;margin:0 0 1em;"
    "border-left:3px solid #d9a400;padding:0 0 0 .8em"
)
FAINT = "opacity:.65"
MARK = "background:#ffe58a;color:#000;padding:.05em .1em"


def as_text(result: Highlights) -> str:
    """A line that counts, and a line for each of the best passages."""
    lines = [f"<Highlights: {_summary(result)}>"]
    for highlight in result.best()[:SHOWN]:
        query = f"query {highlight.query}, " if len(result.query_texts) > 1 else ""
        start = f"  {highlight.score:.2f}  {query}{_place(highlight)}  "
        lines.append(start + shortened(highlight.text, LINE - len(start)))
    return "\n".join([*lines, *_rest(result)])


def highlight_as_text(highlight: Highlight) -> str:
    """A line for a highlight: its position, its score, and the beginning of its text. Omits fields without a value."""
    place = "".join(
        f", {name}={value!r}"
        for name, value in (("query", highlight.query or None), ("id", highlight.id))
        if value is not None
    )
    start = (
        f"Highlight({highlight.start}-{highlight.end} of page {highlight.page}{place}, score={highlight.score:.2f}, "
    )
    return f"{start}{shortened(highlight.text, LINE - len(start) - 3)!r})"


def shortened(text: str, room: int) -> str:
    """A text in one line, cut to a few characters."""
    text, room = " ".join(text.split()), max(room, 20)
    return text if len(text) <= room else f"{text[: room - 1]}…"


def as_html(result: Highlights) -> str:
    """The best passages in their pages, with scores, and links for pages whose id is a URL."""
    parts = [f"<p>{html.escape(_summary(result))}</p>"]
    for highlight in result.best()[:SHOWN]:
        before, after = _around(result, highlight)
        place = html.escape(_place(highlight))
        if (link := _link(result, highlight)) is not None:
            place = f'<a href="{html.escape(link)}" target="_blank" rel="noopener noreferrer">{place}</a>'
        question = f" · {html.escape(result.query_texts[highlight.query])}" if len(result.query_texts) > 1 else ""
        parts.append(
            f'<div style="{STYLE}"><div style="{FAINT}"><b>{highlight.score:.2f}</b> · {place}{question}</div>'
            f'<div style="white-space:pre-wrap"><span style="{FAINT}">{html.escape(before)}</span>'
            f'<mark style="{MARK}">{html.escape(highlight.text)}</mark>'
            f'<span style="{FAINT}">{html.escape(after)}</span></div></div>'
        )
    parts += [f"<p>{line.strip()}</p>" for line in _rest(result)]
    return f"<div>{''.join(parts)}</div>"


def _summary(result: Highlights) -> str:
    passages, pages = len(result.scores), len(result.texts)
    formats = ", ".join(sorted(set(result.formats)))
    queries = f", {len(result.query_texts)} queries" if len(result.query_texts) > 1 else ""
    return f"{passages} {_plural('passage', passages)} of {pages} {_plural('page', pages)} ({formats}){queries}"


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"


def _place(highlight: Highlight) -> str:
    name = f"page {highlight.page}" if highlight.id is None else str(highlight.id)
    return f"{name}, characters {highlight.start}-{highlight.end}"


def _rest(result: Highlights) -> list[str]:
    more = len(result.scores) - SHOWN
    return [f"  and {more} more"] if more > 0 else []


def _around(result: Highlights, highlight: Highlight) -> tuple[str, str]:
    """The context of the call, else a few words of the page."""
    if highlight.before or highlight.after:
        return highlight.before, highlight.after
    text = result.texts[highlight.page]
    before = text[max(highlight.start - AROUND, 0) : highlight.start]
    after = text[highlight.end : highlight.end + AROUND]
    if highlight.start > AROUND:
        before = f"…{before.partition(' ')[2]}"
    if highlight.end + AROUND < len(text):
        after = f"{after.rpartition(' ')[0]}…"
    return before, after


def _link(result: Highlights, highlight: Highlight) -> str | None:
    if not isinstance(highlight.id, str) or not highlight.id.startswith(("http://", "https://")):
        return None
    try:
        return highlight.id.partition("#")[0] + result.text_fragment(highlight)
    except PullquoteError:
        return highlight.id
