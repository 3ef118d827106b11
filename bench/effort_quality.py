"""Claim: `effort="auto"` encodes a small part of a page and finds what `"full"` finds, for hard questions too.

Runs each effort over the sets of a folder (see `quality.py`) and over hard questions: paraphrases and misspelled words of
`tests/data/hard_questions.jsonl`, the short questions of `tests/data/short_questions`, questions of the folder's sets with
typing errors made by rule, and questions in German, Spanish and Romanian about English pages (the `xquad` sets are
parallel). Each question is a call of its own. Texts are encoded once for all efforts.

With `--others 9`, each call has nine more pages, of the same set as far as it has them; `best@k` is about the best passages
of all ten.

    .venv/bin/python bench/effort_quality.py /work/shared/eval/pages
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pullquote
from bench import quality, record
from bench.texts import entries
from pullquote._request.options import Effort

TESTS = record.REPOSITORY / "tests"
BUDGETS = (500, 1000)
HITS = ("hit@1", "hit@3", *(f"hit@{budget}c" for budget in BUDGETS))
HITS_WITH_OTHERS = ("hit@1", "hit@3", "best@1", "best@3")
WORK = ("windows", "scored", "tokens")
MISSPELLED_SETS = ("squad_pages", "clapnq", "selqa", "xquad_es", "chroma_wikitexts")
LANGUAGES = ("de", "es", "ro")
PAGES_JOINED = 6
FORMATS = {".md": "markdown", ".html": "html"}
LONG_WORD = 4
"""Characters of the longest word that is not misspelled."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question about a page, and its answers: spans, or texts where the page is extracted first."""

    page: str
    query: str
    spans: list[quality.Span]
    texts: list[str]
    needs_all: bool = False
    format: str = "text"


class MemoEncoder:
    """The embedded model, which encodes each text once."""

    def __init__(self, model: pullquote.Highlighter) -> None:
        """Start with no texts."""
        self._model, self._vectors = model, dict[str, NDArray[np.float32]]()

    def encode(self, sentences: list[str], /) -> NDArray[np.float32]:
        """Vectors ``[n, dimension]``."""
        new = list({text for text in sentences if text not in self._vectors})
        if new:
            self._vectors |= zip(new, np.asarray(self._model.embed(new)), strict=True)
        return np.stack([self._vectors[text] for text in sentences])


def misspell(query: str, rng: random.Random) -> str | None:
    """Swap, drop or double a letter in up to two long words; `None` without long words."""
    words = query.split()
    long = [place for place, word in enumerate(words) if len(word) > LONG_WORD and word.isalpha()]
    for place in rng.sample(long, min(2, len(long))):
        word = words[place]
        at, kind = rng.randrange(1, len(word) - 2), rng.randrange(3)
        changed = (word[at + 1] + word[at], "", 2 * word[at])[kind]
        words[place] = word[:at] + changed + word[at + (2 if kind == 0 else 1) :]
    return " ".join(words) if long else None


def sets(folder: Path, questions: int) -> dict[str, list[Case]]:
    """The folder's sets, and the hard ones."""
    arguments = argparse.Namespace(pages=8, questions=questions, concat=0)
    found = {
        path.name.split(".")[0]: [
            Case(page.text, question.text, question.answers, [], question.needs_all)
            for page in quality.sample(path, arguments)
            for question in page.questions
        ]
        for path in sorted(folder.glob("*.jsonl.gz"))
    }
    rng = random.Random(1)  # noqa: S311 - the choice of questions is no secret
    hard: dict[str, list[Case]] = {"hard: typing errors": []}
    for name in MISSPELLED_SETS:
        for case in rng.sample(found[name], min(25, len(found[name]))):
            if query := misspell(case.query, rng):
                hard["hard: typing errors"].append(Case(case.page, query, case.spans, [], case.needs_all))
    for language in LANGUAGES:
        hard[f"hard: asked in {language}"] = list(foreign(folder, language, rng))
    for row in entries(TESTS / "data" / "hard_questions.jsonl"):
        page = (record.REPOSITORY / "demo" / "pages" / row["page"]).read_text(encoding="utf-8")
        spans = [(answer["start"], answer["start"] + len(answer["text"])) for answer in row["answers"]]
        hard.setdefault(f"hard: {row['kind']}", []).append(Case(page, row["q"], spans, []))
    short = TESTS / "data" / "short_questions"
    for row in entries(short / "questions.jsonl"):
        if row["answers"]:
            path = short / "pages" / row["page"]
            kind = FORMATS.get(path.suffix, "text")
            case = Case(path.read_text(encoding="utf-8"), row["query"], [], row["answers"], format=kind)
            hard.setdefault("hard: short", []).append(case)
    return found | hard


def foreign(folder: Path, language: str, rng: random.Random) -> Iterable[Case]:
    """Questions in another language about the English pages of the parallel sets."""
    english, other = (quality.load(folder / f"xquad_{name}.jsonl.gz", 8, PAGES_JOINED) for name in ("en", language))
    for page, translated in zip(english, other, strict=True):
        if len(page.questions) != len(translated.questions):
            continue
        pairs = list(zip(page.questions, translated.questions, strict=True))
        for question, asked in rng.sample(pairs, min(6, len(pairs))):
            yield Case(page.text, asked.text, question.answers, [])


def ask(highlighter: pullquote.Highlighter, case: Case, effort: Effort, others: list[str]) -> list[float]:
    """The table's columns for one question."""

    def find(**limits: int) -> pullquote.Highlights:
        options: dict[str, Any] = {"effort": effort, "format": case.format, **limits}
        return highlighter.highlights(case.query, [case.page, *others], **options)

    def hit(found: Iterable[pullquote.Highlight]) -> bool:
        found = list(found)
        if case.texts:
            plain = [" ".join(highlight.text.split()) for highlight in found]
            return any(" ".join(answer.split()) in text for answer in case.texts for text in plain)
        spans = [(highlight.start, highlight.end) for highlight in found]
        return quality.holds(spans, case.spans, len(case.page), needs_all=case.needs_all)

    best = find(top_k=3)
    if others:
        filled = [hit(highlight for highlight in best.best(k) if highlight.page == 0) for k in (1, 3)]
    else:
        filled = [hit(find(max_chars=budget)[0]) for budget in BUDGETS]
    work = best.work
    return [hit(best[0][:1]), hit(best[0]), *filled, work.windows, work.windows_scored, work.tokens]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--questions", type=int, default=3, help="questions of a page")
    parser.add_argument("--efforts", nargs="+", choices=get_args(Effort), default=["full", "auto"])
    parser.add_argument("--others", type=int, default=0, help="other pages of each call")
    arguments = parser.parse_args()
    columns = (*(HITS_WITH_OTHERS if arguments.others else HITS), *WORK)
    print("| set | n | effort | " + " | ".join(columns) + " |")
    print("|---|---:|---|" + "---:|" * len(columns))
    with pullquote.Highlighter() as model, pullquote.Highlighter(encoder=MemoEncoder(model), cache_bytes=0) as asked:
        means: dict[str, list[list[float]]] = {}
        all_cases = sets(arguments.folder, arguments.questions)
        pages_of = {name: list(dict.fromkeys(case.page for case in cases)) for name, cases in all_cases.items()}
        for name, cases in all_cases.items():
            pages = list(dict.fromkeys(itertools.chain(pages_of[name], *pages_of.values())))
            others = {page: [other for other in pages if other != page][: arguments.others] for page in pages_of[name]}
            for effort in arguments.efforts:
                row = np.mean([ask(asked, case, effort, others[case.page]) for case in cases], axis=0).tolist()
                if not name.startswith("hard"):
                    means.setdefault(effort, []).append(row)
                print_row(name, len(cases), effort, row)
        for effort, rows in means.items():
            print_row("mean of the sets", len(rows), effort, np.mean(rows, axis=0).tolist())


def print_row(name: str, count: int, effort: str, row: list[float]) -> None:
    """Print one line of the table."""
    hits, work = row[:-3], row[-3:]
    print(
        f"| {name} | {count} | {effort} | "
        + " | ".join([f"{value:.3f}" for value in hits] + [f"{value:,.0f}" for value in work])
        + " |",
        flush=True,
    )


if __name__ == "__main__":
    main()
