"""`locate`: quotes whose writing differs from the page's, and quotes that are not there (`support/damaged_quotes.py`)."""

import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pullquote
from pullquote.errors import DeadlineExceededError, InvalidArgumentError, InvalidTypeError
from support.messages import raises

ROOT = Path(__file__).parents[3]
CASES: list[dict[str, Any]] = [
    json.loads(line)
    for name in ("quotes.jsonl", "quotes_by_hand.jsonl")
    for line in (ROOT / "tests/data" / name).read_text().splitlines()
]
# What tells a changed sentence from the page's.
KINDS = {"number": "number", "negation": "negation", "another word": "replaced", "another name": "replaced"}
PAGE = "The Moon is **384,400 km** away.[1] It is white. The moon is white."


def page_of(case: dict[str, Any]) -> str:
    text: str = case["text"] if "text" in case else (ROOT / "demo/pages" / case["page"]).read_text()
    return text


def letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.lower())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['damage']}-{case['status']}")
def test_damaged_quote_is_found_and_absent_one_is_not(case: dict[str, Any]) -> None:
    page = page_of(case)
    located = pullquote.locate(page, case["quote"])
    assert (located.status, bool(located)) == (case["status"], case["status"] != "none")
    for place in located.places:
        assert page[place.start : place.end] == place.text
        assert letters(case["sentence"])[3:-5] in letters(place.text)
        assert letters(place.text) in letters(case["sentence"])
        assert (place.distance == 0) == (place.similarity == 1) == (located.status == "exact")
    if "page" in case and case["damage"] in KINDS:
        nearest = located.nearest
        assert nearest is not None
        assert letters(nearest.text) == letters(case["sentence"])
        assert [one.kind for one in nearest.differences] == [KINDS[case["damage"]]]


def test_difference_has_both_texts_and_its_place() -> None:
    nearest = pullquote.locate(PAGE, "the moon is 400,400 km away").nearest
    assert nearest is not None
    (difference,) = nearest.differences
    assert (difference.kind, difference.quote, difference.page) == ("number", "400,400", "384,400")
    assert PAGE[difference.start : difference.end] == "384,400"
    assert nearest.distance == 3
    assert nearest.similarity == pytest.approx(1 - 3 / 22)


def test_all_places_are_in_the_order_of_the_page() -> None:
    text = "It is white. " * 5
    assert [place.start for place in pullquote.locate(text, "it is WHITE").places] == [0, 13, 26, 39, 52]


def test_parts_of_an_ellipsis_have_their_places() -> None:
    (place,) = pullquote.locate(PAGE, "The Moon is […] km away … white").places
    assert [PAGE[start:end] for start, end in place.parts] == ["The Moon is", "km** away", "white"]
    assert (place.start, place.end) == (place.parts[0][0], place.parts[-1][1])
    apart = "The moon is far. " + "Bread is baked from flour. " * 100 + "It is white."
    assert not pullquote.locate(apart, "The moon is far … It is white")


@pytest.mark.parametrize(
    ("call", "kind", "names"),
    [
        (lambda: pullquote.locate("a", " …?! "), InvalidArgumentError, ("quote",)),
        (lambda: pullquote.locate("a", "word " * 6000), InvalidArgumentError, ("quote", 20000)),
        (lambda: pullquote.locate(b"a", "b"), InvalidTypeError, ("page",)),  # type: ignore[arg-type]
        (lambda: pullquote.locate("a", None), InvalidTypeError, ("quote",)),  # type: ignore[arg-type]
        (lambda: pullquote.locate("a", "b", timeout="x"), InvalidTypeError, ("timeout",)),  # type: ignore[arg-type]
        (lambda: pullquote.locate(PAGE * 20_000, "bread is baked", timeout=0.001), DeadlineExceededError, ()),
    ],
)
def test_invalid_call_of_locate_raises(
    call: Callable[[], object], kind: type[Exception], names: tuple[object, ...]
) -> None:
    with raises(kind, *names):
        call()


def test_located_is_a_value() -> None:
    located = pullquote.locate(PAGE, "The moon is red")
    assert pickle.loads(pickle.dumps(located)) == located  # noqa: S301
    assert "status='none'" in repr(located)


TEXT = st.text("ab 1.,-*_<>[]()&;#é漢\n\u200b", max_size=60)


@given(page=TEXT, before=TEXT, after=TEXT)
def test_every_text_stands_in_itself(page: str, before: str, after: str) -> None:
    whole = f"{before} word {page} word {after}"
    for quote in (whole, page):
        try:
            located = pullquote.locate(whole, quote)
        except InvalidArgumentError:
            continue  # only marks and notes
        assert all(whole[place.start : place.end] == place.text for place in located.places)
        assert quote != whole or located.status == "exact"
