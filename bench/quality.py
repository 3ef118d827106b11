"""Claim: the returned passages hold the answer, and little else.

Calls `highlights()` on pages with questions and answers, and prints for each set, as means over its questions:

- ``hit@k``: the answer (every span of it, if the set needs all) lies in the union of the k best passages
- ``hit@Nc``: the same, for the passages of a budget of N characters
- ``chars@k``: characters in that union; ``IoU@1``: characters of the best passage against the answer's sentences
- ``bad``: invalid passages: out of range, empty, overlapping, over the budget; it must be 0

A set is a ``.jsonl.gz`` file, a page a line:
``{"text", "questions": [{"q", "answers": [{"text", "start"}], "need"?}]}`` with offsets in characters.

With ``--reference`` it takes the sets that the file has figures of, and keeps a record: each figure, and in parentheses that of the
best reference. A line of the file is a set with one reference.

    .venv/bin/python bench/quality.py DIR_OR_FILE... --reference FILE
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pullquote
from bench import record
from bench.options import add_no_record

CLAIM = "quality"
TOP_KS = (1, 3, 5)
BUDGETS = (500, 1000, 2000)
COLUMNS = [f"hit@{k}" for k in TOP_KS] + [f"hit@{c}c" for c in BUDGETS] + ["IoU@1", "chars@1", "chars@3", "bad"]
# The reference whose lengths are compared: it joins the two others.
JOINED = "hybrid"

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the spans that answer it, and whether all of them are needed."""

    text: str
    answers: list[Span]
    needs_all: bool


@dataclass(frozen=True, slots=True)
class Page:
    """A page and its questions."""

    text: str
    questions: list[Question]


def load(path: Path, pages: int, concat: int) -> list[Page]:
    """Read a set of `pages` pages, or all with 0. Joins `concat` neighbours into one longer page."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    loaded = []
    for first in range(0, len(rows), concat):
        text, questions = "", []
        for row in rows[first : first + concat]:
            base = len(text) + 2 * bool(text)
            text = f"{text}\n\n{row['text']}" if text else row["text"]
            questions += [_question(question, base) for question in row["questions"]]
        loaded.append(Page(text, questions))
    return loaded[:pages] if pages else loaded


def _question(row: dict[str, Any], base: int) -> Question:
    answers = [(base + answer["start"], base + answer["start"] + len(answer["text"])) for answer in row["answers"]]
    return Question(row["q"], answers, row.get("need") == "all")


def covered(spans: Sequence[Span], length: int) -> NDArray[np.bool_]:
    """The characters of a page that lie in one of the spans; white space between two neighbours joins them."""
    mask = np.zeros(length, dtype=bool)
    ordered = sorted(spans)
    for place, (start, end) in enumerate(ordered):
        mask[start:end] = True
        if place and start <= ordered[place - 1][1] + 1:
            mask[ordered[place - 1][1] : start] = True
    return mask


def holds(spans: Sequence[Span], answers: Iterable[Span], length: int, *, needs_all: bool) -> bool:
    """Whether the spans together hold one of the answers, or all if the question needs all."""
    mask = covered(spans, length)
    found = [bool(mask[start:end].all()) for start, end in answers]
    return all(found) if needs_all else any(found)


def judge(page: Page, question: Question, best: list[Span], filled: dict[int, list[Span]]) -> dict[str, float]:
    """All figures of one question."""
    length = len(page.text)

    def hit(spans: Sequence[Span]) -> float:
        return float(holds(spans, question.answers, length, needs_all=question.needs_all))

    row = {f"hit@{k}": hit(best[:k]) for k in TOP_KS}
    row |= {f"chars@{k}": float(covered(best[:k], length).sum()) for k in (1, 3)}
    row |= {f"hit@{budget}c": hit(spans) for budget, spans in filled.items()}
    first, context = covered(best[:1], length), covered(_context(page, question), length)
    row["IoU@1"] = float((first & context).sum() / max(1, (first | context).sum()))
    row["bad"] = float(_broken(best, length, None) + sum(_broken(s, length, b) for b, s in filled.items()))
    return row


def _context(page: Page, question: Question) -> list[Span]:
    """The sentences that hold the shortest answer, or all answers if the question needs all."""
    if question.needs_all:
        return question.answers
    answer = min(question.answers, key=lambda span: span[1] - span[0])
    sentences = pullquote.parse_pieces(page.text, 1, 1)
    held = sentences[(sentences[:, 0] < answer[1]) & (sentences[:, 1] > answer[0])]
    return [(int(start), int(end)) for start, end in held] or [answer]


def _broken(spans: list[Span], length: int, budget: int | None) -> int:
    bad = sum(not 0 <= start < end <= length for start, end in spans)
    ordered = sorted(spans)
    bad += sum(first[1] > second[0] for first, second in itertools.pairwise(ordered))
    return bad + (budget is not None and sum(end - start for start, end in spans) > budget)


def ask(highlighter: pullquote.Highlighter, page: Page, options: dict[str, Any]) -> list[list[Span]]:
    """The spans for each question; the page is encoded once."""
    result = highlighter.highlights([question.text for question in page.questions], [page.text], **options)
    return [[(highlight.start, highlight.end) for highlight in found] for found in result]


def evaluate(highlighter: pullquote.Highlighter, pages: list[Page], options: dict[str, Any]) -> dict[str, float]:
    """Means over the questions of a set."""
    rows = []
    for page in pages:
        best = ask(highlighter, page, options | {"top_k": max(TOP_KS)})
        filled = {budget: ask(highlighter, page, options | {"max_chars": budget}) for budget in BUDGETS}
        for place, question in enumerate(page.questions):
            rows.append(judge(page, question, best[place], {budget: spans[place] for budget, spans in filled.items()}))
    total = {column: sum(row[column] for row in rows) for column in COLUMNS}
    return {column: value if column == "bad" else value / len(rows) for column, value in total.items()}


def sample(path: Path, arguments: argparse.Namespace) -> list[Page]:
    """A sample of the pages and questions of a set, the same every time."""
    pages = load(path, arguments.pages, arguments.concat or (6 if path.name.startswith("xquad") else 1))
    count = max(arguments.questions, 25 if len(pages) < 5 else 0, 80 if len(pages) == 1 else 0)
    rng = random.Random(0)  # noqa: S311 - the choice of questions is no secret
    return [Page(page.text, rng.sample(page.questions, min(count, len(page.questions)))) for page in pages]


VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "full": {"effort": "full"},
    "fast": {"effort": "fast"},
    "meaning alone": {"lexical_weight": 0.0},
    "words alone": {"lexical_weight": 1.0},
    "windows": {"expand": False},
    "all windows": {"expand": False, "effort": "full"},
    "windows by cosine": {"expand": False, "lexical_weight": 0.0},
}


Figures = dict[str, float]


def read_references(path: Path) -> dict[str, dict[str, Figures]]:
    """The figures of each reference, by set."""
    found: dict[str, dict[str, Figures]] = defaultdict(dict)
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found[row["set"]][row["system"]] = {column: row[column] for column in COLUMNS}
    return found


def means(rows: Iterable[Figures]) -> Figures:
    """The mean of every figure."""
    listed = list(rows)
    return {column: sum(row[column] for row in listed) / len(listed) for column in COLUMNS}


def cell(column: str, ours: float, references: dict[str, Figures]) -> str:
    """A figure, and the best reference's; of lengths, the joined one's."""
    if column.startswith("chars"):
        return f"{ours:.0f} ({references[JOINED][column]:.0f})"
    return f"{ours:.3f} ({max(row[column] for row in references.values()):.3f})"


def markdown(around: dict[str, object], ours: dict[str, Figures], references: dict[str, dict[str, Figures]]) -> str:
    """The record: a row for each set, and the means."""
    shown = [column for column in COLUMNS if column != "bad"]
    systems = {system for of_set in references.values() for system in of_set}
    mean_references = {system: means(references[name][system] for name in ours) for system in systems}
    mean = means(ours.values())
    rows = {name: (figures, references[name]) for name, figures in ours.items()} | {"**mean**": (mean, mean_references)}
    lines = [
        *record.heading(CLAIM, around),
        f"{len(ours)} sets; in parentheses the best of {len(systems)} references, of lengths the joined one; "
        f"{sum(figures['bad'] for figures in ours.values()):.0f} invalid passages.",
        "",
        "| set | " + " | ".join(shown) + " |",
        "|---|" + "---:|" * len(shown),
    ]
    lines += [
        f"| {name} | " + " | ".join(cell(column, figures[column], others) for column in shown) + " |"
        for name, (figures, others) in rows.items()
    ]
    best = max(figures["hit@1"] for figures in mean_references.values())
    lines += ["", "| first passage holds the answer | share |", "|---|---:|"]
    lines += [f"| pullquote | {100 * mean['hit@1']:.1f} % |", f"| best reference | {100 * best:.1f} % |"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table, a row for each set and variant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path, help="files, or folders of them")
    parser.add_argument("--pages", type=int, default=12, help="pages a set, 0 for all (default %(default)s)")
    parser.add_argument("--questions", type=int, default=10, help="questions a page (default %(default)s)")
    parser.add_argument("--concat", type=int, default=0, help="pages to join (default: 6 for xquad, else 1)")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=["default"])
    parser.add_argument("--model", help="a model's directory")
    parser.add_argument("--dtype", default="auto", help="what the model computes in (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="append a line for each row to this file")
    parser.add_argument("--reference", type=Path, help="figures of references, a JSON line for each set and reference")
    add_no_record(parser)
    arguments = parser.parse_args()
    around = record.circumstances()
    references = read_references(arguments.reference) if arguments.reference else {}
    files = [file for path in arguments.sets for file in (sorted(path.glob("*.jsonl.gz")) if path.is_dir() else [path])]
    if references:
        files = [file for file in files if file.name.removesuffix(".jsonl.gz") in references]
    if not files:
        sys.exit(f"no .jsonl.gz file in {', '.join(map(str, arguments.sets))}")
    ours: dict[str, Figures] = {}
    print("| set | n | variant | " + " | ".join(COLUMNS) + " | s |")
    print("|---" * (len(COLUMNS) + 4) + "|")
    with pullquote.Highlighter(arguments.model, dtype=arguments.dtype) as highlighter:
        for file in files:
            pages = sample(file, arguments)
            name, count = file.name.removesuffix(".jsonl.gz"), sum(len(page.questions) for page in pages)
            for variant in arguments.variants:
                began = time.perf_counter()
                row = evaluate(highlighter, pages, VARIANTS[variant])
                ours |= {name: row} if variant == "default" else {}
                cells = [f"{row[c]:.0f}" if c.startswith(("chars", "bad")) else f"{row[c]:.3f}" for c in COLUMNS]
                seconds = time.perf_counter() - began
                print(f"| {name} | {count} | {variant} | " + " | ".join(cells) + f" | {seconds:.0f} |", flush=True)
                if arguments.json:
                    with arguments.json.open("a") as out:
                        print(json.dumps({"set": name, "n": count, "variant": variant, **row}), file=out)
    if references and ours:
        raw = around | {"sets": ours}
        record.publish(CLAIM, raw, markdown(around, ours, references), keeps=not arguments.no_record)


if __name__ == "__main__":
    main()
