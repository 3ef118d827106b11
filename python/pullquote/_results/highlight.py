"""One passage of a page."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from pullquote._results.fields import LISTS, HighlightDict, HighlightFields
from pullquote._results.marks import Marks, merged, without_blank_lines

__all__ = ["LINE", "Highlight", "json_id", "mark_spans", "shortened"]

# Characters of a line in a representation.
LINE = 100


@dataclass(frozen=True, slots=True)
class Highlight(HighlightFields):
    """A passage of a page, word for word: ``page[start:end] == text``.

    `start` and `end` count characters (Unicode code points), as Python's slices do.

    `score`, from 0 to 1, is the probability that the passage answers the query. It depends on the query, the passage and the
    language of its page. Other pages of the call do not change it, so scores of different calls compare. It comes from `cosine`
    and from the share of the query's words in the passage's best sentence. Rare words of the language weigh more.

    `cosine` (-1 to 1) and `bm25` (0 and more) are the best of the windows around that sentence.

    `page` and `query` are the indices of its text and of the query it answers, `id` is the page's id, if it has one.
    `start_byte` and `end_byte` are `start` and `end` in bytes of UTF-8; `None` if only a server has the page. `before` and
    `after` are the `context` around it, and `matches` the words that match, with `explain`. `source_start` and `source_end` are
    its position in the source, which differs from `start` and `end` for HTML only.

    `header` names the columns of a passage that begins below it in a table: a row of the page, word for word. Without a table, or
    if the passage contains that row, it is empty, and `header_start` is `None`. `breadcrumbs` name what the passage is
    about, outermost first: headings, the items around a nested one, a term, the question that it answers, the line that introduces
    a list or code, a caption, the speaker and time of its turn or subtitle, then that header. Each has its `text`, `start` and
    `end`.

    For a PDF that a `Client` sent with ``files=``, `page_number` is the page on which the passage begins, from 1. `rectangles`
    has one for each of its lines. Otherwise they are `None` and empty.

    `twins` are the passages that the option `dedupe` left out because they nearly repeat this one, each with its `page`, `start`
    and `end`. Passages after the last place of `top_k` or of a budget are not compared.
    """

    def marked(
        self,
        pre: str = "<em>",
        post: str | None = None,
        *,
        encoder: Literal["html"] | None = "html",
        words: bool | None = None,
    ) -> str:
        """The passage with `pre` and `post` around what answers, and with `before` and `after` outside of them.

        Without `post`, that is the end of the tag `pre`.

        They are around the words that match the query, if the call had ``explain=True`` and any match, else around the passage;
        `words` chooses between the two. Marks do not cross blank lines, so they never span two paragraphs. `encoder` escapes the
        text around them for HTML, ``None`` leaves it as it is.

        Raises `InvalidArgumentError` for an unknown `encoder`.

        >>> highlight = Highlight("Fish & chips.", 0, 13, 0.9, 0.8, 1.2)
        >>> highlight.marked("<b>")
        '<b>Fish &amp; chips.</b>'
        """
        marks = Marks(pre, post, encoder)
        page = [(start - self.start, end - self.start) for start, end in mark_spans(self, words)]
        spans = without_blank_lines(self.text, page)
        return marks.escaped(self.before) + marks.around(self.text, spans) + marks.escaped(self.after)

    def __repr__(self) -> str:
        place = "".join(
            f", {name}={value!r}"
            for name, value in (("query", self.query or None), ("id", self.id))
            if value is not None
        )
        start = f"Highlight({self.start}-{self.end} of page {self.page}{place}, score={self.score:.2f}, "
        return f"{start}{shortened(self.text, LINE - len(start) - 3)!r})"

    def to_dict(self) -> HighlightDict:
        """The fields as a dictionary that JSON can hold. An `id` that JSON has no type for, such as a `datetime`, is a string."""
        row: Any = asdict(self)
        row |= {name: list(row[name]) for name in LISTS} | {"id": json_id(self.id)}
        return row  # type: ignore[no-any-return]  # a test compares its keys


def json_id(id_: Any) -> Any:
    """A page's id as JSON can hold it."""
    return id_ if id_ is None or isinstance(id_, str | int | float) else str(id_)


def mark_spans(highlight: Highlight, words: bool | None) -> list[tuple[int, int]]:
    """What `marked` marks of a highlight, in the page: its words that match, or all of it; `None` is words if any match."""
    if highlight.matches if words is None else words:
        return merged((match.start, match.end) for match in highlight.matches)
    return [(highlight.start, highlight.end)]


def shortened(text: str, room: int) -> str:
    """A text in one line, cut to a few characters."""
    text, room = " ".join(text.split()), max(room, 20)
    return text if len(text) <= room else f"{text[: room - 1]}…"
