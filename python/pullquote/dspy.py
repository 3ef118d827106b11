"""DSPy: passages as a tool of an agent, and as citations. Needs ``pip install "pullquote[dspy]"``.

Vectors need no adapter: ``dspy.Embedder(highlighter.embed, caching=False)``. DSPy's cache would copy the highlighter, and not
know models apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack

from pullquote._adapter import Source, check_limit, check_options, check_source, default_source, find_passages
from pullquote._extras import needs_extra
from pullquote._request.options import Options
from pullquote._results.highlights import Highlights
from pullquote.errors import InvalidArgumentError, InvalidTypeError

with needs_extra("dspy"):
    import dspy
    from dspy.experimental import Citations

__all__ = ["Passage", "citations", "passages_tool"]


class Passage(TypedDict):
    """A passage that the tool found: characters `start` to `end` of `document`, word for word."""

    text: str
    document: str
    start: int
    end: int
    score: float


def passages_tool(
    documents: Mapping[str, str],
    highlighter: Source | None = None,
    *,
    name: str = "find_passages",
    desc: str = "Find the passages of the documents that answer a question, word for word.",
    top_n: int | None = None,
    **options: Unpack[Options],
) -> dspy.Tool:
    """A tool for `dspy.ReAct`: from a question to the passages of `documents` (title to text) that answer it, best first.

    All documents are one call of `highlights`. `highlighter` is a `Highlighter` or `Client`, or `None` for the shared one.
    `top_n` is the maximum of passages of all documents together, and `options` are those of `Highlighter.highlights` except
    `titles`, `pairing` and `fuse`.

    Raises `InvalidTypeError` for an unknown option, and for documents that are not a mapping. The tool raises the errors of
    `Highlighter.highlights`.
    """
    checked = check_options(options, "passages_tool", ["top_n"])
    check_source(highlighter)
    check_limit("top_n", top_n)
    if not isinstance(documents, Mapping):
        message = f"documents must be a mapping from titles to texts, not {type(documents).__name__}"
        raise InvalidTypeError(message)
    titles, texts = list(documents), list(documents.values())

    def find(question: str) -> list[Passage]:
        passages = find_passages(default_source(highlighter), question, texts, titles, checked, top_n)
        return [
            {
                "text": passage.text,
                "document": titles[passage.page],
                "start": passage.source_start,
                "end": passage.source_end,
                "score": passage.score,
            }
            for passage in passages
        ]

    return dspy.Tool(find, name=name, desc=desc, arg_desc={"question": "a whole question, in any language"})


def citations(found: Highlights, titles: Sequence[str | None] | None = None) -> Citations:
    """The highlights as citations of the type ``char_location``, in their order; `titles` are those of the pages.

    `document_index` is the page's number, and `start_char_index` and `end_char_index` count its characters.

    Raises `InvalidArgumentError` for another number of titles than of pages.
    """
    if titles is not None and len(titles) != len(found.texts):
        message = f"titles: {len(titles)}, but pages: {len(found.texts)}; pass one for each page"
        raise InvalidArgumentError(message)
    return Citations(
        citations=[
            Citations.Citation(
                cited_text=highlight.text,
                document_index=highlight.page,
                document_title=None if titles is None else titles[highlight.page],
                start_char_index=highlight.source_start,
                end_char_index=highlight.source_end,
            )
            for page in found
            for highlight in page
        ]
    )
