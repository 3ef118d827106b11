"""Scores: probabilities that do not depend on the other pages of a call, nor on the rest of a long page."""

from __future__ import annotations

import pytest

from pullquote import Highlighter

ANSWERS = {
    "How long do refunds take?": "Refunds are paid within thirty days.",
    "When did the Rhine freeze?": "In 1963 the Rhine froze near Mainz, and people crossed on foot.",
    "Who founded the mill?": "The mill was founded by Anna Keller in 1720, after a flood.",
    "what port does the server listen on": "By default the server listens on port 8080.",
    "Who was put on trial?": "He was born near the river, and raised by his mother alone.",
}
FILLER = [
    f"The old town number {number} has a market hall, two churches and a long street of shops." for number in range(300)
]


def score(highlighter: Highlighter, query: str, passage: str, pages: list[str]) -> float:
    found = highlighter.highlights(query, pages, top_k=5)[0]
    return next(highlight.score for highlight in found if passage in highlight.text)


@pytest.mark.parametrize("others", ["pages", pytest.param("whole_pages", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("query", "passage"), ANSWERS.items())
def test_score_does_not_depend_on_other_pages(
    highlighter: Highlighter, request: pytest.FixtureRequest, others: str, query: str, passage: str
) -> None:
    texts = [passage, *request.getfixturevalue(others).values()]
    alone = score(highlighter, query, passage, [passage])
    assert score(highlighter, query, passage, texts) == pytest.approx(alone, abs=1e-3)


@pytest.mark.parametrize("query", ["When did the Rhine freeze?", "Who was put on trial?", "How far is the moon?"])
def test_effort_full_gives_each_page_the_passages_it_has_alone(
    highlighter: Highlighter, pages: dict[str, str], query: str
) -> None:
    texts = [*ANSWERS.values(), *pages.values()]
    together = highlighter.highlights(query, texts, effort="full", dedupe="none")
    for text, found in zip(texts, together, strict=True):
        (alone,) = highlighter.highlights(query, [text], effort="full", dedupe="none")
        assert [(one.start, one.end, one.score) for one in found] == [(one.start, one.end, one.score) for one in alone]


# In the last case no word is on the page, so that every window is encoded.
@pytest.mark.parametrize(
    ("query", "passage"),
    [*[*ANSWERS.items()][:-1], pytest.param(*[*ANSWERS.items()][-1], marks=pytest.mark.slow)],
)
def test_score_does_not_depend_on_rest_of_long_page(highlighter: Highlighter, query: str, passage: str) -> None:
    paragraph = " ".join([*FILLER[:4], passage, *FILLER[4:8]])
    alone = score(highlighter, query, passage, [paragraph])
    for count in (30, 292):
        page = "\n\n".join(
            [" ".join(FILLER[8 : 8 + count // 2]), paragraph, " ".join(FILLER[8 + count // 2 : 8 + count])]
        )
        assert score(highlighter, query, passage, [page]) == pytest.approx(alone, abs=0.05)


def test_answered_and_min_score_auto(highlighter: Highlighter, pages: dict[str, str]) -> None:
    answer = ANSWERS["When did the Rhine freeze?"]
    assert highlighter.highlights("When did the Rhine freeze?", [answer, *pages.values()], min_score="auto").answered
    result = highlighter.highlights("Who was put on trial?", [answer])
    assert not result.answered
    assert [highlight.text for highlight in result[0]] == [answer]
    assert highlighter.highlights("Who was put on trial?", [answer], min_score="auto")[0] == []


@pytest.mark.parametrize(
    ("query", "light", "answer"),
    [
        (
            "what is the first thing to install",
            "The first edition was printed in 1920.",
            "Install the compiler before everything else.",
        ),
        (
            "how do I support the project",
            "The bridge supports heavy loads.",
            "Donations keep our work going; sponsor us on the website.",
        ),
    ],
)
def test_light_words_do_not_outrank_meaning(highlighter: Highlighter, query: str, light: str, answer: str) -> None:
    result = highlighter.highlights(query, [light, answer], top_k=1)
    assert result[1][0].score > result[0][0].score
