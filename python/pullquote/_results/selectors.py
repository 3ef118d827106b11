"""The position of a passage for other programs: links to which browsers scroll, and selectors of web annotations.

Each function takes a page and a span of it in characters (Unicode code points), like those of a `Highlight`. The page is text
only: a browser's page also has menus, footers, and blocks that only its HTML marks. A blank line counts as the end of a block,
and a line end as a space or, to be safe, also as the end of a block.

Text fragments follow https://wicg.github.io/scroll-to-text-fragment/ as Chromium 156 reads it, the selectors
https://www.w3.org/TR/annotation-model/#selectors.
"""

from __future__ import annotations

import re
import unicodedata
from enum import Enum, auto
from typing import Final, Literal, NamedTuple, TypedDict
from urllib.parse import quote

from pullquote.errors import InvalidArgumentError, InvalidTextError

__all__ = [
    "TextPositionSelector",
    "TextQuoteSelector",
    "text_fragment",
    "text_position_selector",
    "text_quote_selector",
]


class TextQuoteSelector(TypedDict):
    """A passage by its words and a few around them: the page contains ``prefix + exact + suffix``."""

    type: Literal["TextQuoteSelector"]
    exact: str
    prefix: str
    suffix: str


class TextPositionSelector(TypedDict):
    """A passage by its position: ``page[start:end]``, in code points."""

    type: Literal["TextPositionSelector"]
    start: int
    end: int


# Characters that a selector quotes on either side.
QUOTED: Final = 32
# Characters of the longest passage that is one term, and of the shortest that needs no context: menus often contain a "12".
# Chromium's "copy link to highlight" has the same two numbers.
LONGEST_WHOLE: Final = 300
SHORTEST_ALONE: Final = 20
# Characters by which a term may exceed its length to end where a word ends, also in scripts without spaces.
REACH: Final = 64

LINE_END: Final = re.compile(r"[\n\r\f]")
BLANK_LINE: Final = re.compile(r"(?:\r\n?|[\n\f])[ \t]*(?:\r\n?|[\n\f])")


class _Within(Enum):
    """What a prefix or suffix must stay within, from the safest to the widest."""

    OWN_LINE = auto()
    # The extractor may have dropped text between lines, so the next line may not be the next one in the browser.
    NEXT_LINE = auto()
    # A term lies within a block, so a browser finds one of several lines only if their ends are spaces.
    BLOCK = auto()


# The context to try, as characters on each side and their bound.
CONTEXTS: Final = (
    *((size, _Within.OWN_LINE) for size in (0, 20, 40, 80, 160, 320)),
    *((size, _Within.NEXT_LINE) for size in (20, 40, 80, 160, 320)),
    *((size, _Within.BLOCK) for size in (40, 80, 160, 320)),
    (320, _Within.OWN_LINE),  # nothing helped: the browser marks the first of the equal positions
)
# The same for each end of a long passage, after characters of its own.
ENDS: Final = (*((length, *CONTEXTS[0]) for length in (20, 40)), *((80, *context) for context in CONTEXTS))
# Maximum characters for each end of a line, so that the two ends do not overlap.
LONGEST_END: Final = LONGEST_WHOLE // 2

# HTML's white space: a browser shows a run of it as one space. Others, such as U+00A0 and U+3000, stay.
COLLAPSED: Final = re.compile(r"[ \t\n\r\f]+")
ZERO_WIDTH_SPACE: Final = "\u200b"
ZERO_WIDTH_JOINER: Final = "\u200d"
# Punctuation that may join the letters or digits around it to one word (UAX #29: MidLetter, MidNumLet, quotes between
# Hebrew letters, and what counts as a letter), and what joins digits only (MidNum).
JOINS_WORDS: Final = frozenset(
    "'\"’‘.:·\u2024\u2027\u0387\u055b\u055c\u055e\u055f\u05f3\u05f4\u30a0\u30fb\ufe13\ufe52\ufe55\uff07\uff0e\uff1a"
)
JOINS_DIGITS: Final = frozenset(",;\u037e\u0589\u060c\u060d\u066c\u07f8\u2044\ufe10\ufe14\ufe50\ufe54\uff0c\uff1b")
QUOTES: Final = dict.fromkeys("‘’‚‛׳", "'") | dict.fromkeys("“”„‟״", '"')


def text_fragment(page: str, start: int, end: int) -> str:
    """Make the fragment with which a browser scrolls to ``page[start:end]`` and marks it: ``#:~:text=...``.

    The fragment has all of a passage of one line and at most 300 characters, else its first and last words. It adds words before
    and after, up to about 320 characters on each side, if the passage begins or ends within a word, if it is shorter than 20
    characters (words of the same line), and if equal text comes earlier in the page (also from other lines). If even those
    repeat, the browser marks the first position.

    The fragment omits white space and invisible characters around the passage. If an invisible character (such as U+200F) follows
    the passage directly, it also omits the last letters, back to where Chromium can end a match.

    Takes linear time. Raises `InvalidArgumentError` for a span outside the page or without visible text, `InvalidTextError` for a
    lone surrogate.

    >>> text_fragment("It rained. The old ship sank in 1628, off Sweden.", 11, 36)
    '#:~:text=The%20old%20ship%20sank%20in%201628'
    """
    _check(page, start, end)
    passage = _visible(page, start, end)
    if passage is None:
        message = f"page[{start}:{end}] has no visible text that a browser could mark"
        raise InvalidArgumentError(message)
    whole = passage.end - passage.start <= LONGEST_WHOLE and not LINE_END.search(page, passage.start, passage.end)
    terms = _whole(page, passage) if whole else _ends(page, passage)
    try:
        return "#:~:text=" + terms.encoded(page)
    except UnicodeEncodeError as error:
        message = f"page[{start}:{end}] or the words around it have a lone surrogate, {error.object[error.start]!r}"
        raise InvalidTextError(message) from error


def text_quote_selector(page: str, start: int, end: int) -> TextQuoteSelector:
    """Quote ``page[start:end]`` with up to 32 characters before and after it (W3C Web Annotation Data Model, 4.2.4).

    Prefix and suffix have whole words if there is white space to cut at, and always whole characters, with their combining
    marks. Raises `InvalidArgumentError` for a span outside the page.

    >>> text_quote_selector("It rained. The old ship sank.", 11, 18)["suffix"]
    ' ship sank.'
    """
    _check(page, start, end)
    first, last = max(0, start - QUOTED), min(len(page), end + QUOTED)
    while first < start and _within_character(page, first):
        first += 1
    while last > end and _within_character(page, last):
        last -= 1
    if first and not page[first - 1].isspace():
        gap = re.search(r"\s+(?=\S)", page[first:start])
        first += gap.end() if gap else 0
    if last < len(page) and not page[last].isspace():
        gap = re.search(r"(?<=\S)\s+\S*\Z", page[end:last])
        last = end + gap.start() if gap else last
    return {
        "type": "TextQuoteSelector",
        "exact": page[start:end],
        "prefix": page[first:start],
        "suffix": page[end:last],
    }


def text_position_selector(page: str, start: int, end: int) -> TextPositionSelector:
    """Give the position of ``page[start:end]`` in code points (W3C Web Annotation Data Model, 4.2.5).

    Raises `InvalidArgumentError` for a span outside the page.

    >>> text_position_selector("It rained.", 3, 9)
    {'type': 'TextPositionSelector', 'start': 3, 'end': 9}
    """
    _check(page, start, end)
    return {"type": "TextPositionSelector", "start": start, "end": end}


def _check(page: str, start: int, end: int) -> None:
    if not 0 <= start <= end <= len(page):
        message = f"a span from {start} to {end} is not within 0 to {len(page)}, the page's characters"
        raise InvalidArgumentError(message)


class _Span(NamedTuple):
    start: int
    end: int


class _Terms(NamedTuple):
    """The parts of a text directive, as spans of the page."""

    prefix: _Span | None
    first: _Span
    last: _Span | None
    suffix: _Span | None

    def encoded(self, page: str) -> str:
        prefix, first, last, suffix = (_encoded(page[slice(*span)]) if span else "" for span in self)
        return ",".join(part for part in (prefix and f"{prefix}-", first, last, suffix and f"-{suffix}") if part)


def _encoded(term: str) -> str:
    # quote() keeps the hyphen, which would make a term a prefix or a suffix.
    return quote(COLLAPSED.sub(" ", term).strip(" "), safe="").replace("-", "%2D")


def _visible(page: str, start: int, end: int) -> _Span | None:
    """The span without invisible characters at its ends."""
    while start < end and (page[start].isspace() or _hidden(page[start])):
        start += 1
    while start < end and (page[end - 1].isspace() or _hidden(page[end - 1])):
        end -= 1
    if start == end:
        return None
    # In Unicode an invisible character belongs to the word before it. Chromium's matches omit it, and then fail because
    # they end within a word.
    if end < len(page) and _hidden(page[end]) and page[end] != ZERO_WIDTH_SPACE:
        for at in range(end - 1, max(start, end - REACH), -1):
            if _breaks(page, at) and not page[at - 1].isspace() and not _hidden(page[at - 1]):
                return _Span(start, at)
    return _Span(start, end)


def _whole(page: str, passage: _Span) -> _Terms:
    """The terms for a passage that is one term."""
    before = _folded(page[: passage.start])
    for size, within in CONTEXTS[1:] if passage.end - passage.start < SHORTEST_ALONE else CONTEXTS:
        prefix = _prefix(page, passage.start, size, within)
        suffix = _suffix(page, passage.end, size, within)
        first, last = prefix or passage, suffix or passage
        if _comes_first(page, before, passage.start, first.start, last.end):
            break
    return _Terms(prefix, passage, None, suffix)


def _ends(page: str, passage: _Span) -> _Terms:
    """The terms for a longer passage: its first words, from its first line, and its last words, from its last line."""
    start, end = passage
    lines = [line.start() for line in LINE_END.finditer(page, start, end)]
    limit = start + len(page[start : lines[0]].rstrip()) if lines else end
    floor = end - len(page[lines[-1] + 1 : end].lstrip()) if lines else start
    limit, floor = min(limit, start + LONGEST_END), max(floor, end - LONGEST_END)

    before = _folded(page[:start])
    for length, size, within in ENDS:
        prefix = _prefix(page, start, size, within)
        first = _Span(start, _term_end(page, start, min(limit, start + length), limit))
        if _comes_first(page, before, start, (prefix or first).start, first.end):
            break

    between = _folded(page[first.end : floor])
    for length, size, within in ENDS:
        last = _Span(_term_start(page, end, max(floor, end - length), floor), end)
        suffix = _suffix(page, end, size, within)
        if _comes_first(page, between, floor, last.start, (suffix or last).end):
            break
    return _Terms(prefix, first, last, suffix)


def _comes_first(page: str, before: str, known: int, start: int, end: int) -> bool:
    """Whether a browser that searches for ``page[start:end]`` finds no earlier match.

    `before` is the folded text from the start of the search up to `known`.
    """
    if start < known:
        before = before[: len(before) - len(_folded(page[start:known]))]
    else:
        before += _folded(page[known:start])
    sought = _folded(page[start:end])
    return (before + sought).find(sought) == len(before)


def _prefix(page: str, start: int, size: int, within: _Within) -> _Span | None:
    """At least `size` characters before `start`; `None` without a context, or if none can match."""
    end = len(page[:start].rstrip())
    size = size or not _breaks(page, start)
    if not size or not end or (within is _Within.OWN_LINE and LINE_END.search(page, end, start)):
        return None
    if _hidden(page[end - 1]):
        return None  # Chromium only finds a prefix directly before the passage
    floor = max(0, end - size - REACH)
    for gap in (BLANK_LINE if within is _Within.BLOCK else LINE_END).finditer(page, floor, end):
        floor = gap.end()
    while page[floor].isspace():
        floor += 1
    return _Span(_term_start(page, end, max(floor, end - size), floor), end)


def _suffix(page: str, end: int, size: int, within: _Within) -> _Span | None:
    """At least `size` characters after `end`; `None` without a context, or if none can match."""
    start = len(page) - len(page[end:].lstrip())
    size = size or not _breaks(page, end)
    if not size or start == len(page) or (within is _Within.OWN_LINE and LINE_END.search(page, end, start)):
        return None
    if _hidden(page[start]):
        return None
    limit = min(len(page), start + size + REACH)
    gap = (BLANK_LINE if within is _Within.BLOCK else LINE_END).search(page, start, limit)
    limit = start + len(page[start : gap.start() if gap else limit].rstrip())
    return _Span(start, _term_end(page, start, min(limit, start + size), limit))


def _term_start(page: str, end: int, wanted: int, floor: int) -> int:
    """The start of a term that stops at `end`: `wanted`, or the nearest start of a word before or else after it."""
    for positions in (range(wanted, floor - 1, -1), range(wanted + 1, end)):
        cut = _cut(page, positions, opens=True)
        if cut is not None:
            return cut
    while wanted > floor and _within_character(page, wanted):
        wanted -= 1
    return wanted


def _term_end(page: str, start: int, wanted: int, limit: int) -> int:
    """The end of a term that begins at `start`: `wanted`, or the nearest end of a word after or else before it."""
    for positions in (range(wanted, limit + 1), range(wanted - 1, start, -1)):
        cut = _cut(page, positions, opens=False)
        if cut is not None:
            return cut
    while wanted < limit and _within_character(page, wanted):
        wanted += 1
    return wanted


def _cut(page: str, positions: range, *, opens: bool) -> int | None:
    """The first of `positions` where a term may begin (`opens`) or stop: next to white space if possible, else between words."""
    best = None
    for at in positions:
        inner, outer = page[at : at + 1], page[at - 1 : at] if at else ""
        if not opens:
            inner, outer = outer, inner
        if inner and not inner.isspace() and not _hidden(inner) and _breaks(page, at):
            if not outer or outer.isspace():
                return at
            best = at if best is None else best
    return best


def _breaks(page: str, at: int) -> bool:
    """Whether words end at `at` by UAX #29 and by any dictionary of Chinese, Japanese or Thai."""
    if at in {0, len(page)} or page[at].isspace():
        return True
    if _attaches(page[at]):
        return False
    left = at - 1
    while left and _hidden(page[left]) and at - left < 8:  # no language has more than two or three in a row
        left -= 1
    if page[left].isspace() or (left == 0 and _hidden(page[left])):
        return True
    return left == at - 1 and (_separates(page, at) or _separates(page, left))


def _separates(page: str, at: int) -> bool:
    """Whether the character is punctuation or a symbol outside of words."""
    character = page[at]
    category = unicodedata.category(character)
    before = page[at - 1] if at else ""
    after = next((near for near in page[at + 1 : at + 4] if not _hidden(near)), "")
    if character in JOINS_WORDS:
        return not ((before.isalnum() or (before and _attaches(before))) and after.isalnum())
    if character in JOINS_DIGITS:
        return not (before.isnumeric() and after.isnumeric())
    if category == "Sk" and not character.isascii():
        return False  # modifier letters
    return category[0] in "PS" and category != "Pc" and not _is_flag_letter(character)


def _within_character(page: str, at: int) -> bool:
    """Whether `at` is within a character as readers see it (close to UAX #29's grapheme clusters)."""
    if not 0 < at < len(page):
        return False
    left, right = page[at - 1], page[at]
    return (
        _attaches(right)
        or left == ZERO_WIDTH_JOINER
        or (left == "\r" and right == "\n")
        or (_is_flag_letter(left) and _is_flag_letter(right))
        or ("\u1100" <= left <= "\u11ff" and "\u1160" <= right <= "\u11ff")
    )


def _attaches(character: str) -> bool:
    """Whether it belongs to the character before it: marks, skin tones of emoji, and invisible characters."""
    return unicodedata.category(character) in {"Mn", "Mc", "Me", "Cf"} or "\U0001f3fb" <= character <= "\U0001f3ff"


def _hidden(character: str) -> bool:
    """Whether it is invisible by itself. Tags (U+E0020 and after) are part of a flag."""
    return unicodedata.category(character) == "Cf" and character < "\U000e0000"


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


class _Folds(dict[int, str]):
    """What remains of a character when browsers compare text; filled on demand.

    Browsers ignore case and marks (UTS #10's primary level). This also drops white space, which may or may not separate two
    terms. Treating texts as equal that a browser distinguishes only makes a fragment longer.
    """

    def __missing__(self, code: int) -> str:
        character = chr(code)
        plain = unicodedata.normalize("NFKD", QUOTES.get(character, character).casefold())
        dropped = {"Mn", "Me", "Cf", "Cc", "Zs", "Zl", "Zp"}
        self[code] = folded = "".join(part for part in plain if unicodedata.category(part) not in dropped)
        return folded


_FOLDS: Final = _Folds()


def _folded(text: str) -> str:
    return text.translate(_FOLDS)
