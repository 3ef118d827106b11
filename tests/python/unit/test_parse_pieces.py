"""`parse_pieces` against the golden files that Rust's tests check too."""

import json
from pathlib import Path
from typing import Any

import pytest

import pullquote

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = json.loads((GOLDEN / "pieces.json").read_text(encoding="utf-8"))
LANGUAGES = json.loads((GOLDEN / "languages.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[f"{case['page']}-{case['unit']}" for case in CASES])
def test_parse_pieces_of_real_pages_match_golden_file(case: dict[str, Any], whole_pages: dict[str, str]) -> None:
    text = whole_pages[case["page"]][case["from"] : case["to"]]
    spans = pullquote.parse_pieces(text, case["highlight_length"], case["step_size"], case["unit"])
    assert spans.tolist() == case["spans"]


@pytest.mark.parametrize("case", LANGUAGES, ids=[f"{case['language']}-{case['unit']}" for case in LANGUAGES])
def test_parse_pieces_in_each_language_match_golden_file(case: dict[str, Any]) -> None:
    text = case["text"]
    spans = pullquote.parse_pieces(text, 1, 1, case["unit"])
    assert [text[start:end] for start, end in spans.tolist()] == case["pieces"]
