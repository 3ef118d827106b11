"""Text fragments and selectors lead back to their passage, by a matcher that follows the specification."""

from __future__ import annotations

import doctest
import re
import unicodedata

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pullquote._results import selectors
from pullquote._results.selectors import text_fragment, text_position_selector, text_quote_selector
from pullquote.errors import InvalidArgumentError, InvalidTextError
from support.messages import raises
from support.text_fragment_browser import ANY_LINE, BLANK_LINE, FragmentBrowser, parsed


def span(page: str, passage: str, count: int = 0) -> tuple[int, int]:
    """The span of a passage, after `count` equal ones."""
    start = -1
    for _ in range(count + 1):
        start = page.index(passage, start + 1)
    return start, start + len(passage)


LONG = " ".join(f"Sentence {n} tells of ship {n * n}, and of its {n + 3} masts." for n in range(40))

# (page, passage, how many the same come before it, the fragment's terms where they are worth reading)
CASES = {
    "sentence": (
        "It rained. The old ship sank in 1628, off Sweden. Then it was raised.",
        "The old ship sank in 1628, off Sweden.",
        0,
        ("", "The old ship sank in 1628, off Sweden.", "", ""),
    ),
    "start": ("The whole story begins here, in the harbour.", "The whole story begins", 0, None),
    "end": ("In the harbour, the whole story ends", "the whole story ends", 0, None),
    "everything": ("A page of a single sentence.", "A page of a single sentence.", 0, None),
    "number": ("Pages 3 to 12 of 120, and 12 again.", "12", 2, None),
    "cell": ("Apples\n12\nPears\n12\nPlums\n15", "12", 1, ("Pears", "12", "", "Plums")),
    "repeated": (
        "See the note below. Red: see the note below. Blue: see the note below. Green.",
        "see the note below",
        1,
        None,
    ),
    "repeated in case": ("THE NOTE ABOVE IS OLD. But the note above is old.", "the note above is old", 0, None),
    "repeated with marks": ("Der Bär über den Bergen. Der Bar uber den Bergen!", "Der Bar uber den Bergen", 0, None),
    "overlapping": ("Go ha ha ha ha ha ha ha ha ha ha ha ha! Stop.", "ha ha ha ha ha ha ha ha!", 0, None),
    "soft wrap": ("The quick brown\nfox jumps over\nthe lazy dog.\n\nNext.", "fox jumps over\nthe lazy dog.", 0, None),
    "one wrap": (
        "The quick brown\nfox jumps over\nthe lazy dog.",
        "brown\nfox",
        0,
        ("", "brown", "fox", ""),
    ),
    "repeated across a wrap": (
        "one two\nsame words here\n\nthree four\nsame words here\n\nfive two\nsame words here",
        "same words here",
        1,
        None,
    ),
    "lines repeated": (
        "one two\nsame line\nsame words here\n\nthree four\nsame line\nsame words here",
        "same words here",
        1,
        ("three four same line", "same words here", "", ""),
    ),
    "paragraphs that begin alike": (
        "First.\n\nThe note below is red.\n\nSecond.\n\nThe note below is blue.",
        "The note below",
        1,
        ("", "The note below", "", "is blue."),
    ),
    "short line": ("Apples\nabout 12\nPears", "about 12", 0, ("", "about 12", "", "")),
    "blocks": ("Heading\n\nFirst paragraph.\n\nSecond paragraph.", "Heading\n\nFirst paragraph.", 0, None),
    "blocks alike": ("a b\nx\n\nc d\nx\n\ne f\nx\n\ng", "x\n\ne f", 0, None),
    "long": (LONG, LONG[200:900].partition(" ")[2].rpartition(" ")[0], 0, None),
    "within words": ("An unhappy, misunderstood author.", "happy, misunder", 0, None),
    "decimals": ("It rose from 3.14 to 3.15, don't ask.", "14 to 3", 0, None),
    "syntax": (
        "Well-known: a, b & c - 100% of #1? Yes/no = +1.",
        "Well-known: a, b & c - 100% of #1? Yes/no = +1",
        0,
        None,
    ),
    "edges": ("He said: “(Hello), world!” - and left again.", "“(Hello), world!” -", 0, None),
    "no-break": (
        "It takes 5\u00a0\u00a0km or 10\u00a0km to get there.",
        "5\u00a0\u00a0km or 10\u00a0km to get",
        0,
        None,
    ),
    "spaces": (
        "Tabs\tand   runs of\nspaces are all one.\nMore.",
        "Tabs\tand   runs of",
        0,
        ("", "Tabs and runs of", "", ""),
    ),
    "soft hyphen": (
        "The Donau\u00addampf\u00adschiff came and went. So it goes.",
        "Donau\u00addampf\u00adschiff came",
        0,
        None,
    ),
    "zero width": ("One zero\u200bwidth space is not seen by anyone.", "zero\u200bwidth space is not seen", 0, None),
    "German": ("Früher war es so: „Die Straße“ führte über Köln. Ende.", "„Die Straße“ führte über Köln.", 0, None),
    "Arabic": (
        "كان الجو باردا. وصلت السفينة إلى الميناء، ثم غادرت. النهاية",
        "وصلت السفينة إلى الميناء، ثم غادرت.",
        0,
        None,
    ),
    "Arabic with vowels": ("قَرَأَ الطَّالِبُ الكِتَابَ. كَتَبَ الوَلَدُ الدَّرْسَ.", "كَتَبَ الوَلَدُ الدَّرْسَ.", 0, None),
    "Hebrew": ("ירד גשם. ד״ר כהן הגיע לתל־אביב ב־1950. סוף.", "ד״ר כהן הגיע לתל־אביב ב־1950.", 0, None),
    "Chinese": ("北京是中国的首都。上海是中国最大的城市。广州在南方。", "上海是中国最大的城市。", 0, None),
    "Chinese within": ("北京是中国的首都。上海是中国最大的城市。广州在南方。", "中国最大", 0, None),
    "Chinese twice": ("他说，中国的首都很大。她说，中国的首都很小。", "中国的首都", 1, None),
    "Japanese": ("東京都は日本の首都です。京都府は古い都でした。", "京都", 0, None),
    "Thai": ("ประเทศไทยมีประชากรมาก กรุงเทพมหานครเป็นเมืองหลวง", "ประชากร", 0, None),
    "Hindi": ("दिल्ली भारत की राजधानी है। मुंबई सबसे बड़ा शहर है।", "मुंबई सबसे बड़ा शहर है।", 0, None),
    "emoji": ("Nice 👍🏽👨‍👩‍👧 work! Flags: 🇩🇪🇫🇷 ok. ❤️ it.", "👨‍👩‍👧 work! Flags: 🇩🇪", 0, None),
}


@pytest.mark.parametrize("gap", [BLANK_LINE, ANY_LINE])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_text_fragment_marks_passage(case: str, gap: str, strict: bool) -> None:
    page, passage, count, terms = CASES[case]
    start, end = span(page, passage, count)
    fragment = text_fragment(page, start, end)
    if terms:
        assert parsed(fragment) == terms
    if case == "lines repeated" and gap == ANY_LINE:
        pytest.skip("a line with the same neighbours, each a block of its own: nothing tells them apart")
    assert FragmentBrowser(page, gap, strict).marks(fragment) == (start, end), fragment


WORDS = [
    "a",
    "the",
    "The",
    "cat",
    "cats",
    "Cät",
    "e.g.",
    "3.14",
    "3",
    "x-y",
    "don't",
    "ok,",
    "(b)",
    "猫",
    "猫猫",
    "แมว",
    "है",
    "👍🏽",
]
GAPS = [" "] * 8 + ["  ", "\n", "\n", "\n\n", " \n \n "]


@st.composite
def pages(draw: st.DrawFn) -> tuple[str, int, int]:
    """A page of few different words, and a span of whole words."""
    words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=40))
    gaps = draw(st.lists(st.sampled_from(GAPS), min_size=len(words), max_size=len(words)))
    first = draw(st.integers(0, len(words) - 1))
    last = draw(st.integers(first, min(len(words) - 1, first + 12)))
    starts = [0]
    for word, gap in zip(words, gaps, strict=True):
        starts.append(starts[-1] + len(word) + len(gap))
    page = "".join(word + gap for word, gap in zip(words, gaps, strict=True))
    return page, starts[first], starts[last] + len(words[last])


def folded(text: str) -> str:
    return re.sub(
        r"\s+", "", "".join(c for c in unicodedata.normalize("NFKD", text).casefold() if not unicodedata.combining(c))
    )


def line_before(page: str, start: int) -> int:
    """The start of the line with the last words before `start`."""
    return page[:start].rstrip(" \n").rfind("\n") + 1


def line_after(page: str, end: int) -> int:
    """The end of the line with the first words after `end`."""
    following = len(page) - len(page[end:].lstrip(" \n"))
    return following + len(page[following:].partition("\n")[0])


def alone(page: str, start: int, end: int) -> bool:
    """Whether page[start:end] is unique in the page."""
    text, whole = folded(page[start:end]), folded(page)
    return whole.find(text) == whole.rfind(text)


@settings(max_examples=400, deadline=None)
@given(pages(), st.booleans(), st.sampled_from([BLANK_LINE, ANY_LINE]))
@example(("a b a b a b c", 4, 11), False, ANY_LINE)
def test_text_fragment_marks_random_passages(found: tuple[str, int, int], strict: bool, gap: str) -> None:
    page, start, end = found
    passage = page[start:end]
    first, last = line_before(page, start), line_after(page, end)
    # Repeated lines with equal neighbours are ambiguous.
    if "\n" in passage:
        assume(alone(page, first, start + passage.index("\n")))
        assume(alone(page, start + passage.rindex("\n"), last))
    else:
        assume(alone(page, first, last))
    fragment = text_fragment(page, start, end)
    assert FragmentBrowser(page, gap, strict).marks(fragment) == (start, end), fragment


@settings(deadline=None)
@given(st.integers(0, 380), st.integers(301, 2000))
def test_text_fragment_of_long_passage_has_its_ends(first: int, length: int) -> None:
    start = LONG.index(" ", first) + 1
    end = (LONG + " ").index(" ", min(start + length, len(LONG)))
    fragment = text_fragment(LONG, start, end)
    assert len(fragment) < 400
    assert FragmentBrowser(LONG, strict=True).marks(fragment) == (start, end), fragment


@pytest.mark.parametrize(
    "page", ["a " * 100_000 + "b c", "天" * 100_000, "\u0301" * 100_000 + "x y", "x\n" * 100_000 + "y"]
)
def test_text_fragment_of_repetitive_page_is_not_quadratic(page: str) -> None:
    # Quadratic work would take minutes.
    for start, end in [(len(page) - 3, len(page)), (len(page) // 2, len(page)), (0, len(page))]:
        assert text_fragment(page, start, end).startswith("#:~:text=")


def test_text_fragment_of_ambiguous_passage_marks_first() -> None:
    page = "yes\n\n" * 50
    start, end = span(page, "yes", 30)
    assert FragmentBrowser(page).marks(text_fragment(page, start, end)) == span(page, "yes")


@pytest.mark.parametrize(
    ("page", "passage", "terms"),
    [
        ("They were misunderstood by all of them.", "understood by all of", ("mis", "", "")),
        ("They were all of them misunderstood.", "were all of them misunder", ("", "", "stood.")),
        ("It rained 3.14 inches in a single hour.", "14 inches in a single hour", ("3.", "", "")),
        ("It rained for all of the 3.14 hours.", "rained for all of the 3", ("", "", ".14")),
        ("In all 1,000 ships sailed that morning.", "000 ships sailed that morning", ("1,", "", "")),
        ("So ד״ר is an abbreviation of a word.", "ר is an abbreviation of", ("ד״", "", "")),
        ("A snake_case_name is written like this.", "name is written like this", ("snake_case_", "", "")),
        ("A pre\u02d7position joins two other words.", "position joins two other", ("pre\u02d7", "", "")),
        ("The flags 🇩🇪🇫🇷 stand for two countries.", "🇫🇷 stand for two countries", ("🇩🇪", "", "")),
        ("She said “yes”, and then, in 1628: “No”.", "and then, in 1628: “No”", ("", "", "")),
        ("He left.Then she said so to all of them.", "Then she said so to all", ("left.", "", "")),
    ],
)
def test_text_fragment_extends_partial_words(page: str, passage: str, terms: tuple[str, ...]) -> None:
    prefix, first, last, suffix = parsed(text_fragment(page, *span(page, passage)))
    assert (prefix, last, suffix) == terms
    assert first == passage


HAN = "".join(map(chr, range(0x4E00, 0x4E00 + 400)))
# Characters of three code points, of which 20 is no multiple.
MARKED = "".join(f"{character}\u0301\u0323" for character in HAN)


@pytest.mark.parametrize(
    ("page", "start", "end", "terms"),
    [
        (HAN, 0, 400, ("", HAN[:20], HAN[380:], "")),
        (MARKED, 0, 1200, ("", MARKED[:21], MARKED[1179:], "")),
        (MARKED, 600, 603, (MARKED[579:600], MARKED[600:603], "", MARKED[603:624])),
        (f"Note: {HAN}", 0, 406, ("", "Note:", HAN[380:], "")),
        (f"{HAN} (end)", 0, 406, ("", HAN[:20], "(end)", "")),
        (f"{HAN}。宇洪荒。{HAN}", 401, 402, ("。", "宇", "", "洪荒。")),
    ],
)
def test_text_fragment_without_spaces_keeps_graphemes_whole(
    page: str, start: int, end: int, terms: tuple[str, ...]
) -> None:
    assert parsed(text_fragment(page, start, end)) == terms


@pytest.mark.parametrize(
    ("page", "start", "end", "terms"),
    [
        # Chromium 156 finds no match that ends before an invisible character, nor a context beyond one.
        ("שלום לכל העולם כולו היום.\u200f סוף.", 0, 26, ("", "שלום לכל העולם כולו היום", "", "")),
        ("one two three four five six\u200f seven", 0, 27, ("", "one two three four five", "", "")),
        ("one two\u200f; three and four, two", 8, 15, ("", "; three", "", "and four, two")),
        ("\u200fone two three four five six\ufeff", 0, 29, ("", "one two three four five", "", "")),
        ("one two three. Big \u200fships, big ships", 15, 18, ("one two three.", "Big", "", "")),
        ("x  \u00a0one two three four five \t", 1, 30, ("", "one two three four five", "", "")),
    ],
)
def test_text_fragment_skips_invisible_characters(page: str, start: int, end: int, terms: tuple[str, ...]) -> None:
    assert parsed(text_fragment(page, start, min(end, len(page)))) == terms


@pytest.mark.parametrize("name", ["text_fragment", "text_quote_selector", "text_position_selector"])
@pytest.mark.parametrize(("start", "end"), [(-1, 2), (2, 1), (0, 6), (6, 6), (-3, -1)])
def test_selectors_refuse_spans_outside_page(name: str, start: int, end: int) -> None:
    with raises(InvalidArgumentError, start, end, 5):
        getattr(selectors, name)("a pag", start, end)


@pytest.mark.parametrize(("start", "end"), [(3, 3), (1, 4), (1, 2)])
def test_text_fragment_of_invisible_span_is_error(start: int, end: int) -> None:
    with raises(InvalidArgumentError, f"page[{start}:{end}]"):
        text_fragment("a \u200f\nb", start, end)


def test_text_fragment_of_lone_surrogate_is_error() -> None:
    with pytest.raises(InvalidTextError):
        text_fragment("a \ud800 b", 0, 5)
    assert text_fragment("a passage of whole words. \ud800 b", 0, 25)


@settings(deadline=None)
@given(st.text(st.sampled_from("ab \n\u0301\u200d👍🏽猫.é\u00a0"), max_size=120), st.data())
def test_text_quote_selector_of_random_spans_quotes_page(page: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(page)))
    end = data.draw(st.integers(start, len(page)))
    quoted = text_quote_selector(page, start, end)
    prefix, suffix = quoted["prefix"], quoted["suffix"]
    first, last = start - len(prefix), end + len(suffix)
    assert quoted == {"type": "TextQuoteSelector", "exact": page[start:end], "prefix": prefix, "suffix": suffix}
    assert page[first:last] == prefix + page[start:end] + suffix
    assert len(prefix) <= 32
    assert len(suffix) <= 32
    if prefix and first:
        assert not unicodedata.combining(page[first])
        assert page[first - 1].isspace() or not re.search(r"\s\S", prefix)
    if suffix and last < len(page):
        assert not unicodedata.combining(page[last])
        assert page[last].isspace() or not re.search(r"\S\s", suffix)


@pytest.mark.parametrize(
    ("page", "passage", "prefix", "suffix"),
    [
        ("One two.", "One two.", "", ""),
        ("It rained. The old ship sank.", "The old", "It rained. ", " ship sank."),
        (
            "Nobody remembers when exactly it was that the ship sank, or where, or what the weather was like.",
            "the ship sank",
            "when exactly it was that ",
            ", or where, or what the weather",
        ),
        ("北" * 40 + "京" + "南" * 40, "京", "北" * 32, "南" * 32),
        ("e\u0301" * 17 + "x" + "e\u0301" * 17, "x", "e\u0301" * 16, "e\u0301" * 16),
        ("e\u0301" * 17 + "!x!" + "e\u0301" * 17, "x", "e\u0301" * 15 + "!", "!" + "e\u0301" * 15),
        ("👩\u200d👧" * 17 + "!x!" + "👧\u200d👩" * 17, "x", "👩\u200d👧" * 10 + "!", "!" + "👧\u200d👩" * 10),
        (
            "\u1112\u1161\u11ab" * 17 + "!x!" + "\u1112\u1161" * 17,
            "x",
            "\u1112\u1161\u11ab" * 10 + "!",
            "!" + "\u1112\u1161" * 15,
        ),
        ("🇩🇪" * 17 + "!x!" + "👍🏽" * 17, "x", "!", "!" + "👍🏽" * 15),
    ],
)
def test_text_quote_selector_prefix_and_suffix(page: str, passage: str, prefix: str, suffix: str) -> None:
    start, end = span(page, passage)
    quoted = text_quote_selector(page, start, end)
    assert (quoted["prefix"], quoted["exact"], quoted["suffix"]) == (prefix, passage, suffix)


def test_text_position_selector_counts_code_points() -> None:
    page = "👍🏽 e\u0301 猫"
    start, end = span(page, "猫")
    assert text_position_selector(page, start, end) == {"type": "TextPositionSelector", "start": 6, "end": 7}
    assert len(page) == 7


def test_docstring_examples_run() -> None:
    assert doctest.testmod(selectors) == (0, 3)
