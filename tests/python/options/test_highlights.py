"""`highlights()` and `parse_pieces()`: invariants, ranking, and the columns of results."""

import itertools
import random
import unicodedata
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import pullquote
from pullquote import Highlight, Highlighter, errors
from support.fake_letter_encoder import letters
from support.messages import pattern, raises

ALPHABETS = [
    "abc dE. ,!?\n",
    "äöüß éèñ “”. ",
    "漢字日本語。、かなカナ！",
    "กขคงสวัสดี ",
    "אבגד هلاو، ؟ ",
    "🎉👩‍👩‍👧🇩🇪é́ \u200d\u200b\u202e",
    "\x00\x01\x85\u2028\r\n\t.",
]


def random_text(rng: random.Random) -> str:
    def character() -> str:
        if rng.random() < 0.1:
            code = rng.choice([rng.randrange(0xD800), rng.randrange(0xE000, 0x110000)])
            return chr(code)
        return rng.choice(rng.choice(ALPHABETS))

    return "".join(character() for _ in range(rng.randrange(120)))


@pytest.mark.parametrize(("encoder", "count"), [(letters, 1000), (None, 50)], ids=["letters", "model"])
def test_highlights_of_random_texts_are_exact_substrings(
    highlighter: Highlighter, encoder: Callable[[list[str]], NDArray[np.float32]] | None, count: int
) -> None:
    rng = random.Random(7)
    texts = [random_text(rng) for _ in range(count)]
    query = "What is written here?"
    if encoder is None:
        result = highlighter.highlights(query, texts)
    else:
        with Highlighter(encoder=encoder) as fast:
            result = fast.highlights(query, texts)
    assert len(result) == count
    for text, found in zip(texts, result, strict=True):
        assert bool(found) == bool(text.strip())
        for highlight in found:
            assert text[highlight.start : highlight.end] == highlight.text
            assert highlight.text.strip() == highlight.text != ""
        spans = sorted((highlight.start, highlight.end) for highlight in found)
        assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    length=st.integers(1, 5),
    step=st.integers(1, 5),
    unit=st.sampled_from(["sentence", "word"]),
)
def test_parse_pieces_covers_all_visible_text(
    text: str, length: int, step: int, unit: Literal["sentence", "word"]
) -> None:
    spans = pullquote.parse_pieces(text, length, min(step, length), unit)
    assert spans.dtype == np.int64
    assert spans.shape == (len(spans), 2)
    covered = np.zeros(len(text), dtype=bool)
    for start, end in spans:
        assert 0 <= start < end <= len(text)
        covered[start:end] = True
    assert all(
        covered[i] or text[i].isspace() or unicodedata.category(text[i]) in {"Cc", "Zs", "Zl", "Zp"}
        for i in range(len(text))
    )


def test_step_size_starts_windows_and_last_ends_at_text_end() -> None:
    text = "One is. Two is. Three is. Four is. Five is."
    spans = pullquote.parse_pieces(text, 2, 2).tolist()
    assert [text[start:end] for start, end in spans] == ["One is. Two is.", "Three is. Four is.", "Five is."]
    assert pullquote.parse_pieces("", 2, 2).shape == (0, 2)


def test_unit_token_counts_model_tokens(highlighter: Highlighter) -> None:
    text = "Photosynthesis feeds plants. Snow is white, unbelievably white."
    spans = highlighter.parse_pieces(text, 4, 4, unit="token")
    assert "".join(text[start:end] for start, end in spans).replace(" ", "") == text.replace(" ", "")
    assert len(spans) >= 4
    found = highlighter.highlights("What colour is snow?", [text], unit="token", highlight_length=6, top_k=1)[0]
    assert "white" in found[0].text


def test_answering_passage_ranks_first(highlighter: Highlighter, whole_pages: dict[str, str]) -> None:
    page = whole_pages["apollo_program.en.txt"][20_000:30_000]
    found = highlighter.highlights("What caused the Apollo 1 cabin fire?", [page])[0]
    [answer] = [highlight for highlight in found[:2] if "an electrical fire began in the cabin" in highlight.text]
    assert answer.score > 0.4
    assert answer.cosine > 0.4
    assert answer.bm25 > 3
    assert [highlight.score for highlight in found] == sorted((h.score for h in found), reverse=True)


def test_top_k_max_chars_min_score_and_order(highlighter: Highlighter, pages: dict[str, str]) -> None:
    texts = list(pages.values())[:4]
    ask = "When did it happen?"
    by_position = highlighter.highlights(ask, texts, top_k=5, order="position")
    by_score = highlighter.highlights(ask, texts, top_k=5)
    for first, second in zip(by_position, by_score, strict=True):
        assert [h.start for h in first] == sorted(h.start for h in first)
        assert sorted(first, key=lambda h: h.start) == sorted(second, key=lambda h: h.start)
    for found in highlighter.highlights(ask, texts, max_chars=700):
        assert sum(len(h.text) for h in found) <= 700
    threshold = by_score[0][2].score
    bounded = highlighter.highlights(ask, texts, min_score=threshold - 1e-4)
    assert 3 <= bounded.scores.size < by_score.scores.size
    assert (bounded.scores >= threshold - 1e-3).all()
    assert highlighter.highlights(ask, texts, min_score=1.0).scores.size == 0


def test_highlights_columns_match_lists(highlighter: Highlighter, pages: dict[str, str]) -> None:
    texts = ["", *pages.values(), " \n"]
    result = highlighter.highlights("Who?", texts)
    listed = [(page, h) for page, found in enumerate(result) for h in found]
    assert result.pages.tolist() == [page for page, _ in listed]
    assert result.spans.tolist() == [[h.start, h.end] for _, h in listed]
    assert result.scores.tolist() == [h.score for _, h in listed]
    assert result.cosines.tolist() == [h.cosine for _, h in listed]
    assert result.bm25_scores.tolist() == [h.bm25 for _, h in listed]
    assert [str(column.dtype) for column in (result.spans, result.scores, result.pages)] == [
        "int64",
        "float32",
        "int64",
    ]
    assert result[0] == result[-1] == []
    assert result[1:3] == [result[1], result[2]]
    with raises(IndexError, 8):
        result[8]
    assert isinstance(result[1][0], Highlight)
    assert result.work.windows > 50


def test_query_and_pages_pair_one_to_many_and_each(highlighter: Highlighter, pages: dict[str, str]) -> None:
    texts = list(pages.values())[:3]
    queries = ["Who died?", "Which war was it?", "What burned?"]
    each = highlighter.highlights(queries, texts, pairing="each")
    many = highlighter.highlights(queries, texts[:1])
    for i in range(3):
        assert_close(each[i], highlighter.highlights(queries[i], [texts[i]])[0])
        assert_close(many[i], highlighter.highlights(queries[i], [texts[0]])[0])
    assert many.pages.tolist() == [0] * len(many.pages)
    assert each.queries.tolist() == each.pages.tolist()
    with raises(errors.InvalidArgumentError, "2 queries", "3 pages"):
        highlighter.highlights(queries[:2], texts)


def assert_close(found: list[Highlight], expected: list[Highlight]) -> None:
    """Compare, except for a score's last bits, which depend on the batch."""
    assert [(h.start, h.end) for h in found] == [(h.start, h.end) for h in expected]
    assert np.allclose([h.score for h in found], [h.score for h in expected], atol=1e-5)


def test_lexical_weight_zero_ranks_by_cosine(highlighter: Highlighter, pages: dict[str, str]) -> None:
    text = pages["apollo_program.en.txt"]
    spans = pullquote.parse_pieces(text)
    windows = highlighter.embed([text[start:end] for start, end in spans])
    cosines = windows @ highlighter.embed(["Which rocket flew?"], role="query")[0]
    expected: list[int] = []
    for window in np.argsort(-cosines, kind="stable"):
        if all(spans[window][1] <= spans[one][0] or spans[one][1] <= spans[window][0] for one in expected):
            expected.append(int(window))
    found = highlighter.highlights("Which rocket flew?", [text], expand=False, lexical_weight=0.0, top_k=4)
    assert found.spans.tolist() == spans[expected[:4]].tolist()
    assert np.allclose(found.cosines, cosines[expected[:4]], atol=1e-5)


SPACE = "The old harbour was rebuilt in stone. Gulls circled over the boats. Its lighthouse burns whale oil. Bread was cheap."


def test_lexical_weight_finds_identifiers(highlighter: Highlighter) -> None:
    page = "\n\n".join(
        [SPACE, "Set `max_batch_tokens` before the start. It is 512.", SPACE.replace("old", "new"), "ที่นี่มีช้าง"]
    )
    found = highlighter.highlights("max_batch_tokens", [page], top_k=1)[0][0]
    assert "max_batch_tokens" in found.text
    assert found.bm25 > 0
    by_meaning = highlighter.highlights("max_batch_tokens", [page], top_k=1, lexical_weight=0.0)[0][0]
    assert by_meaning.bm25 == 0


def test_lexical_search_in_unknown_script(highlighter: Highlighter) -> None:
    thai = ["ช้างเป็นสัตว์บกที่ใหญ่ที่สุด", "กรุงเทพเป็นเมืองหลวงของประเทศไทย", "ข้าวเหนียวมะม่วงเป็นของหวาน", "แม่น้ำเจ้าพระยาไหลผ่านเมือง"]
    for place, question in ((0, "ช้าง"), (1, "เมืองหลวงของประเทศไทย"), (2, "มะม่วง")):
        found = highlighter.highlights(question, ["\n\n".join(thai)], top_k=1, highlight_length=1)[0]
        assert found[0].text == thai[place]


def test_expand_keeps_passages_short(highlighter: Highlighter, whole_pages: dict[str, str]) -> None:
    page = whole_pages["apollo_program.en.txt"][20_000:30_000]
    ask = "What caused the Apollo 1 cabin fire?"
    grown = highlighter.highlights(ask, [page], top_k=3)
    windows = highlighter.highlights(ask, [page], top_k=3, expand=False)
    assert np.diff(grown.spans).mean() < np.diff(windows.spans).mean()
    for found in grown[0]:
        assert 1 <= len(pullquote.parse_pieces(found.text, 1, 1)) <= 3


def test_truncated_windows_are_counted_and_warned(highlighter: Highlighter) -> None:
    long = " ".join(f"word{i}" for i in range(400))
    assert highlighter.highlights("word", [long], unit="word", highlight_length=300, step_size=300).work.truncated == 2
    with pytest.warns(errors.TruncationWarning, match=pattern(1, 2)):
        highlighter.embed([long, "short"])
