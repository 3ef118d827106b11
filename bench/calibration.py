"""Claim: a score is the probability that a passage answers the question.

Asks each question of three pages: its own, its own without the paragraphs that hold the answer, and another page of its set.
Only the first is answered. Where a set has questions about the subject of a page that the page does not answer, it asks them
too. Prints for each set:

- ``other``, ``removed``, ``unanswered``: how often the first passage of the right page has the higher score, of all pairs with
  such a page (AUC: 0.5 is chance, 1 is perfect)
- ``ECE``: the expected calibration error over ten bins of scores: how far the share of right first passages is from the score.
  With few questions a set's is mostly noise, so that of all sets together is printed too
- ``sure``: the share of unanswered questions whose first passage has a score above 0.5
- ``kept``: the share of right first passages that ``min_score="auto"`` keeps

and the curve: for each bin of scores, the share of first passages that hold the answer.

``--fit`` fits the constants of `Calibration::logit` in ``rust/core/src/ranking/probability.rs`` anew, from the first passages: with
lexical weight 0 the weight of the cosine, with 0.5 those of the cosine and of all else that is in the score, with 1 that of the
words. Where the constants are right, it finds the same cosine weights, 1 for all else, and adds 0.

With ``--effort instant`` the score comes from words and static vectors (``Calibration::predicted_logit``).

    .venv/bin/python bench/calibration.py DIR_OR_FILE... --unanswerable FILE --questions 40
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pullquote
from bench.quality import Page, Question, load
from pullquote._native import ANSWERED

BINS = 10
# Less of a page is no page: its question is left out.
MIN_SHARE_LEFT = 0.3
SENTENCE = re.compile(r".*?(?:[.!?。](?=\s|$)|\n|$)\s*", re.DOTALL)
PARAGRAPH = re.compile(r"(?:.+\n?)+|\n+")


SOURCE = Path(__file__).parents[1] / "rust" / "core" / "src" / "ranking" / "probability.rs"


def regression(name: str) -> dict[str, float]:
    """The weights of a regression in the source, by their names."""
    found = re.search(rf"const {name}: Regression = Regression {{ (.+?) }};", SOURCE.read_text(encoding="utf-8"))
    assert found, f"{SOURCE} has no {name}"
    return {weight: float(value) for weight, value in (each.split(": ") for each in found[1].split(", "))}


@dataclass(frozen=True, slots=True)
class FirstPassage:
    """The first passage of a question: on what kind of page, its score and cosine, whether it holds the answer."""

    kind: str
    score: float
    cosine: float
    is_right: bool


def without_answer(page: Page, question: Question) -> str:
    """The page without the paragraphs of the answers, or only without their sentences if little would be left."""

    def left(parts: re.Pattern[str]) -> str:
        spans = [match.span() for match in parts.finditer(page.text) if match.group()]
        kept = [(a, b) for a, b in spans if not any(start < b and end > a for start, end in question.answers)]
        return "".join(page.text[a:b] for a, b in kept)

    text = left(PARAGRAPH)
    return text if len(text) >= MIN_SHARE_LEFT * len(page.text) else left(SENTENCE)


def ask(
    highlighter: pullquote.Highlighter,
    kind: str,
    query: str,
    text: str,
    answers: list[tuple[int, int]],
    **options: Any,
) -> FirstPassage:
    """Ask one question of one page, with options of `highlights`."""
    found = highlighter.highlights(query, [text], top_k=1, **options)[0]
    if not found:
        return FirstPassage(kind, 0.0, 0.0, is_right=False)
    first = found[0]
    is_right = any(first.start <= start and end <= first.end for start, end in answers)
    return FirstPassage(kind, first.score, first.cosine, is_right)


def ask_set(highlighter: pullquote.Highlighter, pages: list[Page], count: int, **options: Any) -> list[FirstPassage]:
    """Ask `count` questions of a set of their own pages and of others."""
    rng = random.Random(0)  # noqa: S311 - the choice of questions is no secret
    questions = [(page, question) for page in pages for question in page.questions]
    passages = []
    for page, question in rng.sample(questions, min(count, len(questions))):
        passages.append(ask(highlighter, "right", question.text, page.text, question.answers, **options))
        if text := without_answer(page, question).strip():
            passages.append(ask(highlighter, "removed", question.text, text, [], **options))
        if others := [other for other in pages if other is not page]:
            passages.append(ask(highlighter, "other", question.text, rng.choice(others).text, [], **options))
    return passages


def ask_unanswerable(highlighter: pullquote.Highlighter, file: Path, count: int, **options: Any) -> list[FirstPassage]:
    """Ask questions that their pages do not answer."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    questions = [(row["text"], question["q"]) for row in rows for question in row["questions"]]
    chosen = random.Random(0).sample(questions, min(count, len(questions)))  # noqa: S311
    return [ask(highlighter, "unanswered", query, text, [], **options) for text, query in chosen]


def auc(better: list[float], worse: list[float]) -> float:
    """How often a value of the first list is higher, of all pairs; a tie counts half."""
    if not better or not worse:
        return float("nan")
    pairs = np.subtract.outer(np.array(better), np.array(worse))
    return float(((pairs > 0) + 0.5 * (pairs == 0)).mean())


def curve(passages: list[FirstPassage]) -> NDArray[np.float64]:
    """For each bin of scores: the number of passages, their mean score, and the share that is right."""
    bins = np.zeros((BINS, 3))
    for one in passages:
        bins[min(BINS - 1, int(BINS * one.score))] += (1, one.score, one.is_right)
    bins[:, 1:] /= np.maximum(1, bins[:, :1])
    return bins


def calibration_error(passages: list[FirstPassage]) -> float:
    """The expected calibration error."""
    bins = curve(passages)
    return float((bins[:, 0] / max(1, bins[:, 0].sum()) * np.abs(bins[:, 1] - bins[:, 2])).sum())


def fit(inputs: list[list[float]], right: list[bool]) -> list[float]:
    """The weights of a logistic regression by Newton's method, and last the constant."""
    columns = np.column_stack([np.array(inputs), np.ones(len(right))])
    weights = np.zeros(columns.shape[1])
    for _ in range(50):
        predicted = 1 / (1 + np.exp(-columns @ weights))
        hessian = (columns.T * (predicted * (1 - predicted))) @ columns + 1e-6 * np.eye(len(weights))
        weights = weights + np.linalg.solve(hessian, columns.T @ (np.array(right, dtype=float) - predicted))
    return [float(weight) for weight in weights]


def fit_constants(highlighter: pullquote.Highlighter, sets: list[list[Page]], count: int, effort: str) -> None:
    """Print the constants that fit first passages best, next to those of the source."""
    meaning, both = regression("COSINE_ALONE"), regression("BOTH")
    for lexical_weight in (0.0, 0.5, 1.0):
        passages = [
            one
            for pages in sets
            for one in ask_set(highlighter, pages, count, lexical_weight=lexical_weight, effort=effort)
        ]
        passages = [one for one in passages if 0 < one.score < 1]
        right = [one.is_right for one in passages]
        logits = [float(np.log(one.score / (1 - one.score))) for one in passages]
        if lexical_weight == 0:
            cosine, constant = fit([[one.cosine] for one in passages], right)
            source = f"{meaning['cosine']} * cosine {meaning['constant']:+}"
            print(f"cosine alone: {cosine:.1f} * cosine {constant:+.1f} (in the source: {source})")
        elif lexical_weight == 1:
            slope, constant = fit([[logit] for logit in logits], right)
            print(f"words alone: {slope:.2f} * logit {constant:+.2f} (in the source: 1 * logit + 0)")
        else:
            rest = [logit - both["cosine"] * one.cosine for logit, one in zip(logits, passages, strict=True)]
            inputs = [[one.cosine, each] for one, each in zip(passages, rest, strict=True)]
            cosine, others, constant = fit(inputs, right)
            print(
                f"both: {cosine:.1f} * cosine + {others:.2f} * others {constant:+.2f} (in the source: {both['cosine']}, 1, 0)"
            )


def row(name: str, passages: list[FirstPassage], unanswered: list[FirstPassage]) -> dict[str, float | str]:
    """The figures of a set."""
    scores: Callable[[str], list[float]] = lambda kind: [one.score for one in passages if one.kind == kind]  # noqa: E731
    right = [one.score for one in passages if one.is_right]
    return {
        "set": name,
        "n": len(scores("right")),
        "other": auc(scores("right"), scores("other")),
        "removed": auc(scores("right"), scores("removed")),
        "unanswered": auc(scores("right"), [one.score for one in unanswered]),
        "ECE": calibration_error(passages),
        "right": float(np.mean([one.is_right for one in passages if one.kind == "right"])),
        "kept": float(np.mean([score >= ANSWERED for score in right])) if right else float("nan"),
    }


def line(figures: dict[str, float | str]) -> str:
    """A row of the table."""
    return "| " + " | ".join(f"{v:.3f}" if isinstance(v, float) else str(v) for v in figures.values()) + " |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path, help="files, or folders of them")
    parser.add_argument("--unanswerable", type=Path, help="questions that their pages do not answer")
    parser.add_argument("--questions", type=int, default=40, help="questions a set (default %(default)s)")
    parser.add_argument("--model", help="a model's directory")
    parser.add_argument("--effort", default="auto", help="of `highlights` (default %(default)s)")
    parser.add_argument("--fit", action="store_true", help="fit the constants anew")
    arguments = parser.parse_args()
    files = [file for path in arguments.sets for file in (sorted(path.glob("*.jsonl.gz")) if path.is_dir() else [path])]
    if not files:
        sys.exit(f"no .jsonl.gz file in {', '.join(map(str, arguments.sets))}")
    everything: list[FirstPassage] = []
    rows: list[dict[str, float | str]] = []
    with pullquote.Highlighter(arguments.model) as highlighter:
        if arguments.fit:
            fit_constants(highlighter, [load(file, 0, 1) for file in files], arguments.questions, arguments.effort)
            return
        unanswered = (
            ask_unanswerable(highlighter, arguments.unanswerable, 4 * arguments.questions, effort=arguments.effort)
            if arguments.unanswerable
            else []
        )
        for file in files:
            passages = ask_set(highlighter, load(file, 0, 1), arguments.questions, effort=arguments.effort)
            everything += passages
            about = (
                unanswered if arguments.unanswerable and file.name.split(".")[0] in arguments.unanswerable.name else []
            )
            rows.append(row(file.name.removesuffix(".jsonl.gz"), passages, about))
            if len(rows) == 1:
                print("| " + " | ".join(rows[0]) + " |\n" + "|---" * len(rows[0]) + "|")
            print(line(rows[-1]), flush=True)
    figures = [name for name in rows[0] if name not in {"set", "n"}]
    mean = {name: float(np.nanmean([float(one[name]) for one in rows])) for name in figures}
    print(line({"set": "**mean**", "n": len(everything), **mean}))
    if unanswered:
        sure = np.mean([one.score > 0.5 for one in unanswered])
        print(f"\nunanswered questions whose first passage has a score above 0.5: {sure:.3f} of {len(unanswered)}")
    right = sorted(one.score for one in everything if one.is_right)
    print(f"95 % of right first passages have a score of at least {np.quantile(right, 0.05):.3f}")
    print(f"ECE of all passages together: {calibration_error(everything + unanswered):.3f}")
    print("\n| score | passages | mean score | right |\n|---|---|---|---|")
    for index, (count, score, share) in enumerate(curve(everything + unanswered)):
        print(f"| {index / BINS:.1f} to {(index + 1) / BINS:.1f} | {count:.0f} | {score:.3f} | {share:.3f} |")


if __name__ == "__main__":
    main()
