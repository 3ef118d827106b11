"""`cite`: what supports each sentence of a text, and what none of its passages has."""

import asyncio
import pickle
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

import pullquote
from pullquote import AsyncHighlighter, Highlighter
from pullquote.citations import Cited, CitedSentence
from pullquote.errors import DeadlineExceededError, InvalidArgumentError, InvalidTypeError, PullquoteError
from support.messages import raises

MOON = (
    "# The Moon\n\nThe Moon is Earth's only natural satellite 🌕. It orbits at an average distance of 384,400 km. "
    "Neil Armstrong walked on it on July 20, 1969. It has no weather."
)
BREAD = "Bread is baked from flour, water, salt and yeast. The first bakery of the town sold 3,000,000 loaves in 1890."
PAGES = {"moon": MOON, "bread": BREAD}


def cite(answer: str, **options: object) -> Cited:
    return pullquote.cite(answer, PAGES, **options)  # type: ignore[arg-type]


def claims(answer: str) -> list[CitedSentence]:
    return [sentence for sentence in cite(answer).sentences if sentence.support != "no_claim"]


ANSWER = (
    "# Facts\n\n🌕 The Moon orbits Earth at an average distance of 384400 km [1]. On 1969-07-20, Neil Armstrong walked "
    "on the Moon [bread]. The bakery sold 3 million loaves in 1890 [moon][2].\n\n```\ncode\n```\n\n- Bread is baked "
    "from flour and water [7].\n- Whales sing in the deep ocean [1]. Is that true?\n"
)


def test_each_sentence_has_its_support_and_each_marker_its_status() -> None:
    cited = cite(ANSWER)
    found = [
        (each.support, [(marker.label, marker.page, marker.status) for marker in each.markers])
        for each in cited.sentences
    ]
    assert [each for each in found if each[0] != "no_claim"] == [
        ("full", [("1", 0, "supported")]),
        ("full", [("bread", 1, "other_page")]),
        ("full", [("moon", 0, "other_page"), ("2", 1, "supported")]),
        ("full", [("7", None, "unknown")]),
        ("none", [("1", 0, "unsupported")]),
    ]
    assert [each.text for each in cited.unsupported] == ["- Whales sing in the deep ocean [1]."]
    assert not cited
    assert {each.text.split()[0] for each in cited.sentences if each.support == "no_claim"} >= {"#", "code", "Is"}


def test_texts_are_exact_substrings() -> None:
    for sentence in cite(ANSWER + " The Moon is 390,000 km away [1].").sentences:
        parts: list[Any] = [sentence, *sentence.missing, *sentence.markers]
        for part in parts:
            assert (ANSWER + " The Moon is 390,000 km away [1].")[part.start : part.end] == part.text
        for passage in sentence.passages:
            page = [MOON, BREAD][passage.page]
            assert page[passage.start : passage.end] == passage.text
            assert passage.id == ["moon", "bread"][passage.page]
            for name in passage.breadcrumbs:
                assert page[name.start : name.end] == name.text


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        ("It orbits at an average distance of 384,900 km.", "number", "384,900"),
        ("The bakery sold 3 billion loaves in 1890.", "number", "3 billion"),
        ("Neil Armstrong walked on the Moon on July 21, 1969.", "date", "July 21, 1969"),
        ("Buzz Armstrong walked on the Moon on July 20, 1969.", "name", "Buzz"),
        ("It has weather, says “the great book”.", "quote", "the great book"),
        ("Bread is not baked from flour, water, salt and yeast.", "negation", "not"),
    ],
)
def test_changed_fact_is_named_and_support_is_not_full(answer: str, kind: str, text: str) -> None:
    (sentence,) = claims(answer)
    assert sentence.support in {"partial", "none"}
    assert (kind, text) in [(fact.kind, fact.text) for fact in sentence.missing]


def test_denied_sentence_is_not_supported() -> None:
    (sentence,) = claims("The Moon has weather.")
    assert sentence.support != "full"


def test_result_of_highlights_cites_its_own_pages_by_the_numbers_of_its_prompt() -> None:
    with Highlighter() as highlighter:
        found = highlighter.highlights("How is bread made?", PAGES, top_k=1)
        assert found.best()[0].page == 1
        (marker,) = found.cite("Bread is baked from flour, water and salt [1].").sentences[0].markers
        assert (marker.page, marker.status) == (1, "supported")
    with raises(InvalidArgumentError, "cite"):
        pickle.loads(pickle.dumps(found)).cite("Bread.")  # noqa: S301


def test_awaited_result_is_the_same_and_a_value() -> None:
    expected = cite(ANSWER)

    async def awaited() -> Cited:
        async with AsyncHighlighter() as highlighter:
            return await highlighter.cite(ANSWER, PAGES)

    assert asyncio.run(awaited()) == expected == cite(ANSWER)
    assert pickle.loads(pickle.dumps(expected)) == expected  # noqa: S301
    first = expected.to_dict()["sentences"][0]
    assert set(first) == {field.name for field in fields(CitedSentence)}


def test_numbers_say_which_page_a_marker_means() -> None:
    answer = "Bread is baked from flour, water and salt [1]."
    assert cite(answer, numbers=[1]).sentences[0].markers[0].page == 1
    for unknown in ([], [2]):
        assert cite(answer, numbers=unknown).sentences[0].markers[0].page is None


@pytest.mark.parametrize(
    ("call", "kind", "named"),
    [
        (lambda: cite(" ?! "), InvalidArgumentError, ("answer",)),
        (lambda: cite(3), InvalidTypeError, ("answer", "int")),  # type: ignore[arg-type]
        (lambda: pullquote.cite("A claim.", []), InvalidArgumentError, ("page",)),
        (lambda: pullquote.cite("A claim.", MOON), InvalidTypeError, ("pages", "str")),
        (lambda: cite("A claim.", numbers=[-1]), InvalidArgumentError, ("numbers", -1)),
        (lambda: cite("A claim.", numbers=["a"]), InvalidArgumentError, ("numbers",)),
        (lambda: pullquote.cite("A claim. " * 3000, [MOON * 2000], timeout=0.001), DeadlineExceededError, ()),
    ],
)
def test_invalid_call_of_cite_raises(
    call: Callable[[], object], kind: type[PullquoteError], named: tuple[object, ...]
) -> None:
    with raises(kind, *named):
        call()


def test_empty_page_supports_nothing() -> None:
    cited = pullquote.cite("Bread is baked from flour [1].", [""])
    assert (cited.sentences[0].support, cited.sentences[0].markers[0].status) == ("none", "unsupported")


TOWER = (
    "# Aston Tower\n\nThe Aston Tower was 110.6 m tall when it opened. Its lift takes 40 s to the top. Tickets cost $12, and "
    "35% of the visitors come by train. The tower draws 5,000 people on a Sunday.\n\nThe bridge next to it is 2.4 km long."
)


@pytest.mark.parametrize(
    ("claim", "support"),
    [
        ("The Aston Tower stood 110.6 metres high.", "full"),
        ("The lift of the Aston Tower takes 40 seconds to the top.", "full"),
        ("Tickets cost 12 dollars.", "full"),
        ("35 per cent of the visitors come by train.", "full"),
        ("The Aston Tower draws 5k people on a Sunday.", "full"),
        ("The Aston Tower draws 5 thousand people on a Sunday.", "full"),
        ("The bridge next to the Aston Tower has a length of 2.4 kilometers.", "full"),
        ("The Aston Tower stood 110.6 feet high.", "110.6"),
        ("The Aston Tower stood 116.0 metres high.", "116.0"),
        ("The bridge next to the Aston Tower is 2.4 miles long.", "2.4"),
        ("Tickets cost 12 euros.", "12"),
    ],
)
def test_units_count_by_value_and_kind(claim: str, support: str) -> None:
    (sentence,) = pullquote.cite(claim, [TOWER]).sentences
    if support == "full":
        assert (sentence.support, [*sentence.missing]) == ("full", [])
    else:
        assert sentence.support != "full"
        assert [fact.text for fact in sentence.missing] == [support]


@pytest.mark.parametrize(
    ("page", "claim", "changed", "missing"),
    [
        (
            "Der Fernsehturm ist 368 Meter hoch. Er wurde 1969 eröffnet. Im Restaurant drehen sich die Tische.",
            "Der Fernsehturm hat eine Höhe von 368 m.",
            "Der Fernsehturm hat eine Höhe von 386 m.",
            "386",
        ),
        (
            "Le viaduc mesure 2 460 mètres. Il a été ouvert en décembre 2004. Le péage coûte 12 euros en été.",
            "Le viaduc a été ouvert en décembre 2004.",
            "Le viaduc a été ouvert en décembre 2006.",
            "décembre 2006",
        ),
        (
            "El faro tiene 42 metros de altura. Funciona desde 1853. El 15% de los visitantes llega en barco.",
            "El 15 por ciento de los visitantes del faro llega en barco.",
            "El 51 por ciento de los visitantes del faro llega en barco.",
            "51",
        ),
        (
            "この塔の高さは333メートルである。1958年に完成した。料金は1,200円です。",
            "塔の高さは333 mである。",
            "塔の高さは338 mである。",
            "338",
        ),
    ],
)
def test_claims_in_other_languages(page: str, claim: str, changed: str, missing: str) -> None:
    (sentence,) = pullquote.cite(claim, [page]).sentences
    assert (sentence.support, [*sentence.missing]) == ("full", [])
    (sentence,) = pullquote.cite(changed, [page]).sentences
    assert sentence.support != "full"
    assert [fact.text for fact in sentence.missing] == [missing]


def test_passages_of_html_have_offsets_in_the_extracted_text_and_in_the_source() -> None:
    page = (
        "<html><body><h1>Aston Tower</h1><p>The <b>tower</b> is 110.6&nbsp;m tall.</p><p>It is red.</p></body></html>"
    )
    (sentence,) = pullquote.cite("The tower is 110.6 metres high.", [page], format="html").sentences
    (passage,) = sentence.passages
    assert sentence.support == "full"
    assert "tower is 110.6" in passage.text
    assert "The <b>tower</b> is 110.6&nbsp;m tall." in page[passage.source_start : passage.source_end]
