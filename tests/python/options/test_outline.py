"""What belongs together on a page, and `breadcrumbs`: the cases in `tests/data/outline.json`.

A case has the `units` of its page, or what the first passage of a query `has` and `lacks`, and its `breadcrumbs`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from pullquote import Highlighter
from support.html_pages import HTML_PAGES

CASES = json.loads((Path(__file__).parents[2] / "data" / "outline.json").read_text(encoding="utf-8"))
PLANS = (
    "# Plans\n\n## **Student**\n\n"
    + "It is for you if you are one of us. " * 4
    + "\n\nSupport by the forum is given.\n"
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["kind"])
def test_page_is_read_as_an_outline(highlighter: Highlighter, case: dict[str, Any]) -> None:
    page, form = case["page"], case["format"]
    if units := case.get("units"):
        every: dict[str, Any] = {"highlight_length": 1, "top_k": len(units) + 1, "order": "position", "dedupe": "none"}
        assert [one.text for one in highlighter.highlights("x", [page], format=form, **every)[0]] == units
        return
    first = highlighter.highlights(case["query"], [page], format=form, top_k=1)[0][0]
    shown = f"{first.header}\n{first.text}"
    assert [part for part in case["has"] if part not in shown] == []
    assert [part for part in case.get("lacks", ()) if part in shown] == []
    names = [one.text for one in first.breadcrumbs]
    assert names == case.get("breadcrumbs", names)


@pytest.mark.parametrize("path", HTML_PAGES, ids=lambda path: path.stem)
def test_pages_of_menus_have_passages(highlighter: Highlighter, path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    found = highlighter.highlights("How far is the moon, and how is it installed?", [page], format="html", top_k=12)
    assert len(found[0]) > 0
    assert all(one.text for one in found[0])


def test_prompt_names_the_subject_of_a_passage(highlighter: Highlighter) -> None:
    found = highlighter.highlights("Support by the forum", [PLANS], format="markdown", top_k=1, highlight_length=1)
    assert found.prompt() == "[1] page 0\nPlans > Student: Support by the forum is given."
