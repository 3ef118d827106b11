"""Selection of passages: budgets, `dedupe`, `context`, `explain`, `pairing`, `fuse`, `titles`, and the cache."""

import asyncio
import math
import pickle
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from pullquote import AsyncHighlighter, Highlighter, Highlights, errors
from pullquote.engine import CacheState, Match
from support.messages import raises

ABOUT_BREAD = "Bread is baked from flour, water and salt. The dough rests for an hour. Ovens must be very hot."
ABOUT_CATS = "Cats sleep for most of the day. They hunt at dawn and at dusk. Some cats like bread crumbs."
ABOUT_MOON = "The moon is far away. It circles the earth in a month. Nobody lives there."


def test_max_total_chars_is_kept_and_spent_on_relevant_pages(highlighter: Highlighter) -> None:
    texts = [ABOUT_MOON, ABOUT_BREAD, ABOUT_CATS]
    for budget in (50, 100, 200):
        found = highlighter.highlights("How is bread baked?", texts, max_total_chars=budget)
        sizes = [sum(len(highlight.text) for highlight in page) for page in found]
        assert sum(sizes) <= budget
        assert sizes[1] == max(sizes)
        assert sizes[1] > 0


def test_max_total_chars_is_for_pages_that_answer_unless_min_score_is_zero(highlighter: Highlighter) -> None:
    texts = [ABOUT_MOON, ABOUT_BREAD, ABOUT_CATS]
    everything = [[text] for text in texts]

    def passages(found: Highlights) -> list[list[str]]:
        return [[highlight.text for highlight in page] for page in found]

    baked, won = "How is bread baked?", "Who won the 2022 World Cup?"
    assert passages(highlighter.highlights(baked, texts, max_total_chars=10_000)) == [[], [ABOUT_BREAD], []]
    assert passages(highlighter.highlights(baked, texts, max_total_chars=10_000, min_score=0)) == everything
    nothing_answers = highlighter.highlights(won, texts, max_total_chars=10_000)
    assert not nothing_answers.answered
    assert passages(nothing_answers) == everything


LONG_WORDS = {
    "base64": "The key is here. " + "QUJD" * 5_000 + " The answer is 42.",
    "thai": "กุญแจอยู่ที่นี่" * 2_000 + " The answer is 42.",
    "links": " ".join(f"https://example.com/{'a1b2' * 60}?answer={number}" for number in range(50)),
    "code": "var answer=42;" * 2_000,
}


@pytest.mark.parametrize("options", [{"max_tokens": 300}, {"max_total_tokens": 400}, {"max_tokens": 600, "top_k": 2}])
@pytest.mark.parametrize("page", LONG_WORDS.values(), ids=LONG_WORDS)
def test_max_tokens_counts_four_bytes_as_a_token(highlighter: Highlighter, page: str, options: dict[str, Any]) -> None:
    (found,) = highlighter.highlights("What is the answer?", [page], **options)
    budget = min(options.get("max_tokens", math.inf), options.get("max_total_tokens", math.inf))
    assert 0 < sum(len(highlight.text.encode()) for highlight in found) <= 4 * budget


@pytest.mark.parametrize("unit", ["word", "token"])
def test_long_word_is_several_words_and_tokens(highlighter: Highlighter, unit: Literal["word", "token"]) -> None:
    page = "The key is here. " + "QUJD" * 500_000 + " The answer is 42."
    (found,) = highlighter.highlights("What is the answer?", [page], unit=unit, highlight_length=40, step_size=20)
    assert "The answer" in found[0].text
    assert max(len(highlight.text) for highlight in found) <= 40 * 257


@pytest.mark.parametrize("option", ["max_tokens", "max_total_tokens"])
def test_max_tokens_and_max_total_tokens_count_model_tokens(
    highlighter: Highlighter, pages: dict[str, str], option: str
) -> None:
    for most in (20, 100):
        options: dict[str, Any] = {option: most}
        found = highlighter.highlights("Who was it?", [pages["apollo_program.en.txt"]], **options)[0]
        used = sum(len(highlighter.parse_pieces(highlight.text, 1, 1, unit="token")) for highlight in found)
        assert most / 2 < used <= most


COUNTERS: dict[str, Callable[[str], int]] = {
    "characters": len,
    "a quarter, rounded down": lambda text: len(text) // 4,
    "words": lambda text: len(text.split()),
    "special tokens": lambda text: 2 + len(text.split()),
    # Together more than the sum of the parts.
    "squares": lambda text: len(text) ** 2 // 100,
}


@pytest.mark.parametrize("name", COUNTERS)
@pytest.mark.parametrize("option", ["max_tokens", "max_total_tokens"])
def test_count_tokens_counts_max_tokens_and_max_total_tokens(
    highlighter: Highlighter, pages: dict[str, str], option: str, name: str
) -> None:
    count = COUNTERS[name]
    for budget in (40, 120, 500):
        for others in ({}, {"top_k": 2}, {"unit": "word", "highlight_length": 20, "step_size": 10}):
            options: dict[str, Any] = {option: budget, "count_tokens": count, **others}
            found = highlighter.highlights("Who was it?", list(pages.values())[:4], **options)
            used = [sum(count(highlight.text) for highlight in page) for page in found]
            assert (max(used) if option == "max_tokens" else sum(used)) <= budget
            if option == "max_tokens" and budget == 500 and not others and name != "squares":
                assert all(
                    2 * size > min(budget, count(page)) for size, page in zip(used, pages.values(), strict=False)
                )


def test_count_tokens_of_transformers(highlighter: Highlighter, pages: dict[str, str]) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(highlighter.model / "tokenizer.json"))

    def count(text: str) -> int:
        # This changes the tokenizer, which must not encode at the same time.
        return len(tokenizer(text, truncation=True, max_length=10_000).input_ids)

    with ThreadPoolExecutor(4) as pool:
        calls = [
            pool.submit(highlighter.highlights, "Who?", [page] * 2, max_total_tokens=100, count_tokens=count)
            for page in pages.values()
        ]
    assert all(0 < sum(count(one.text) for one in call.result().best()) <= 100 for call in calls)


def fails(text: str) -> int:
    return {"known": 1}[text[:3]]


@pytest.mark.parametrize(
    ("count", "options", "error", "names"),
    [
        (fails, {"max_tokens": 50}, errors.InvalidArgumentError, ["KeyError", "The"]),
        (str.split, {"max_tokens": 50}, errors.InvalidTypeError, ["The", "length"]),
        (lambda text: -len(text), {"max_total_tokens": 50}, errors.InvalidArgumentError, ["0 or more", -22]),
        (5, {"max_tokens": 50}, errors.InvalidTypeError, ["function", 5]),
        (len, {"max_chars": 50}, errors.InvalidArgumentError, ["max_tokens", "max_total_tokens"]),
    ],
)
def test_count_tokens_that_fails_is_named(
    highlighter: Highlighter, count: Any, options: dict[str, Any], error: type[Exception], names: list[object]
) -> None:
    asked = partial(highlighter.highlights, "moon", [ABOUT_MOON, ABOUT_CATS], **options)
    with raises(error, "count_tokens", *names) as caught:
        asked(count_tokens=count)
    assert isinstance(caught.value.__cause__, KeyError) == (count is fails)
    awaited = AsyncHighlighter.sharing(highlighter)
    with raises(error, "count_tokens", *names):
        asyncio.run(awaited.highlights("moon", [ABOUT_MOON, ABOUT_CATS], count_tokens=count, **options))
    assert highlighter.highlights("moon", [ABOUT_MOON], max_tokens=50, count_tokens=len)


def test_result_with_count_tokens_can_be_pickled(highlighter: Highlighter) -> None:
    found = highlighter.highlights("moon", [ABOUT_MOON], max_tokens=90, count_tokens=lambda text: 2 * len(text))
    assert pickle.loads(pickle.dumps(found)).best() == found.best()  # noqa: S301 - our own


def test_dedupe_drops_repeated_passages(highlighter: Highlighter) -> None:
    page = f"{ABOUT_BREAD}\n\n{ABOUT_MOON}\n\n{ABOUT_BREAD.upper()}"
    query = "How is bread baked?"

    def texts(**options: Any) -> list[str]:
        result = highlighter.highlights(query, [page, ABOUT_BREAD], top_k=9, highlight_length=1, **options)
        return [highlight.text for found in result for highlight in found]

    kept, dropped, over_pages = texts(dedupe="none"), texts(), texts(dedupe="answer")
    assert (len(kept), len(dropped), len(over_pages)) == (12, 9, 6)
    assert sum("FLOUR" in text.upper() for text in over_pages) == 1


def test_dedupe_names_the_twins_of_what_stays(highlighter: Highlighter) -> None:
    tickets = {
        "a": "My gift card never came.",
        "b": "Hello 🎁! My gift card never came.",
        "page": "<p>Caf&eacute;.</p><p>My gift card <b>never</b> came!</p>",
        "other": "The gift card that I bought is blank. Its box is torn.",
    }
    options: dict[str, Any] = {"highlight_length": 1, "format": "auto"}
    query = "When did the gift card come?"
    found = highlighter.highlights(query, tickets, max_total_highlights=3, **options)
    first, *others = sorted(found.best(), key=lambda one: one.id == "other")
    assert {one.id for one in others} == {"other"}
    assert found.ids is not None
    ids = [first.id, *(found.ids[twin.page] for twin in first.twins)]
    assert sorted(ids) == ["a", "b", "page"]
    texts = [found.texts[twin.page][twin.start : twin.end] for twin in first.twins]
    assert {text[:-1] for text in texts} == {"My gift card never came"}
    assert all(one.twins == () for one in others)
    assert "2 twins left out" in repr(found)
    assert first.to_dict()["twins"] == [asdict(twin) for twin in first.twins]
    assert pickle.loads(pickle.dumps(found)).best() == found.best()  # noqa: S301 - our own
    every = highlighter.highlights(query, tickets, dedupe="none", **options)
    assert all(not one.twins for one in every.best())
    repeated = highlighter.highlights("gift card", ["\n\n".join(["My gift card never came."] * 300)], **options)
    assert [len(one.twins) for one in repeated.best()] == [100]


def test_heading_and_table_header_stay_with_passage(highlighter: Highlighter) -> None:
    page = (
        "# Baking\n\nBread is baked from flour. It is eaten warm.\n\n# Prices\n\n"
        "| what | price |\n|---|---|\n| bread | 3 |\n| cake | 5 |\n\nAll prices are in euros."
    )
    found = highlighter.highlights("What does a cake cost?", [page], top_k=1, highlight_length=1)[0][0]
    assert found.text.startswith("# Prices\n\n| what | price |")
    assert found.text.endswith("| cake | 5 |")
    found = highlighter.highlights("What is bread baked from?", [page], top_k=1, highlight_length=1)[0][0]
    assert found.text == "# Baking\n\nBread is baked from flour."


UBUNTU = (Path(__file__).parents[2] / "data/short_questions/pages/ubuntu-releases.csv").read_text(encoding="utf-8")
STAFF: list[tuple[str, ...]] = [
    ("Name", "Room", "Phone"),
    *((f"Employee {number}", f"{number}B", f"555-{number}") for number in range(70)),
]


def as_html(rows: list[tuple[str, ...]]) -> str:
    head, *body = ["".join(f"<{{0}}>{cell}</{{0}}>" for cell in row) for row in rows]
    lines = [head.format("th"), *(row.format("td") for row in body)]
    return "<!doctype html><table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


@pytest.mark.parametrize(
    ("page", "written", "query", "header", "row"),
    [
        (UBUNTU, "text", "when was jammy released?", UBUNTU.splitlines()[0], "jammy,2021-10-14"),
        (UBUNTU, "text", "codename of 16.04", UBUNTU.splitlines()[0], "16.04 LTS,Xenial Xerus"),
        ("\n".join("\t".join(row) for row in STAFF), "text", "Phone of employee 61", "Name\tRoom\tPhone", "555-61"),
        (
            "\n".join(["| Name | Room | Phone |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in STAFF[1:])]),
            "markdown",
            "Phone of employee 61",
            "| Name | Room | Phone |",
            "555-61",
        ),
        (as_html(STAFF), "html", "Phone of employee 61", "Name\tRoom\tPhone", "555-61"),
    ],
    ids=["csv", "csv asked by name of column", "tsv", "markdown", "html"],
)
def test_header_names_columns_of_rows(
    highlighter: Highlighter, page: str, written: Any, query: str, header: str, row: str
) -> None:
    result = highlighter.highlights(query, [page], format=written, top_k=1)
    (found,) = result[0]
    assert row in found.text
    assert header not in found.text
    assert found.header == header
    start, end = result.headers[0].tolist()
    assert result.texts[0][start:end] == header
    assert result.prompt().endswith(f"{header}\n{found.text}")


@pytest.mark.parametrize("effort", ["auto", "instant"])
@pytest.mark.parametrize("query", ["Where are the settings kept on Linux?", "linux settings file"])
def test_headings_tell_sections_apart(highlighter: Highlighter, query: str, effort: Any) -> None:
    settings = "The settings are kept in a file of the home folder."
    text = (
        "It starts with the computer. A small icon shows that it runs. A click on the icon opens a list of copies. Old "
        f"copies are deleted after a month.\n\n{settings} Nothing else is written there. No other program reads it."
    )
    page = "\n\n".join(f"## {system}\n\n{text}" for system in ("Windows", "Linux", "Phones"))
    (found,) = highlighter.highlights(query, [page], format="text", effort=effort, top_k=1)[0]
    assert settings in found.text
    assert page.index("## Linux") <= found.start < found.end < page.index("## Phones")


def test_header_is_empty_without_table_and_in_its_own_passage(highlighter: Highlighter) -> None:
    for page in (ABOUT_BREAD, "name,price\nbread,3\ncake,5"):
        (found,) = highlighter.highlights("What is the price of bread?", [page], top_k=1)[0]
        assert "bread" in found.text.lower()
        assert found.header == ""


def test_context_returns_text_before_and_after(highlighter: Highlighter) -> None:
    found = highlighter.highlights("dough rests", [ABOUT_BREAD], top_k=1, highlight_length=1, context=1)[0][0]
    assert found.text == "The dough rests for an hour."
    assert found.before == "Bread is baked from flour, water and salt. "
    assert found.after == " Ovens must be very hot."
    assert found.before + found.text + found.after == ABOUT_BREAD
    plain = highlighter.highlights("dough rests", [ABOUT_BREAD], top_k=1, highlight_length=1)[0][0]
    assert (plain.before, plain.after) == ("", "")


def test_explain_lists_matched_words(highlighter: Highlighter) -> None:
    query = "How do cats hunt?"
    found = highlighter.highlights(query, [ABOUT_CATS], top_k=1, highlight_length=1, explain=True)[0][0]
    assert found.matches
    assert all(match.word in query for match in found.matches)
    assert {ABOUT_CATS[match.start : match.end] for match in found.matches} <= {"Cats", "cats", "hunt"}
    assert Match("hunt", 37, 41) in found.matches
    assert highlighter.highlights(query, [ABOUT_CATS])[0][0].matches == ()


def test_pairing_all_encodes_pages_once(highlighter: Highlighter) -> None:
    queries, texts = ["How is bread baked?", "When do cats hunt?"], [ABOUT_BREAD, ABOUT_CATS, ABOUT_MOON]
    result = highlighter.highlights(queries, texts, pairing="all", top_k=1)
    assert len(result) == 6
    one = highlighter.highlights(queries[0], texts, top_k=1)
    assert result.work.windows == one.work.windows
    for number, query in enumerate(queries):
        alone = highlighter.highlights(query, texts, top_k=1)
        for page in range(3):
            [together], [single] = result[number, page], alone[page]
            assert (together.text, together.query, together.page) == (single.text, number, page)
            assert together.score == pytest.approx(single.score, abs=2e-3)
    with raises(IndexError, "query 2", "page 0"):
        result[2, 0]


def test_fuse_joins_queries_on_each_page(highlighter: Highlighter) -> None:
    queries, texts = ["How is bread baked?", "When do cats hunt?"], [ABOUT_BREAD, ABOUT_CATS]
    result = highlighter.highlights(queries, texts, fuse=True, top_k=1, highlight_length=1)
    assert [found[0].query for found in result] == [0, 1]
    assert "baked" in result[0][0].text
    assert "hunt" in result[1][0].text


def test_titles_raise_scores_of_their_page(highlighter: Highlighter) -> None:
    page = "He was born in 1162 near the river. His mother raised him alone."
    other = "He was born in 1769 on an island. His father was a lawyer."
    query = "When was Napoleon born?"
    found = highlighter.highlights(query, [page, other], titles=["Genghis Khan", "Napoleon"], top_k=1)
    assert found[1][0].score > found[0][0].score + 0.1
    untitled = highlighter.highlights(query, [page, other], titles=[None, None], top_k=1)
    assert untitled.scores.tolist() == highlighter.highlights(query, [page, other], top_k=1).scores.tolist()


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"context": -1}, ["context", -1]),
        ({"max_tokens": 0}, ["max_tokens", 0]),
        ({"max_total_chars": -5}, ["max_total_chars", -5]),
        ({"dedupe": "keep"}, ["dedupe", "keep", "auto", "page", "answer", "none"]),
        ({"pairing": "zip"}, ["pairing", "zip", "auto", "each", "all"]),
        ({"pairing": "each", "fuse": True}, ["fuse", "pairing", "each"]),
        ({"titles": ["one", "two"]}, ["titles", 2, 1]),
    ],
)
def test_invalid_selection_option_is_error(
    highlighter: Highlighter, options: dict[str, Any], names: list[object]
) -> None:
    with raises(errors.InvalidArgumentError, *names):
        highlighter.highlights("bread", [ABOUT_BREAD], **options)
    with raises(errors.InvalidTypeError, "titles[0]", "int"):
        highlighter.highlights("bread", [ABOUT_BREAD], titles=[3])  # type: ignore[list-item]  # wrong on purpose


def test_cache_bytes_reuses_page_vectors(pages: dict[str, str]) -> None:
    texts = [text[:1000] for text in list(pages.values())[:3]]
    with (
        Highlighter(devices="cpu", dtype="float32") as kept,
        Highlighter(devices="cpu", dtype="float32", cache_bytes=0) as plain,
    ):
        first = kept.highlights("Who was it?", texts)
        assert first.work.encoded > 0
        assert kept.cache.misses == len(texts)
        for query in ("Who was it?", "Where did it happen?"):
            again, anew = kept.highlights(query, texts), plain.highlights(query, texts)
            # Another question may need a few windows that the first did not.
            assert again.work.encoded <= anew.work.encoded // 10
            assert again.work.windows == anew.work.windows
            assert again.spans.tolist() == anew.spans.tolist()
            assert again.scores == pytest.approx(anew.scores, abs=2e-5)
        assert kept.cache.hits == 2 * len(texts)
        assert kept.cache.pages == len(texts)
        assert 0 < kept.cache.bytes < 256 * 1024 * 1024
        kept.clear_cache()
        assert (kept.cache.pages, kept.cache.queries, kept.cache.bytes) == (0, 0, 0)
        assert plain.cache == CacheState(0, 0, 0, 0, 0)


def test_cache_bytes_bounds_cache(pages: dict[str, str]) -> None:
    texts = [f"{text}\n\nPage {number}." for number in range(8) for text in [next(iter(pages.values()))[:1000]]]
    with Highlighter(devices="cpu", dtype="float32") as made:
        made.highlights("Who was it?", texts[:1])
        one = made.cache.bytes
    with Highlighter(devices="cpu", dtype="float32", cache_bytes=4 * one) as made:
        for text in texts:
            made.highlights("Who was it?", [text])
            assert made.cache.bytes <= 4 * one
        assert made.cache.pages == 4
        assert made.highlights("Who was it?", texts[-1:]).work.encoded == 0
        assert made.highlights("Who was it?", texts[:1]).work.encoded > 0


def test_negative_cache_bytes_is_error() -> None:
    with raises(errors.InvalidArgumentError, "cache_bytes", -1):
        Highlighter(cache_bytes=-1)


@pytest.mark.parametrize(
    "options", [{"max_chars": 15}, {"max_total_tokens": 3}, {"max_tokens": 9, "count_tokens": len}]
)
def test_warning_of_small_budgets_names_what_fits(highlighter: Highlighter, options: dict[str, Any]) -> None:
    with pytest.warns(errors.UsageWarning, match="no passage fits") as caught:
        assert not highlighter.highlights("moon", [ABOUT_MOON, ABOUT_CATS], **options)
    numbers = [int(number) for number in re.findall(r" ([0-9]+) (?:characters|tokens)", str(caught[0].message))]
    assert len(numbers) == (1 if "max_chars" in options else 2)
    enough: dict[str, Any] = options | {next(iter(options)): numbers[-1]}
    assert highlighter.highlights("moon", [ABOUT_MOON, ABOUT_CATS], **enough)
