"""Claim: `answered` is right about pages of a few sentences more often than chance.

Asks the questions of ``tests/data/short_pages``: of each page one that it answers in other words and one that it does not
answer, and the former of a page of another subject too. Prints for each split and language:

- ``right at 0.5``, ``right at ANSWERED``: the share of both questions of a page for which ``score >= threshold`` is right
- ``answered``, ``unanswered``, ``other page``: the share of each that counts as answered
- ``AUC``: how often the question with an answer has the higher score, of all pairs with one without

    .venv/bin/python bench/short_pages.py
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pullquote
from bench.calibration import auc
from pullquote._native import ANSWERED

QUESTIONS = Path(__file__).parents[1] / "tests" / "data" / "short_pages" / "questions.jsonl"
# Pages of the same language to which each answered question goes too.
OTHERS = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """The best score of a question on a page."""

    split: str
    language: str
    kind: str
    score: float


def ask_all(highlighter: pullquote.Highlighter) -> list[Asked]:
    """Ask every question; each page alone."""
    rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    asked = []
    for row in rows:
        neighbours = [other for other in rows if other["language"] == row["language"]]
        place = neighbours.index(row)
        others = [neighbours[(place + step) % len(neighbours)] for step in range(1, OTHERS + 1)]
        questions = [("answered", row["answered"], row["text"]), ("unanswered", row["unanswered"], row["text"])]
        questions += [("other page", row["answered"], other["text"]) for other in others]
        for kind, query, text in questions:
            scores = highlighter.highlights(query, [text]).scores
            asked.append(Asked(row["split"], row["language"], kind, float(scores.max(initial=0.0))))
    return asked


def row(name: str, asked: list[Asked]) -> str:
    """A row of the table."""
    scores = {
        kind: np.array([one.score for one in asked if one.kind == kind])
        for kind in ("answered", "unanswered", "other page")
    }
    yes, no = scores["answered"], scores["unanswered"]
    right = [np.mean([*(yes >= threshold), *(no < threshold)]) for threshold in (0.5, ANSWERED)]
    counted = [np.mean(of_kind >= ANSWERED) for of_kind in scores.values()]
    cells = [*right, *counted, auc(yes.tolist(), no.tolist())]
    return f"| {name} | {len(yes)} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |"


def main() -> None:
    """Print the table."""
    with pullquote.Highlighter() as highlighter:
        asked = ask_all(highlighter)
    print(f"| questions | pages | right at 0.5 | right at {ANSWERED:.2g} | answered | unanswered | other page | AUC |")
    print("|---" * 8 + "|")
    for split in ("tune", "test"):
        half = [one for one in asked if one.split == split]
        print(row(f"**{split}**", half))
        for language in dict.fromkeys(one.language for one in half):
            print(row(f"{split}, {language}", [one for one in half if one.language == language]))


if __name__ == "__main__":
    main()
