"""The set of short questions in `tests/data/short_questions` is sound: it can be scored, and its pages may be copied.

What the passages of these pages are worth is for other tests; this one reads files only.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

SET = Path(__file__).parents[2] / "data" / "short_questions"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted((SET / "pages").iterdir())}
QUESTIONS: list[dict[str, Any]] = [
    json.loads(line) for line in (SET / "questions.jsonl").read_text(encoding="utf-8").splitlines()
]
ANSWERED = [question for question in QUESTIONS if question["answers"]]
KINDS = {"keywords", "question", "imperative", "misspelled", "pronoun", "fragment"}
FIELDS = {"page", "query", "kind", "answers", "split"}


def named(question: dict[str, Any]) -> str:
    return f"{question['page']}: {question['query']}"


def test_every_question_has_the_documented_fields() -> None:
    for question in QUESTIONS:
        assert question.keys() - {"paraphrase"} == FIELDS, named(question)
        assert question["kind"] in KINDS, named(question)
        assert question["split"] in {"fit", "test"}, named(question)
        assert 1 <= len(question["query"].split()) <= 8, named(question)
    assert {question["kind"] for question in QUESTIONS} == KINDS
    assert len({(question["page"], question["query"]) for question in QUESTIONS}) == len(QUESTIONS)


def test_every_answer_is_an_exact_substring_of_one_line_of_its_page() -> None:
    for question in ANSWERED:
        for answer in question["answers"]:
            assert answer == answer.strip() != "", named(question)
            assert "\n" not in answer, named(question)
            assert answer in PAGES[question["page"]], f"{named(question)}: {answer}"


def test_no_answer_holds_markup_that_a_reader_of_html_drops() -> None:
    for question in ANSWERED:
        if question["page"].endswith(".html"):
            assert not [answer for answer in question["answers"] if re.search(r"[<>&]|\s\s", answer)], named(question)


def test_answers_are_specific_enough_to_be_found_by_their_text() -> None:
    for question in ANSWERED:
        for answer in question["answers"]:
            assert PAGES[question["page"]].count(answer) <= 3, f"{named(question)}: {answer}"


def test_between_30_and_40_percent_are_unanswerable_in_each_split() -> None:
    for split in ("fit", "test"):
        asked = [question for question in QUESTIONS if question["split"] == split]
        assert 0.3 <= sum(not question["answers"] for question in asked) / len(asked) <= 0.4


def test_a_fifth_of_the_answered_questions_need_paraphrase() -> None:
    assert not [named(question) for question in QUESTIONS if question.get("paraphrase") and not question["answers"]]
    assert sum(question.get("paraphrase", False) for question in ANSWERED) >= 0.2 * len(ANSWERED)


def test_every_page_has_four_to_seven_questions_of_one_split() -> None:
    count = Counter(question["page"] for question in QUESTIONS)
    assert count.keys() == PAGES.keys()
    assert not [name for name, asked in count.items() if not 4 <= asked <= 7]
    pairs = {(question["page"], question["split"]) for question in QUESTIONS}
    assert Counter(split for _, split in pairs) == {"fit": 15, "test": 15}


@pytest.mark.parametrize("name", PAGES)
def test_every_page_has_one_line_in_licenses(name: str) -> None:
    lines = (SET / "LICENSES.md").read_text(encoding="utf-8").splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith(f"| `{name}` |")]
    assert len(rows) == 1
    source, licence = rows[0][1].strip(), rows[0][3].strip()
    assert source
    assert licence


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_between_two_and_sixty_kilobytes(name: str) -> None:
    assert 2_000 <= (SET / "pages" / name).stat().st_size <= 60_000


def test_the_set_is_below_a_megabyte() -> None:
    assert sum(path.stat().st_size for path in SET.rglob("*") if path.is_file()) < 1_000_000
