"""Make the reader's examples: the product's own candidates for questions whose answers are known.

    python packages/reader/examples.py ../shared/train --judge ../shared/eval/pages tests/data/short_questions \
        --out .make/reader/examples.xz

A candidate is one of the first 12 passages that `highlights()` returns, with the log-odds of its score, or the sentences around
the answer where none of the 12 holds it. Pages are kept once, as token ids of the embedded model, and candidates as ranges of them.
A tenth of the training pages is held out of training (`Split.HELD`). What `--judge` names is never trained on.

A fifth of the queries lose their question words, a tenth are misspelled, as people type them.
"""

from __future__ import annotations

import argparse
import gzip
import io
import itertools
import json
import lzma
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pullquote_minilm
from numpy.typing import NDArray
from tokenizers import Tokenizer

import pullquote

CANDIDATES = 12
LONGEST_PAGE = 30_000
# Their answers are whole sections: a passage is right if three fifths of it lie in one (notes/reader-trial.md).
ANSWERS_ARE_SECTIONS = {"headings", "medquad", "omos"}
SECTION_SHARE = 0.6
LANGUAGES = {"en"}
# Of a page on which the product finds nothing.
LOWEST_LOG_ODDS = -3.0
WORDS = "what which who whom when where why how is are was were do does did can the a an of to in"
QUESTION_WORDS = re.compile(rf"(?i)\b(?:{'|'.join(WORDS.split())})\b|\?")
PART = re.compile(r"\w{5,}")

Span = tuple[int, int]


class Split(IntEnum):
    """What a question is for."""

    TRAIN = 0
    HELD = 1
    JUDGE = 2


@dataclass(frozen=True, slots=True)
class Question:
    """A query, and the spans of characters that answer it: none if the page does not."""

    query: str
    answers: list[Span]
    needs_all: bool


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a set, with its questions."""

    name: str
    split: Split
    text: str
    questions: list[Question]


def pages_of(path: Path, split: Split, rng: random.Random) -> Iterator[Page]:
    """Read a set: a page a line, or the folder of short questions."""
    if path.is_dir():
        rows = [json.loads(line) for line in (path / "questions.jsonl").read_text().splitlines()]
        for name in sorted({row["page"] for row in rows}):
            text = (path / "pages" / name).read_text()
            questions = [
                Question(
                    row["query"],
                    [found for answer in row["answers"] for found in occurrences(text, answer)],
                    needs_all=False,
                )
                for row in rows
                if row["page"] == name
            ]
            yield Page("short_questions", split, text, questions)
        return
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if split is not Split.JUDGE and (row.get("lang", "en") not in LANGUAGES or len(row["text"]) > LONGEST_PAGE):
                continue
            kept = split if split is Split.JUDGE else Split(rng.random() < 0.1)
            yield Page(
                path.name.removesuffix(".jsonl.gz"), kept, row["text"], [question_of(q) for q in row["questions"]]
            )


def question_of(row: dict[str, Any]) -> Question:
    """Read a question of a set."""
    spans = [(answer["start"], answer["start"] + len(answer["text"])) for answer in row["answers"]]
    return Question(row["q"], spans, row.get("need") == "all")


def occurrences(text: str, part: str) -> list[Span]:
    """Every place of a part."""
    return [(found.start(), found.end()) for found in re.finditer(re.escape(part), text)]


def varied(query: str, rng: random.Random) -> str:
    """The query, or what somebody in a hurry types for it."""
    draw = rng.random()
    if draw < 0.2:
        return " ".join(QUESTION_WORDS.sub(" ", query).split()) or query
    words = list(PART.finditer(query))
    if draw < 0.3 and words:
        word = rng.choice(words)
        at = word.start() + rng.randrange(1, len(word[0]) - 1)
        return query[:at] + query[at + 1] + query[at] + query[at + 2 :]
    return query


def is_right(span: Span, question: Question, *, by_share: bool) -> bool:
    """Whether a passage answers: it holds a whole answer, or most of it lies in one that is a section."""
    inside = [min(span[1], end) - max(span[0], start) for start, end in question.answers]
    if by_share:
        return any(length >= SECTION_SHARE * (span[1] - span[0]) for length in inside)
    whole = [length >= end - start for length, (start, end) in zip(inside, question.answers, strict=True)]
    return bool(whole) and (all(whole) if question.needs_all else any(whole))


@dataclass
class Examples:
    """Ragged columns: each `…_at` holds where the rows of its owner begin, and the end of the last."""

    tokens: list[NDArray[np.uint16]] = field(default_factory=list)
    page_at: list[int] = field(default_factory=lambda: [0])
    sentences: list[int] = field(default_factory=list)
    sentence_at: list[int] = field(default_factory=lambda: [0])
    queries: list[int] = field(default_factory=list)
    query_at: list[int] = field(default_factory=lambda: [0])
    question_page: list[int] = field(default_factory=list)
    question_set: list[int] = field(default_factory=list)
    question_split: list[int] = field(default_factory=list)
    answer_spans: list[Span] = field(default_factory=list)
    answer_at: list[int] = field(default_factory=lambda: [0])
    candidate_spans: list[Span] = field(default_factory=list)
    candidate_at: list[int] = field(default_factory=lambda: [0])
    log_odds: list[float] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)
    sets: list[str] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Write all columns; the two bytes of a token apart, which makes the file a fifth smaller."""
        tokens = np.concatenate(self.tokens)
        columns: dict[str, Any] = {
            name: np.array(value) for name, value in vars(self).items() if name not in {"tokens", "sets"}
        }
        columns |= {"tokens_low": (tokens & 255).astype(np.uint8), "tokens_high": (tokens >> 8).astype(np.uint8)}
        for name in ("sentences", "queries", "answer_spans", "candidate_spans", "question_page"):
            columns[name] = columns[name].astype(np.uint32 if name == "question_page" else np.uint16)
        columns["log_odds"] = columns["log_odds"].astype(np.float16)
        file = io.BytesIO()
        np.savez(file, sets=np.array(self.sets), **columns)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lzma.compress(file.getvalue(), preset=6))


class Maker:
    """Asks the product, and adds what it answers to the examples."""

    def __init__(self, seed: int) -> None:
        """Load the model and its tokenizer."""
        self.examples = Examples()
        self.highlighter = pullquote.Highlighter()
        self.tokenizer = Tokenizer.from_file(str(pullquote_minilm.directory() / "tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.rng = random.Random(seed)  # noqa: S311 - repeatable

    def add(self, page: Page, most_questions: int) -> None:
        """Add a page with at most `most_questions` of its questions, or all of a page that is only judged."""
        encoded = self.tokenizer.encode(page.text, add_special_tokens=False)
        questions = page.questions
        if page.split is not Split.JUDGE:
            questions = self.rng.sample(questions, min(len(questions), most_questions))
        if not questions or len(encoded.ids) >= 2**16:
            return
        queries = [q.query if page.split is Split.JUDGE else varied(q.query, self.rng) for q in questions]
        found = self.highlighter.highlights(queries, [page.text], pairing="all", top_k=CANDIDATES)
        pieces = pullquote.parse_pieces(page.text, 1, 1)
        offsets = np.array(encoded.offsets, dtype=np.int64).reshape(-1, 2)
        rows = self.examples
        rows.tokens.append(np.array(encoded.ids, dtype=np.uint16))
        rows.page_at.append(rows.page_at[-1] + len(encoded.ids))
        rows.sentences += [token_span((int(start), int(end)), offsets)[0] for start, end in pieces]
        rows.sentence_at.append(len(rows.sentences))
        if page.name not in rows.sets:
            rows.sets.append(page.name)
        for question, query, passages in zip(questions, queries, found, strict=True):
            candidates = [((p.start, p.end), logit(p.score)) for p in passages]
            self.add_question(page, question, query, candidates, pieces, offsets)

    def add_question(
        self,
        page: Page,
        question: Question,
        query: str,
        candidates: list[tuple[Span, float]],
        pieces: NDArray[np.int64],
        offsets: NDArray[np.int64],
    ) -> None:
        """Add a question of the last page."""
        rows, by_share = self.examples, page.name in ANSWERS_ARE_SECTIONS
        right = [is_right(span, question, by_share=by_share) for span, _ in candidates]
        if question.answers and page.split is Split.TRAIN and not any(right):
            lowest = min((odds for _, odds in candidates), default=LOWEST_LOG_ODDS)
            candidates.append((around(question.answers[0], pieces, by_share=by_share), lowest))
            right.append(True)
        rows.queries += self.tokenizer.encode(query, add_special_tokens=False).ids
        rows.query_at.append(len(rows.queries))
        rows.question_page.append(len(rows.page_at) - 2)
        rows.question_set.append(rows.sets.index(page.name))
        rows.question_split.append(page.split)
        rows.answer_spans += [token_span(span, offsets) for span in question.answers]
        rows.answer_at.append(len(rows.answer_spans))
        rows.candidate_spans += [token_span(span, offsets) for span, _ in candidates]
        rows.candidate_at.append(len(rows.candidate_spans))
        rows.log_odds += [odds for _, odds in candidates]
        rows.right += right


def token_span(span: Span, offsets: NDArray[np.int64]) -> Span:
    """The tokens that lie in a span of characters."""
    return int(np.searchsorted(offsets[:, 1], span[0], "right")), int(np.searchsorted(offsets[:, 0], span[1], "left"))


def logit(score: float) -> float:
    """The log-odds of a probability."""
    held = min(max(score, 1e-4), 1 - 1e-4)
    return float(np.log(held / (1 - held)))


def around(answer: Span, pieces: NDArray[np.int64], *, by_share: bool) -> Span:
    """The sentences of an answer; of a section the first two."""
    held = pieces[(pieces[:, 0] < answer[1]) & (pieces[:, 1] > answer[0])]
    if not len(held):
        return answer
    last = min(len(held), 2) if by_share else len(held)
    return int(held[0, 0]), int(held[last - 1, 1])


def main() -> None:
    """Read the sets, ask the product, write the examples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path, help="folder of sets to train on")
    parser.add_argument(
        "--judge",
        type=Path,
        nargs="*",
        default=[],
        help="sets that are measured only: files, folders of files, or short questions",
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pages", type=int, default=0, help="pages of each set; 0 for all")
    parser.add_argument("--questions", type=int, default=8, help="questions of a training page")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    maker = Maker(options.seed)
    sources = [(file, Split.JUDGE) for path in options.judge for file in sets(path)]
    sources += [(file, Split.TRAIN) for file in sets(options.train)]
    for path, split in sources:
        for page in itertools.islice(pages_of(path, split, maker.rng), options.pages or None):
            maker.add(page, options.questions)
        rows = maker.examples
        counts = f"{len(rows.question_page)} questions, {len(rows.log_odds)} candidates, {rows.page_at[-1]} tokens"
        print(f"{path.name}: {counts} in all", file=sys.stderr, flush=True)
    maker.examples.save(options.out)


def sets(path: Path) -> list[Path]:
    """The files of a folder, or the path itself if it is one set."""
    return [path] if path.is_file() or (path / "questions.jsonl").exists() else sorted(path.glob("*.gz"))


if __name__ == "__main__":
    main()
