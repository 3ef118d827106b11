"""Claim: scores are probabilities with every model, and other models find as much as the default one.

Asks the short questions of ``tests/data/short_questions`` of their pages, with each model that is named (a directory, or a name of
the Hugging Face Hub) and with the default one. Prints for each:

- ``first``, ``three``: the share of answered questions whose first passage, or one of the first three, is right
- ``sure``: the unanswered questions whose first passage has a score above 0.5
- ``ECE``: the expected calibration error of all first passages together
- ``load``: seconds until the model is loaded, in which one that the user's cache does not know is measured

    .venv/bin/python bench/other_models.py MODEL... --effort full
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pullquote
from bench.calibration import FirstPassage, calibration_error
from pullquote._request.options import Format

QUESTIONS = Path(__file__).parents[1] / "tests" / "data" / "short_questions"
FORMATS: dict[str, Format] = {".md": "markdown", ".html": "html"}


@dataclass(frozen=True, slots=True)
class Asked:
    """The passages of a question: the score of the first, and for each whether it is right."""

    is_answered: bool
    score: float
    right: list[bool]


def is_right(passage: str, answers: list[str]) -> bool:
    """Whether a passage holds one of the answers, white space aside."""
    text = " ".join(passage.split())
    return any(" ".join(answer.split()) in text for answer in answers)


def ask_all(highlighter: pullquote.Highlighter, **options: Any) -> list[Asked]:
    """Ask every question of its page."""
    asked = []
    for line in (QUESTIONS / "questions.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        path = QUESTIONS / "pages" / row["page"]
        text, kind = path.read_text(encoding="utf-8"), FORMATS.get(path.suffix, "text")
        found = highlighter.highlights(row["query"], [text], top_k=3, format=kind, **options)[0]
        right = [is_right(highlight.text, row["answers"]) for highlight in found]
        asked.append(Asked(bool(row["answers"]), found[0].score if found else 0.0, right))
    return asked


def row(name: str, asked: list[Asked], load: float) -> str:
    """A row of the table."""
    answered = [one for one in asked if one.is_answered]
    others = [one for one in asked if not one.is_answered]
    first = sum(any(one.right[:1]) for one in answered) / len(answered)
    three = sum(any(one.right) for one in answered) / len(answered)
    sure = sum(one.score > 0.5 for one in others)
    passages = [FirstPassage("", one.score, 0.0, any(one.right[:1])) for one in asked]
    ece = calibration_error(passages)
    return f"| {name} | {first:.3f} | {three:.3f} | {sure} of {len(others)} | {ece:.3f} | {load:.2f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="directories or names")
    parser.add_argument("--effort", default="auto")
    parser.add_argument("--dtype", default="auto")
    arguments = parser.parse_args()
    print("| model | first | three | sure | ECE | load |")
    print("|---" * 6 + "|")
    for model in [None, *arguments.models]:
        began = time.perf_counter()
        with pullquote.Highlighter(model, dtype=arguments.dtype) as highlighter:
            load = time.perf_counter() - began
            asked = ask_all(highlighter, effort=arguments.effort)
            print(row(f"{highlighter.model_name}, {highlighter.dtype}", asked, load), flush=True)


if __name__ == "__main__":
    main()
