"""Golden pieces: the same file that Rust's tests check, through the door Python has."""

import json
from pathlib import Path
from typing import Any

import pytest

import pullquote

CASES = json.loads((Path(__file__).parents[1] / "golden" / "pieces.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[f"{case['page']}-{case['unit']}" for case in CASES])
def test_pieces_of_real_pages_are_the_golden_ones(case: dict[str, Any], whole_pages: dict[str, str]) -> None:
    text = whole_pages[case["page"]][case["from"] : case["to"]]
    spans = pullquote.parse_pieces(text, case["highlight_length"], case["step_size"], case["unit"])
    assert spans.tolist() == case["spans"]
