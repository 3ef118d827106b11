"""Representations of highlights: text in a terminal, and HTML in a notebook."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence

from pullquote._results.highlight import LINE, Highlight, shortened
from pullquote.errors import PullquoteError

__all__ = ["as_html", "as_text"]

# Passages that a representation shows, and characters of the page around a passage.
SHOWN = 10
AROUND = 160
STYLE = (
    "font-family:system-ui,sans-serif;line-height:1.5;max-width:48em;margin:0 0 1em;"
    "border-left:3px solid #d9a400;padding:0 0 0 .8em"
)
FAINT = "opacity:.65"
MARK = "background:#ffe58a;color:#000;padding:.05em .1em"


def as_text(best: list[Highlight], queries: Sequence[str], formats: Sequence[str], note: str) -> str:
    """A line that counts, and a line for each of the best passages."""
    lines = [f"<Highlights: {_summary(best, queries, formats, note)}>"]
    for highlight in best[:SHOWN]:
        query = f"query {highlight.query}, " if len(queries) > 1 else ""
        start = f"  {highlight.score:.2f}  {query}{_place(highlight)}  "
        lines.append(start + shortened(highlight.text, LINE - len(start)))
    return "\n".join([*lines, *_rest(best)])


def as_html(
    best: list[Highlight],
    queries: Sequence[str],
    formats: Sequence[str],
    note: str,
    texts: Sequence[str],
    text_fragment: Callable[[Highlight], str],
) -> str:
    """The best passages in their pages, with scores, and links for pages whose id is a URL."""
    parts = [f"<p>{html.escape(_summary(best, queries, formats, note))}</p>"]
    for highlight in best[:SHOWN]:
        before, after = _around(texts[highlight.page], highlight)
        place = html.escape(_place(highlight))
        if (link := _link(highlight, text_fragment)) is not None:
            place = f'<a href="{html.escape(link)}" target="_blank" rel="noopener noreferrer">{place}</a>'
        question = f" · {html.escape(queries[highlight.query])}" if len(queries) > 1 else ""
        parts.append(
            f'<div style="{STYLE}"><div style="{FAINT}"><b>{highlight.score:.2f}</b> · {place}{question}</div>'
            f'<div style="white-space:pre-wrap"><span style="{FAINT}">{html.escape(before)}</span>'
            f'<mark style="{MARK}">{html.escape(highlight.text)}</mark>'
            f'<span style="{FAINT}">{html.escape(after)}</span></div></div>'
        )
    parts += [f"<p>{line.strip()}</p>" for line in _rest(best)]
    return f"<div>{''.join(parts)}</div>"


def _summary(best: list[Highlight], queries: Sequence[str], formats: Sequence[str], note: str) -> str:
    passages, pages, kinds = len(best), len(formats), ", ".join(sorted(set(formats)))
    twins = sum(len(highlight.twins) for highlight in best)
    queries = f", {len(queries)} queries" if len(queries) > 1 else ""
    repeats = f"; {twins} {_plural('twin', twins)} left out" if twins else ""
    note = note and f"; {note}"
    counted = f"{passages} {_plural('passage', passages)} of {pages} {_plural('page', pages)}"
    return f"{counted} ({kinds}){queries}{repeats}{note}"


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"


def _place(highlight: Highlight) -> str:
    name = f"page {highlight.page}" if highlight.id is None else str(highlight.id)
    return f"{name}, characters {highlight.start}-{highlight.end}"


def _rest(best: list[Highlight]) -> list[str]:
    more = len(best) - SHOWN
    return [f"  and {more} more"] if more > 0 else []


def _around(text: str, highlight: Highlight) -> tuple[str, str]:
    """The context of the call, else a few words of the page."""
    if highlight.before or highlight.after:
        return highlight.before, highlight.after
    before = text[max(highlight.start - AROUND, 0) : highlight.start]
    after = text[highlight.end : highlight.end + AROUND]
    if highlight.start > AROUND:
        before = f"…{before.partition(' ')[2]}"
    if highlight.end + AROUND < len(text):
        after = f"{after.rpartition(' ')[0]}…"
    return before, after


def _link(highlight: Highlight, text_fragment: Callable[[Highlight], str]) -> str | None:
    if not isinstance(highlight.id, str) or not highlight.id.startswith(("http://", "https://")):
        return None
    try:
        return highlight.id.partition("#")[0] + text_fragment(highlight)
    except PullquoteError:
        return highlight.id
