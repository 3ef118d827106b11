"""`parse_pieces` against the golden files that Rust's tests check too."""

import json
from pathlib import Path
from typing import Any

import pytest

import pullquote

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = json.loads((GOLDEN / "pieces.json").read_text(encoding="utf-8"))
LANGUAGES = [
    case
    for name in ("languages.json", "sentence_ends.json")
    for case in json.loads((GOLDEN / name).read_text(encoding="utf-8"))
]
RULES = json.loads((GOLDEN.parent / "data" / "golden_rules.json").read_text(encoding="utf-8"))


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


@pytest.mark.parametrize("case", RULES, ids=[case["text"][:24] for case in RULES])
def test_parse_pieces_follows_golden_rules(case: dict[str, Any]) -> None:
    """The rules of pySBD's authors, but those whose other reading `differs` explains."""
    text = case["text"]
    sentences = [text[start:end] for start, end in pullquote.parse_pieces(text, 1, 1).tolist()]
    assert (sentences == case["sentences"]) == ("differs" not in case)
