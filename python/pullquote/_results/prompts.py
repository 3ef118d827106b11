"""Highlights for language models: numbered passages, the way back from a number, citations, and the description of a tool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict

from pullquote._results.highlight import Highlight
from pullquote._warnings import warn
from pullquote.errors import InvalidArgumentError, UsageWarning

__all__ = ["Citation", "citations", "prompt", "resolve", "tool_schema"]

_Titles = Sequence[str | None] | None

# Bytes of UTF-8: English has 4 to 5 in a token, Chinese and Japanese 3.
BYTES_PER_TOKEN = 3


class Citation(TypedDict):
    """A passage as Anthropic's Messages API cites one: ``document[start_char_index:end_char_index] == cited_text``."""

    type: Literal["char_location"]
    cited_text: str
    document_index: int
    document_title: str | None
    start_char_index: int
    end_char_index: int


def prompt(
    best: list[Highlight], titles: _Titles, max_tokens: int | None, count_tokens: Callable[[str], int] | None
) -> str:
    """`Highlights.prompt`."""
    if max_tokens is not None and (not isinstance(max_tokens, int) or max_tokens < 1):
        message = f"max_tokens must be a whole number from 1, or None for all passages, not {max_tokens!r}"
        raise InvalidArgumentError(message)
    count, text = count_tokens or _estimated_tokens, ""
    for number, highlight in enumerate(best, 1):
        passage = f"{highlight.header}\n{highlight.text}" if highlight.header else highlight.text
        longer = f"{text}{text and chr(10) * 2}[{number}] {_source(titles, highlight)}\n{passage.strip()}"
        if max_tokens is not None and count(longer) > max_tokens:
            if number == 1:
                message = (
                    f"max_tokens={max_tokens} has no room for the best passage, which needs {count(longer)}; allow more"
                )
                warn(message, UsageWarning)
            break
        text = longer
    return text


def resolve(best: list[Highlight], number: str | int) -> Highlight:
    """`Highlights.resolve`."""
    plain = number.strip().removeprefix("[").removesuffix("]") if isinstance(number, str) else str(number)
    if not (plain.isascii() and plain.isdigit()) or not 1 <= int(plain) <= len(best):
        message = f"number must be one of those of prompt(), [1] to [{len(best)}], not {number!r}"
        raise InvalidArgumentError(message)
    return best[int(plain) - 1]


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
