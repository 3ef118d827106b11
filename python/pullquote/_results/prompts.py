"""Highlights for language models: numbered passages, the way back from a number, citations, and the description of a tool."""

from __future__ import annotations

import operator
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypedDict

from pullquote._request.token_counter import token_counter
from pullquote._results.highlight import Highlight
from pullquote._warnings import warn
from pullquote.errors import InvalidArgumentError, InvalidTypeError, UsageWarning

__all__ = ["Citation", "Resolved", "citations", "prompt", "resolve", "resolve_all", "tool_schema"]

_Titles = Sequence[str | None] | None

# Bytes of UTF-8: English has 4 to 5 in a token, Chinese and Japanese 3.
BYTES_PER_TOKEN = 3
LONGEST_RANGE = 20
# Characters of a breadcrumb.
LONGEST_NAME = 120
# What needs no colon after it.
ENDS = ("?", "!", ":", ".", "…")
# Of headings, items, quotes and emphasis.
MARKS = re.compile(r"^[\s>#*_`•+=-]+|[\s#*_`=-]+$")
# Numbers as language models write them: [2], [1, 3], [1-3], [^2] and 【2】.
MARKER = re.compile(r"[\[【]\^?(\d{1,9}(?:\s*[,;–-]\s*\d{1,9})*)[\]】]", re.ASCII)


class Citation(TypedDict):
    """A passage as Anthropic's Messages API cites one: ``document[start_char_index:end_char_index] == cited_text``."""

    type: Literal["char_location"]
    cited_text: str
    document_index: int
    document_title: str | None
    start_char_index: int
    end_char_index: int


class Resolved(NamedTuple):
    """The passages of an answer's numbers, and its numbers without a passage."""

    highlights: dict[int, Highlight]
    unknown: list[int]


def prompt(
    best: list[Highlight], titles: _Titles, max_tokens: int | None, count_tokens: Callable[[str], int] | None
) -> tuple[str, int]:
    """`Highlights.prompt`, and the number of its passages."""
    if max_tokens is not None and (not isinstance(max_tokens, int) or max_tokens < 1):
        message = f"max_tokens must be a whole number from 1, or None for all passages, not {max_tokens!r}"
        raise InvalidArgumentError(message)
    count, text, included = _estimated_tokens if count_tokens is None else token_counter(count_tokens), "", 0
    for number, highlight in enumerate(best, 1):
        passage = f"{highlight.header}\n{highlight.text}" if highlight.header else highlight.text
        if names := subject(highlight):
            passage = f"{names}{' ' if names.endswith(ENDS) else ': '}{passage}"
        longer = f"{text}{text and chr(10) * 2}[{number}] {_source(titles, highlight)}\n{passage.strip()}"
        if max_tokens is not None and count(longer) > max_tokens:
            if number == 1:
                message = (
                    f"max_tokens={max_tokens} has no room for the best passage, which needs {count(longer)}; allow more"
                )
                warn(message, UsageWarning)
            break
        text, included = longer, number
    return text, included


def subject(highlight: Highlight) -> str:
    """The breadcrumbs in one line, without the header of a table and the marks of Markdown: ``Plans > Student``."""
    named = (each.text for each in highlight.breadcrumbs if each.start != highlight.header_start)
    names = (textwrap.shorten(MARKS.sub("", name), LONGEST_NAME, placeholder=" …") for name in named)
    return " > ".join(name for name in names if name)


def resolve(best: list[Highlight], number: str | int) -> Highlight:
    """`Highlights.resolve`."""
    if isinstance(number, str):
        named = [int(number)] if number.strip().isdecimal() else _numbers(number)
    else:
        named = [operator.index(number)] if hasattr(number, "__index__") else []
    if len(named) > 1:
        message = f"number must be one, not the {len(named)} of {number!r:.80}; resolve_all(answer) finds them all"
        raise InvalidArgumentError(message)
    place = named[0] if named else 0
    if not 1 <= place <= len(best):
        known = f", [1] to [{len(best)}]," if best else ", which has no passages,"
        message = f"number must be one of those of prompt(){known} not {number!r}"
        raise InvalidArgumentError(message)
    return best[place - 1]


def resolve_all(best: list[Highlight], answer: str) -> Resolved:
    """`Highlights.resolve_all`."""
    if not isinstance(answer, str):
        message = f"answer must be a string, not {type(answer).__name__}"
        raise InvalidTypeError(message)
    named = _numbers(answer)
    known = {number: best[number - 1] for number in named if 1 <= number <= len(best)}
    return Resolved(known, [number for number in named if number not in known])


def _numbers(answer: str) -> list[int]:
    """The numbers of an answer's markers, each once; of a range, all."""
    numbers: dict[int, None] = {}
    for marker in MARKER.finditer(answer):
        for part in re.split(r"[,;]", marker[1]):
            first, *last = (int(number) for number in re.split("[–-]", part))
            # Of a range of years, only its ends.
            whole = range(first, last[0] + 1) if last and last[0] - first < LONGEST_RANGE else (first, *last)
            numbers |= dict.fromkeys(whole)
    return list(numbers)


def citations(best: list[Highlight], titles: _Titles) -> list[Citation]:
    """`Highlights.as_citations`."""
    return [
        {
            "type": "char_location",
            "cited_text": highlight.text,
            "document_index": highlight.page,
            "document_title": _title(titles, highlight),
            "start_char_index": highlight.start,
            "end_char_index": highlight.end,
        }
        for highlight in best
    ]


def tool_schema(api: Literal["anthropic", "openai"] = "anthropic") -> dict[str, Any]:
    """The description of a tool with which a language model finds passages in pages that you have.

    The model chooses the arguments, and you the pages: ``pullquote.highlights(texts=pages, **arguments).prompt()`` is what to
    return to it. `api` is that of Anthropic's Messages or OpenAI's Chat Completions.

    Raises `InvalidArgumentError` for an unknown `api`.

    >>> tool_schema()["input_schema"]["required"]
    ['query']
    """
    schema = {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "A question in plain words, or what the passages should be about.",
            },
            "max_total_highlights": {
                "type": "integer",
                "minimum": 1,
                "description": "Maximum number of passages of all pages together, the best ones; about 5 is enough to answer.",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    name, description = (
        "find_passages",
        "Finds the passages of the available pages that answer a query, word for word, each with the number of its source. Cite "
        "a passage by its number, such as [1].",
    )
    if api == "anthropic":
        return {"name": name, "description": description, "input_schema": schema}
    if api == "openai":
        return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}
    message = f'api must be "anthropic" or "openai", not {api!r}'
    raise InvalidArgumentError(message)


def _title(titles: _Titles, highlight: Highlight) -> str | None:
    title = titles[highlight.page] if titles else None
    return title or (None if highlight.id is None else str(highlight.id))


def _source(titles: _Titles, highlight: Highlight) -> str:
    return " ".join((_title(titles, highlight) or f"page {highlight.page}").split())


def _estimated_tokens(text: str) -> int:
    return -(-len(text.encode()) // BYTES_PER_TOKEN)
