"""Claim: `cite` tells sentences that a page says from those that it does not, and names what was changed.

Judges the claims of ``tests/data/claims.jsonl``: sentences of the demo's pages and of ``tests/data``, paraphrased by rule (words
replaced, clauses moved, numbers written otherwise, parts left out, pronouns resolved, two sentences joined), and others with a
changed number, name or negation, or whose sentence is taken out of the page. Prints:

- ``precision``, ``recall``: of claims with full support
- ``passages``: the share of supporting sentences that the passages have
- ``named``: the share of changed numbers that are `missing`
- the seconds of an answer of ten sentences, of one question, and their ratio, for the demo's pages, nothing cached

    .venv/bin/python bench/citations.py
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pullquote

ROOT = Path(__file__).parents[1]
CLAIMS = ROOT / "tests" / "data" / "claims.jsonl"
SHORT = ROOT / "tests" / "data" / "short_pages" / "questions.jsonl"
REPEATS = 3
QUESTION = "How much did the Apollo program cost?"


def page_of(claim: dict[str, Any]) -> str:
    """The page of a claim, without the sentence that it repeats if it has one to leave out."""
    name, _, line = claim["page"].partition(":")
    if line:
        text = str(json.loads(SHORT.read_text(encoding="utf-8").splitlines()[int(line)])["text"])
    else:
        text = (ROOT / name).read_text(encoding="utf-8")
    start, end = claim.get("without", (0, 0))
    return text[:start] + text[end:]


def judge(highlighter: pullquote.Highlighter) -> None:
    """Print how the claims are judged."""
    counts: Counter[tuple[bool, bool]] = Counter()
    kinds: Counter[tuple[bool, str, bool]] = Counter()
    found = sentences = named = changed = 0
    for line in CLAIMS.read_text(encoding="utf-8").splitlines():
        claim = json.loads(line)
        cited = highlighter.cite(claim["claim"], [page_of(claim)], titles=[claim.get("title")])
        judged = [each for each in cited.sentences if each.support != "no_claim"]
        full = bool(judged) and all(each.support == "full" for each in judged)
        counts[claim["supported"], full] += 1
        kinds[claim["supported"], claim["kind"], full] += 1
        if claim["supported"]:
            spans = [(passage.start, passage.end) for each in judged for passage in each.passages]
            sentences += len(claim["sentences"])
            found += sum(any(a < end and start < b for a, b in spans) for start, end in claim["sentences"])
        elif claim["kind"] == "number":
            changed += 1
            named += any(claim["fact"] in fact.text for each in judged for fact in each.missing)
    right = counts[True, True]
    print(f"precision {right / (right + counts[False, True]):.3f}  recall {right / (right + counts[True, False]):.3f}")
    print(f"passages {found}/{sentences}  named {named}/{changed}")
    for supported, kind in sorted({(supported, kind) for supported, kind, _ in kinds}):
        judged_full, others = kinds[supported, kind, True], kinds[supported, kind, False]
        print(f"  {'supported' if supported else 'not':9} {kind:12} full {judged_full}/{judged_full + others}")


def seconds(call: Callable[[], object]) -> float:
    """The least of a few runs."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def measure() -> None:
    """Print the cost of an answer of ten sentences."""
    pages = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "demo" / "pages").glob("*.en.*"))]
    with pullquote.Highlighter(cache_bytes=0) as highlighter:
        for name, texts in (("one page", pages[:1]), ("four pages", pages)):
            spans = pullquote.parse_pieces(texts[0], 1, 1).tolist()
            whole = [texts[0][a:b].replace("\n", " ") for a, b in spans if 60 < b - a < 220 and texts[0][b - 1] == "."]
            answer = " ".join(whole[place * len(whole) // 10] for place in range(10))
            one = seconds(partial(highlighter.highlights, QUESTION, texts))
            ten = seconds(partial(highlighter.cite, answer, texts))
            print(f"{name}: one question {one:.3f} s, ten sentences {ten:.3f} s, {ten / one:.2f} times")


def main() -> None:
    """Judge and measure."""
    with pullquote.Highlighter() as highlighter:
        judge(highlighter)
    measure()


if __name__ == "__main__":
    main()
