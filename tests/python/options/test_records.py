"""Logs, chats, lists, subtitles, data and source code in plain text: passages begin and end at their records."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

import pullquote
from pullquote import Highlighter

CASES: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[2] / "data/records.json").read_text(encoding="utf-8")
)

COUNT = 40
ANSWER = 17


def cases(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", CASES[kind], ids=[case["name"] for case in CASES[kind]])


def numbered(line: str) -> list[str]:
    """Records of one shape, with `{i}` for the number."""
    return [line.replace("{ii}", f"{i:02}").replace("{i}", str(i)) for i in range(COUNT)]


SEPARATED = [
    pytest.param(case, separator, id=f"{case['name']}-{name}")
    for case in CASES["records"]
    for name, separator in {"lines": "\n", "crlf": "\r\n", "paragraphs": "\n\n"}.items()
    if name != "paragraphs" or case.get("is_spaced")
]


@pytest.mark.parametrize(("case", "separator"), SEPARATED)
def test_passages_begin_and_end_at_records(highlighter: Highlighter, case: dict[str, Any], separator: str) -> None:
    records = numbered(case["line"])
    records[ANSWER] = case.get("answer", records[ANSWER])
    line_end = "\r\n" if separator == "\r\n" else "\n"
    header = [case["header"]] if "header" in case else []
    rows = [row.replace("\n", line_end) for row in header + records]
    page = separator.join(rows) + separator
    found = highlighter.highlights(case["query"], [page], format="text", top_k=1)[0][0]
    starts = list(itertools.accumulate((len(row) + len(separator) for row in rows), initial=0))
    begins = [start + len(row) - len(row.lstrip()) for row, start in zip(rows, starts, strict=False)]
    ends = [start + len(row) for row, start in zip(rows, starts, strict=False)]
    assert found.start in begins, found.text
    assert found.end in ends, found.text
    assert rows[len(header) + ANSWER].strip() in found.text
    assert len(found.text) <= 700, "a passage is a few records"
    if header and not found.text.startswith(rows[0]):
        assert found.header == rows[0]


@cases("dumps")
def test_dumps_are_cut_at_their_joints(highlighter: Highlighter, case: dict[str, Any]) -> None:
    page = case["start"] + case["between"].join(numbered(case["line"])) + case["end"]
    found = highlighter.highlights(case["query"], [page], format="text", top_k=1)[0][0]
    assert case["has"] in found.text
    assert case["lacks"] not in found.text


@cases("breadcrumbs")
def test_breadcrumbs_name_speaker_time_and_columns(highlighter: Highlighter, case: dict[str, Any]) -> None:
    page = case["line_end"].join(case["page"])
    found = highlighter.highlights(case["query"], [page], format="text", top_k=1, highlight_length=1)[0][0]
    assert found.text.startswith(case["passage"][0]), found.text
    assert found.text.endswith(case["passage"][-1]), found.text
    assert [crumb.text for crumb in found.breadcrumbs] == case["breadcrumbs"]


@cases("code")
def test_functions_stay_whole(highlighter: Highlighter, case: dict[str, Any]) -> None:
    start, end = case["lines"]
    found = highlighter.highlights(case["query"], ["\n".join(case["page"])], format="text", top_k=1)[0][0]
    assert "\n".join(case["page"][start:end]).strip() in found.text


@cases("prose")
def test_prose_that_looks_like_records_stays_prose(case: dict[str, Any]) -> None:
    page = case["separator"].join(case["page"])
    assert [page[start:end] for start, end in pullquote.parse_pieces(page, 1, 1).tolist()] == case["page"]
