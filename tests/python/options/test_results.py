"""What a result offers: the best of all pages, ids, marks, prompts, citations, tables, and how it shows and serializes itself."""

import contextlib
import datetime
import html
import json
import os
import pickle
import pty
import re
import subprocess
import sys
import uuid
import warnings
from html.parser import HTMLParser
from typing import Any, get_type_hints
from urllib.parse import unquote

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pullquote
from pullquote import Highlight, Highlighter, Highlights, errors
from pullquote._engine import call_progress
from pullquote._native import ANSWERED
from pullquote._results.fields import HighlightDict, make_lists
from pullquote._results.marks import BLANK_LINE, shown_span
from support.messages import raises

MOON = "Cats sleep a lot. The moon is 384,400 km away.\n\nBread & butter <b>is</b> baked."
TIDES = "The moon pulls the sea. Tides rise twice a day. Salt is mined."
PAGES = {"moon": MOON, "https://tides.example/a": TIDES}
QUERY = "How far is the moon?"


@pytest.fixture(scope="module")
def result(highlighter: Highlighter) -> Highlights:
    return highlighter.highlights(QUERY, PAGES, highlight_length=1, explain=True)


def test_best_sorts_all_pages_by_score(result: Highlights) -> None:
    every = [highlight for found in result for highlight in found]
    best = result.best()
    assert sorted(every, key=lambda highlight: -highlight.score) == best
    assert result.best(2) == best[:2]
    assert {highlight.page for highlight in best} == {0, 1}
    for wrong in (0, -1, 2.5, True):
        with raises(errors.InvalidArgumentError, "n", wrong):
            result.best(wrong)  # type: ignore[arg-type]


def test_max_total_highlights_keeps_best_of_all_pages(highlighter: Highlighter, pages: dict[str, str]) -> None:
    question, texts = "How much did the Apollo program cost?", list(pages.values())
    every = highlighter.highlights(question, texts, dedupe="answer", top_k=4).best()
    for count in (1, 2, 4):
        found = highlighter.highlights(question, texts, max_total_highlights=count)
        assert [one.text for one in found.best()] == [one.text for one in every[:count]]
    both = highlighter.highlights(question, texts, max_total_highlights=3, max_total_tokens=1000)
    assert len(both.scores) == 3
    with raises(errors.InvalidArgumentError, "max_total_highlights", 0):
        highlighter.highlights(question, texts, max_total_highlights=0)


def test_ids_are_carried_to_highlights(highlighter: Highlighter, result: Highlights) -> None:
    assert result.ids == [*PAGES]
    assert {highlight.page: highlight.id for highlight in result.best()} == dict(enumerate(PAGES))
    pairs = highlighter.highlights(QUERY, [*PAGES.items()], highlight_length=1, explain=True)
    named = highlighter.highlights(QUERY, PAGES.values(), ids=PAGES.keys(), highlight_length=1, explain=True)
    assert pairs.best() == named.best() == result.best()
    assert {highlight.id for highlight in highlighter.highlights(QUERY, [MOON]).best()} == {None}


def test_bool_and_len(highlighter: Highlighter, result: Highlights) -> None:
    nothing = highlighter.highlights(QUERY, ["", MOON], min_score=1.0)
    assert (bool(result), len(result)) == (True, 2)
    assert (bool(nothing), len(nothing)) == (False, 2)


def test_marked_words_and_passages(result: Highlights) -> None:
    best = result.best()[0]
    assert best.text == "The moon is 384,400 km away."
    assert "<b>moon</b>" in best.marked("<b>", "</b>")
    assert best.marked("[", "]", words=False) == f"[{best.text}]"
    assert best.marked("<b>", "</b>").replace("<b>", "").replace("</b>", "") == html.escape(best.text)
    plain = Highlight("A & B.\n\nC.", 0, 10, 0.5, 0.5, 0.5, before="<", after=">")
    assert plain.marked() == "&lt;<em>A &amp; B.</em>\n\n<em>C.</em>&gt;"
    assert plain.marked(encoder=None) == "<<em>A & B.</em>\n\n<em>C.</em>>"
    assert plain.marked(words=True) == "&lt;A &amp; B.\n\nC.&gt;"
    with raises(errors.InvalidArgumentError, "pre", "'['", "post"):
        plain.marked("[")
    with raises(errors.InvalidArgumentError, "encoder", "xml", "html"):
        plain.marked(encoder="xml")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "page", "marked"),
    [
        ("1250", "The fee is $1,250.00 a day.", "The fee is $[1,250.00] a day."),
        ("1,250", "Die Miete ist 1.250,00 € im Monat.", "Die Miete ist [1.250,00] € im Monat."),
        ("1250", "The fee is 1\u202f250 a day.", "The fee is [1\u202f250] a day."),
        ("1250000", "It costs 12,50,000 rupees.", "It costs [12,50,000] rupees."),
        ("15", "It weighs 1.5 kg.", "It weighs 1.5 kg."),
        ("E number", "The code E1040 has a number.", "The code E1040 has a [number]."),
        ("mp", "Play the mp3 for an mp.", "Play the mp3 for an [mp]."),
        ("name", "Call get_name for a name.", "Call get_name for a [name]."),
        ("name", "Give a _name_ for it.", "Give a _[name]_ for it."),
        ("script", "JavaScript is no script.", "JavaScript is no [script]."),
        ("5 kg", "It weighs 5kg.", "It weighs [5][kg]."),
        ("batch", "Set max_batch_tokens.", "Set max_[batch]_tokens."),
    ],
)
def test_marked_words_are_numbers_by_value_and_no_parts_of_identifiers(
    highlighter: Highlighter, query: str, page: str, marked: str
) -> None:
    found = highlighter.highlights(query, [page], format="text", explain=True)
    assert found.marked(0, "[", "]", encoder=None, words=True) == marked


def test_letter_of_a_query_counts_with_its_noun(highlighter: Highlighter) -> None:
    page = "Plan B costs 10 euros. Plan C costs 30 euros. Plan A costs 20 euros. Plan D costs nothing."
    for letter, cost in zip("ABCD", ("20 euros", "10 euros", "30 euros", "nothing"), strict=True):
        best = highlighter.highlights(f"What does plan {letter} cost?", [page], highlight_length=1, top_k=1)[0][0]
        assert best.text == f"Plan {letter} costs {cost}."


def test_marked_page_with_explain_chooses_for_each_passage(highlighter: Highlighter) -> None:
    page = "The moon is far. Cats sleep a lot."
    found = highlighter.highlights("How far is the moon?", [page], explain=True, highlight_length=1)
    assert found.marked(0) == "The <em>moon</em> is <em>far</em>. <em>Cats sleep a lot.</em>"
    assert found.marked(0, "<b class=x>", words=True) == (
        "The <b class=x>moon</b> is <b class=x>far</b>. Cats sleep a lot."
    )
    with raises(errors.InvalidArgumentError, "words=True", "explain=True"):
        highlighter.highlights("moon", [page]).marked(0, words=True)


class Nesting(HTMLParser):
    """Fails on marks that are not closed, or that cross another element."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.shown = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - the base's
        assert tag == "mark"
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        assert not (self.open and BLANK_LINE.search(data))
        self.shown += data


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["The moon. ", "Salt & <b>bread</b>. ", "\n\n", "漢字。", "*a* ", "`x` "]), max_size=12)
)
def test_marks_nest_and_text_is_escaped(highlighter: Highlighter, parts: list[str]) -> None:
    page = "".join(parts)
    found = highlighter.highlights(["moon bread", "salt"], [page], highlight_length=1)
    for words in (None, False):
        reader = Nesting()
        reader.feed(found.marked(0, "<mark>", "</mark>", words=words))
        assert reader.shown == found.texts[0]
        assert not reader.open


def test_marked_fragments_and_no_match_size(highlighter: Highlighter, result: Highlights) -> None:
    assert result.marked(0, "<i>", "</i>", fragments=1) == [result[0][0].marked("<i>", "</i>")]
    nothing = highlighter.highlights(QUERY, [MOON], min_score=1.0)
    assert nothing.marked(0, fragments=2) == []
    assert nothing.marked(0, fragments=2, no_match_size=20) == ["Cats sleep a lot."]
    assert nothing.marked(0) == html.escape(MOON)
    wrong: dict[str, Any]
    for wrong in ({"fragments": 0}, {"fragments": 1, "no_match_size": -1}, {"page": 1}):
        with raises(errors.InvalidArgumentError, list(wrong)[-1]):
            nothing.marked(**({"page": 0} | wrong))  # type: ignore[call-overload]


MARKDOWN = (
    "# The *Moon*\n\nThe [moon is](https://moon.example/moon) **far away: 384,400** km. `moon` it is.\n\n"
    "```\nmoon = 1\n```\n"
)


def test_marks_of_markdown_are_around_text_only(highlighter: Highlighter) -> None:
    found = highlighter.highlights(QUERY, [MARKDOWN], top_k=1, highlight_length=3)
    assert found.formats == ["markdown"]
    marked = found.marked(0, "{", "}", encoder=None)
    assert marked.replace("{", "").replace("}", "") == MARKDOWN
    assert "{The} [{moon is}](https://moon.example/moon) **{far away: 384,400}** {km.} {`moon`} {it is.}" in marked
    assert "{moon = 1" not in marked


def test_text_fragment_of_markdown_has_no_markup(highlighter: Highlighter) -> None:
    found = highlighter.highlights(QUERY, [MARKDOWN], top_k=1, highlight_length=1)
    shown, (start, end) = shown_span(MARKDOWN, (found[0][0].start, found[0][0].end))
    assert "moon is far away: 384,400 km." in shown[start:end]
    fragment = unquote(found.text_fragment(found[0][0]))
    assert not re.search(r"[*`\[\]]|https", fragment)


def test_prompt_numbers_lead_back(result: Highlights) -> None:
    text = result.prompt()
    best = result.best()
    for number, highlight in enumerate(best, 1):
        assert f"[{number}] {highlight.id}\n{highlight.text}" in text
        assert result.resolve(f"[{number}]") == result.resolve(number) == highlight
    short = result.prompt(max_tokens=30)
    assert short
    assert text.startswith(short)
    assert len(short.encode()) <= 90
    assert result.prompt(max_tokens=20)
    assert result.resolve_all("It is so [1][2].") == ({1: best[0]}, [2])
    with pytest.warns(errors.UsageWarning, match="no room"):
        result.prompt(max_tokens=1)
    assert result.resolve_all("[1]").unknown == [1]
    result.prompt()
    for wrong in ("[0]", f"[{len(best) + 1}]", "first", -1):
        with raises(errors.InvalidArgumentError, "number", repr(wrong)):
            result.resolve(wrong)
    with raises(errors.InvalidArgumentError, "max_tokens", 0):
        result.prompt(max_tokens=0)


def test_resolve_reads_answers_of_language_models(result: Highlights) -> None:
    best = result.best()
    assert result.resolve("It is far, as in [2].") == best[1]
    for wrong in ("It is [1][2].", "[1, 2]"):
        with raises(errors.InvalidArgumentError, repr(wrong), "resolve_all"):
            result.resolve(wrong)
    found, unknown = result.resolve_all("Far [2][1]. White [^3, 9], wet 【1】 and salty [1-3] since [1961-2020].")
    assert found == {2: best[1], 1: best[0], 3: best[2]}
    assert list(found) == [2, 1, 3]
    assert unknown == [9, 1961, 2020]
    assert result.resolve_all("Nothing.") == ({}, [])


def test_prompt_checks_count_tokens(result: Highlights) -> None:
    for wrong, named in ((5, "5"), (lambda text: text.split()[:1], "'[1]'")):
        with raises(errors.InvalidTypeError, "count_tokens", named):
            result.prompt(max_tokens=50, count_tokens=wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_highlights_of_other_results_are_refused(highlighter: Highlighter, result: Highlights) -> None:
    other = highlighter.highlights(QUERY, ["Salt. " * 9, "Bread. " * 9, "The moon."]).best()
    for position in (result.text_fragment, result.selectors):
        for highlight in other:
            with raises(errors.InvalidArgumentError, "highlight", f"page {highlight.page}"):
                position(highlight)
        with raises(errors.InvalidTypeError, "highlight", 0):
            position(0)  # type: ignore[arg-type]  # wrong on purpose


def test_citations_have_char_locations(highlighter: Highlighter) -> None:
    found = highlighter.highlights(QUERY, [*PAGES.values()], titles=["The Moon", None], ids=[7, 8])
    cited = found.as_citations()
    assert [one["type"] for one in cited] == ["char_location"] * len(found.scores)
    for one in cited:
        page = [*PAGES.values()][one["document_index"]]
        assert page[one["start_char_index"] : one["end_char_index"]] == one["cited_text"]
        assert one["document_title"] == ["The Moon", "8"][one["document_index"]]


@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_tool_schema_takes_options_of_highlights(highlighter: Highlighter, api: Any) -> None:
    tool = pullquote.tool_schema(api)
    inside = tool if api == "anthropic" else tool["function"]
    schema = inside["input_schema" if api == "anthropic" else "parameters"]
    arguments: dict[str, Any] = {"query": QUERY, "max_total_highlights": 1}
    assert schema["properties"].keys() == arguments.keys()
    assert len(highlighter.highlights(texts=[MOON], **arguments).scores) == 1
    assert json.loads(json.dumps(tool)) == tool


def test_tool_schema_of_unknown_api() -> None:
    with raises(errors.InvalidArgumentError, "api", "gemini", "anthropic", "openai"):
        pullquote.tool_schema("gemini")  # type: ignore[arg-type]


def test_to_dict_has_all_fields(result: Highlights) -> None:
    told = json.loads(json.dumps(result.to_dict()))
    assert told["answered"] is result.answered
    assert [row["answered"] for row in told["results"]] == [any(h.score >= ANSWERED for h in found) for found in result]
    assert [(row["page"], row["id"], row["format"]) for row in told["results"]] == [
        (index, name, result.formats[index]) for index, name in enumerate(PAGES)
    ]
    for row, found in zip(told["results"], result, strict=True):
        assert row["highlights"] == [json.loads(json.dumps(highlight.to_dict())) for highlight in found]
        for one, highlight in zip(row["highlights"], found, strict=True):
            assert one.keys() == get_type_hints(HighlightDict).keys()
            assert (one["page_number"], one["rectangles"]) == (None, [])
            assert Highlight(**make_lists(one)) == highlight


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_tables_have_a_row_for_each_highlight(result: Highlights, kind: str) -> None:
    table = getattr(result, f"to_{kind}")()
    rows = table.to_dicts() if kind == "polars" else table.to_pylist() if kind == "arrow" else table.to_dict("records")
    every = [highlight for found in result for highlight in found]
    assert len(rows) == len(every)
    for row, highlight in zip(rows, every, strict=True):
        assert row == {name: value for name, value in highlight.to_dict().items() if name in row}


@pytest.mark.parametrize("ids", [None, ["a", "b"], [1, 2], [None, "b"], [datetime.date(2026, 1, 1)] * 2])
def test_tables_without_rows_have_the_same_types(highlighter: Highlighter, ids: list[Any] | None) -> None:
    some, none = (highlighter.highlights("Where?", [text, ""], ids=ids) for text in ("Here.", ""))
    assert (len(some.scores), len(none.scores)) == (1, 0)
    assert none.to_arrow().schema == some.to_arrow().schema
    assert none.to_polars().schema == some.to_polars().schema
    both = polars.concat([none.to_polars(), some.to_polars()])
    assert both["id"].to_list() == [None if ids is None else ids[0]]
    assert (none.to_pandas().dtypes == some.to_pandas().dtypes).all() or ids == [None, "b"]


def test_pickled_result_is_the_same(result: Highlights) -> None:
    again = pickle.loads(pickle.dumps(result))  # noqa: S301 - what was written above
    assert [*again] == [*result]
    assert again.to_arrow().equals(result.to_arrow())
    assert again.marked("moon") == result.marked("moon")


def test_fastapi_serializes_results(highlighter: Highlighter) -> None:
    from fastapi import FastAPI
    from fastapi.testclient import TestClient
    from pydantic import BaseModel

    class Answer(BaseModel):
        found: Highlights
        first: Highlight

    app = FastAPI()

    @app.get("/highlights")
    def all_of_them() -> Highlights:
        return highlighter.highlights(QUERY, PAGES)

    @app.get("/lists")
    def lists() -> list[list[Highlight]]:
        return list(highlighter.highlights(QUERY, PAGES))

    @app.get("/answer")
    def answer() -> Answer:
        found = highlighter.highlights(QUERY, PAGES)
        return Answer(found=found, first=found.best(1)[0])

    result = highlighter.highlights(QUERY, PAGES)
    told = json.loads(json.dumps(result.to_dict()))
    client = TestClient(app)
    assert client.get("/highlights").json() == told
    assert client.get("/lists").json() == [row["highlights"] for row in told["results"]]
    both = client.get("/answer").json()
    assert both["found"] == told
    assert both["first"]["text"] == result.best()[0].text
    described = client.get("/openapi.json").json()["paths"]["/highlights"]["get"]["responses"]["200"]
    assert "results" in json.dumps(described) or "$ref" in json.dumps(described)
    with pytest.raises(ValueError, match="Highlights"):
        Answer(found={"results": []}, first=result[0][0])  # type: ignore[arg-type]


def test_repr_shows_passages(result: Highlights) -> None:
    shown = repr(result)
    assert "2 pages" in shown
    for highlight in result.best():
        assert highlight.text[:20] in shown
        assert f"{highlight.start}-{highlight.end}" in shown


def test_repr_of_a_highlight_is_a_line(result: Highlights) -> None:
    first = result.best()[0]
    shown = repr(first)
    assert "\n" not in shown
    for part in (f"{first.start}-{first.end}", f"{first.score:.2f}", repr(first.id), first.text[:20]):
        assert part in shown
    assert len(repr(Highlight("long " * 100, 0, 500, 0.5, 0.5, 1.0))) <= 100


def test_repr_names_queries(highlighter: Highlighter) -> None:
    found = highlighter.highlights([QUERY, "What is mined?"], PAGES, pairing="all", top_k=1)
    assert "query 0, moon" in repr(found)
    assert "query 1, moon" in repr(found)


def test_id_stands_for_a_page(highlighter: Highlighter, result: Highlights) -> None:
    assert result["moon"] == result[0]
    assert result.marked("moon", fragments=1) == result.marked(result.pages[0], fragments=1)
    both = highlighter.highlights([QUERY, "What is mined?"], PAGES, pairing="all")
    assert both[1, "https://tides.example/a"] == both[1, 1]
    with raises(errors.InvalidArgumentError, "2 queries", "result[0, 'moon']"):
        both["moon"]
    with raises(errors.InvalidArgumentError, "'sun'", "'moon'"):
        result["sun"]
    with raises(errors.InvalidArgumentError, "'sun'", "ids"):
        highlighter.highlights(QUERY, [MOON])["sun"]
    with raises(errors.InvalidTypeError, "index", 1.5):
        result[1.5]


def test_id_is_in_the_result(highlighter: Highlighter, result: Highlights) -> None:
    numbered: Any = highlighter.highlights("Where?", {7: "Here.", 3: "There."})
    without: Any = highlighter.highlights("Where?", ["Here."])
    assert all(each in result for each in result.ids or ())
    assert 7 in numbered
    assert 0 not in numbered
    assert "7" not in numbered
    assert "a" not in without
    assert [] not in without
    assert result[0] in result


def test_numeric_ids_are_ids_and_not_positions(highlighter: Highlighter) -> None:
    import pandas

    frame = pandas.DataFrame({"text": [MOON, TIDES]}, index=[7, 0])
    for found in (
        highlighter.highlights(QUERY, {7: MOON, 0: TIDES}),
        highlighter.highlights(QUERY, frame["text"], ids=frame.index),
    ):
        assert {highlight.page for highlight in found[7]} == {0}
        assert {highlight.page for highlight in found[0]} == {1}
        assert found[7] == found.at(0) == next(iter(found)) == [*reversed(found)][1]
        assert found.marked(7, words=False).replace("<em>", "").replace("</em>", "") == html.escape(MOON)
        for missing in (1, -1):
            with raises(errors.InvalidArgumentError, f"id {missing}", "7, 0", f"result.at({missing})"):
                found[missing]
        with raises(IndexError, 2):
            found.at(2)
    both = highlighter.highlights([QUERY, "What is mined?"], {7: MOON, 0: TIDES}, pairing="all")
    assert both[1, 7] == both.at(2)


def test_any_value_can_be_an_id_and_repeated_ids_are_ambiguous(highlighter: Highlighter) -> None:
    found = highlighter.highlights(QUERY, [MOON, TIDES, MOON], ids=[("a", 1), "twice", "twice"])
    assert found["a", 1] == found[0]
    with raises(errors.InvalidArgumentError, "2 pages", "'twice'", "result.at(1)"):
        found["twice"]


@pytest.mark.parametrize(
    ("page", "options", "words"),
    [
        (MOON, {}, ""),
        ("Bread is baked.", {}, "no passage says it in these words"),
        (MOON, {"min_score": 0.999}, "no passage reaches min_score=0.999"),
        ("abc" * 200, {"max_chars": 500}, "no passage is within max_chars=500"),
        (" ", {}, "there is no text"),
    ],
)
def test_note_says_why_nothing_answers(
    highlighter: Highlighter, page: str, options: dict[str, Any], words: str
) -> None:
    with warnings.catch_warnings(action="ignore"):
        found = highlighter.highlights(QUERY, [page], **options)
    assert found.note == words
    assert found.answered is not bool(words)
    assert words in repr(found)
    assert words in found._repr_html_()


def test_prompt_without_room_warns(result: Highlights) -> None:
    with pytest.warns(errors.UsageWarning, match="max_tokens=20 "):
        assert result.prompt(max_tokens=20, count_tokens=len) == ""


def test_ids_of_several_types_make_no_arrow_column(highlighter: Highlighter) -> None:
    found = highlighter.highlights(QUERY, {"moon": MOON, 3: TIDES})
    with raises(errors.InvalidTypeError, "int", "str"):
        found.to_arrow()
    with raises(errors.InvalidTypeError, "int", "str", "Polars"):
        found.to_polars()
    with raises(errors.InvalidTypeError, "ids", "int"):
        highlighter.highlights(QUERY, {2**70: MOON}).to_arrow()


@pytest.mark.parametrize(
    "id_", [datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), uuid.UUID(int=7), ("a", 1)], ids=repr
)
def test_ids_without_a_type_of_json_are_strings_in_it(highlighter: Highlighter, id_: Any) -> None:
    found = highlighter.highlights(QUERY, [MOON], ids=[id_])
    [page] = json.loads(json.dumps(found.to_dict()))["results"]
    assert page["id"] == page["highlights"][0]["id"] == str(id_)
    assert found[id_][0].id == id_
    assert found.to_pandas()["id"].tolist() == [id_] * len(found[id_])


@pytest.mark.parametrize("number", [np.int64(7), np.uint8(7), np.float32(7.5), np.bool_(True)], ids=repr)
def test_ids_of_numpy_are_numbers_of_json(highlighter: Highlighter, number: Any) -> None:
    found = highlighter.highlights(QUERY, [MOON], ids=[number])
    [page] = json.loads(json.dumps(found.to_dict()))["results"]
    assert (page["id"], page["highlights"][0]["id"]) == (number, number)
    assert found[number] == found.at(0)


def test_array_of_pyarrow_is_a_list_of_pages(highlighter: Highlighter) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    assert list(highlighter.highlights(QUERY, pyarrow.array([MOON]))) == list(highlighter.highlights(QUERY, [MOON]))


def test_help_has_options_and_misspelled_names_are_known() -> None:
    assert "`max_total_highlights`" in (pullquote.highlights.__doc__ or "")
    with pytest.raises(AttributeError) as error:
        pullquote.highlight  # noqa: B018 - wrong on purpose
    assert (error.value.name, error.value.obj) == ("highlight", pullquote)


def test_repr_html_escapes_and_links(result: Highlights) -> None:
    shown = result._repr_html_()
    assert "<b>is</b>" not in shown
    assert 'href="https://tides.example/a#:~:text=' in shown
    for highlight in result.best():
        assert html.escape(highlight.text) in shown


@pytest.mark.parametrize(
    "function", [pullquote.highlights, pullquote.Client.highlights, pullquote.AsyncHighlighter.highlights]
)
def test_editors_complete_options(function: Any) -> None:
    from IPython.core.completer import IPCompleter, provisionalcompleter
    from IPython.core.interactiveshell import InteractiveShell

    completer = IPCompleter(InteractiveShell(), namespace={"find": function})
    completer.use_jedi = False
    with provisionalcompleter():
        matches = {match.text for match in completer.completions("find(query, texts, max_tot", 26)}
    assert {"max_total_chars=", "max_total_tokens=", "max_total_highlights="} <= matches


def test_progress_leaves_no_html_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    from IPython import display

    shown: list[tuple[Any, bool]] = []

    class Handle:
        def update(self, data: object, *, raw: bool = False) -> None:
            shown.append((data, raw))

    monkeypatch.setattr(display, "display", lambda *_, **__: Handle())
    monkeypatch.setattr(call_progress, "DELAY", 0.0)
    report = call_progress._Report(is_notebook=True)
    report(10, 1)
    report.clear()
    assert shown == [({"text/plain": ""}, True)]


@pytest.mark.slow
def test_long_calls_show_progress_at_a_prompt(pages: dict[str, str]) -> None:
    """In a pseudo-terminal with a prompt: a line that counts windows, cleared at the end; none without a prompt."""
    code = (
        "import sys, pullquote\n{prompt}\n"
        "with pullquote.Highlighter(threads=1, dtype='float32') as highlighter:\n"
        "    highlighter.highlights('Who died?', [sys.stdin.read()], effort='full', format='text')\n"
    )
    text = "\n\n".join(f"{page} {number}" for number in range(6) for page in pages.values())
    for prompt, is_shown in (("sys.ps1 = '> '", True), ("", False)):
        ours, theirs = pty.openpty()
        with os.fdopen(ours, "rb", buffering=0) as terminal:
            command = [sys.executable, "-c", code.format(prompt=prompt)]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=theirs) as process:
                os.close(theirs)
                process.communicate(text.encode())
            written = b""
            with contextlib.suppress(OSError):  # the other side is closed
                while part := terminal.read(65536):
                    written += part
        assert (b"windows encoded" in written) == is_shown, written
        assert written.endswith(b"\r\x1b[K") or not is_shown


def test_contexts_of_all_highlights_are_bounded(highlighter: Highlighter) -> None:
    page = " ".join(f"Sentence {number} is about the moon." for number in range(600))
    asked: dict[str, Any] = {"top_k": 600, "highlight_length": 1, "dedupe": "none", "effort": "instant"}
    found = highlighter.highlights(QUERY, [page], context=600, **asked)
    for read in (found.to_dict, found.to_arrow, found.to_pandas):
        with raises(errors.LimitExceededError, "context=600", "600"):
            read()
    assert found.contexts.tolist() == [[0, len(page)]] * 600
    assert found.best(3)[0].before is not None
    assert len(highlighter.highlights(QUERY, [page], context=5, **asked).to_dict()["results"][0]["highlights"]) == 600
