"""Claim: `/search` over 100,000 stored documents of 5 kB takes less than a second of processor time.

The documents are the given pages, cut to 5,000 characters, and texts of the same length whose words are drawn with the
frequencies that they have in these pages, so that they follow Zipf's law. The queries are words by the number of documents that
have them, and questions of the pages. The program sends each once for the list of documents, and some again with highlights: the
server then encodes ten whole documents. The goal is in processor time of the server, which other processes disturb less than the
time of the clock.

With `--store FILE`, the documents are in a file, which is filled unless it has them already; otherwise in memory.

    .venv/bin/python bench/stored_search.py --pages /work/shared/eval/pages/{squad_pages,hotpot_pages,clapnq,selqa}.jsonl.gz
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import httpx

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record
from bench.goals import Goal
from bench.machine_noise import Meter, quietness
from bench.options import add_no_record, add_pages, claim_parser
from bench.record import REPOSITORY, spread
from bench.texts import entries, page_files

CLAIM = "stored_search"
CHARACTERS = 5_000
# Threads that store documents, and documents of one request.
WRITERS = 16
GROUP = 1_000
SENTENCE_WORDS = (6, 30)
# Queries of each kind, and how many of them are sent with highlights too.
QUERIES = 10
HIGHLIGHTED = 2
# First place and step in the list of all words of the pages, the most frequent first. The first hundred are mostly stop words.
PLACES = {"common": (150, 5), "usual": (1_000, 10), "rare": (10_000, 10)}


class Times(NamedTuple):
    """Seconds of a request by the clock, and of the server's processor time."""

    clock: float
    processor: float


def read_pages(paths: list[Path]) -> tuple[list[str], list[str]]:
    """Read the pages' texts, and the questions that some have."""
    texts: list[str] = []
    questions: list[str] = []
    for path in paths:
        if path.is_dir():
            texts += [file.read_text(encoding="utf-8") for file in page_files(path)]
            continue
        for entry in entries(path):
            texts.append(entry["text"])
            questions += [question["q"] for question in entry.get("questions", [])]
    return texts, questions


def documents(texts: list[str], words: Counter[str]) -> Iterator[str]:
    """Yield all pages, and then texts of their words without end."""
    for text in texts:
        yield from (text[start : start + CHARACTERS] for start in range(0, len(text), CHARACTERS))
    randomness = random.Random(1)  # noqa: S311 - the same documents each time
    population, frequencies = list(words), list(itertools.accumulate(words.values()))
    while True:
        drawn = iter(randomness.choices(population, cum_weights=frequencies, k=CHARACTERS // 2))
        sentences, length = [], 0
        while length < CHARACTERS:
            sentence = " ".join(itertools.islice(drawn, randomness.randint(*SENTENCE_WORDS))).capitalize() + "."
            sentences.append(sentence)
            length += len(sentence) + 1
        yield " ".join(sentences)[:CHARACTERS]


def queries(words: Counter[str], questions: list[str]) -> dict[str, list[str]]:
    """Choose the queries of each kind."""
    ranked = [word for word, _ in words.most_common()]

    def at(first: int, step: int) -> list[str]:
        first = min(first, len(ranked) - QUERIES * step)
        return ranked[first : first + QUERIES * step : step]

    kinds = {f"one {kind} word": at(*place) for kind, place in PLACES.items()}
    common, rare = kinds["one common word"], kinds["one rare word"]
    kinds["two common words"] = [f"{a} {b}" for a, b in zip(common, common[1:] + common[:1], strict=True)]
    kinds["eight common words"] = [" ".join((common[start:] + common)[:8]) for start in range(QUERIES)]
    kinds["a common and a rare word"] = [f"{a} {b}" for a, b in zip(common, rare, strict=True)]
    if questions:
        kinds["questions"] = random.Random(2).sample(questions, QUERIES)  # noqa: S311 - the same questions each time
    return kinds


def store(client: httpx.Client, texts: Iterator[str]) -> None:
    """Store documents."""
    numbered = enumerate(texts)

    def put(numbered: tuple[int, str]) -> None:
        number, text = numbered
        client.put(f"/documents/{number}", json={"text": text}).raise_for_status()

    with ThreadPoolExecutor(WRITERS) as writers:
        while group := list(itertools.islice(numbered, GROUP)):
            list(writers.map(put, group))


def search(client: httpx.Client, server: int, query: str, *, highlights: bool) -> Times:
    """Search once. `server` is the number of the server's process."""
    contents = {"contents": {"highlights": True}} if highlights else {}
    began, busy = time.perf_counter(), cpu_seconds(server)
    client.post("/search", json={"query": query} | contents).raise_for_status()
    return Times(time.perf_counter() - began, cpu_seconds(server) - busy)


def cpu_seconds(process: int) -> float:
    """The processor time of a process so far, with the resolution of Linux: 10 ms."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(client: httpx.Client, server: int, kinds: dict[str, list[str]]) -> dict[str, dict[str, list[Times]]]:
    """Ask every query; returns the times of each kind, without and with highlights."""
    return {
        kind: {
            "documents": [search(client, server, query, highlights=False) for query in asked],
            "highlights": [search(client, server, query, highlights=True) for query in asked[:HIGHLIGHTED]],
        }
        for kind, asked in kinds.items()
    }


def table(
    around: dict[str, Any], arguments: argparse.Namespace, seconds: dict[str, Any], goals: list[Goal]
) -> list[str]:
    """Write the record."""

    def cells(times: list[Times]) -> str:
        return " | ".join(spread([getattr(each, name) for each in times]) for name in ("processor", "clock"))

    rows = [
        f"| {kind} | {cells(times['documents'])} | {cells(times['highlights'])} |" for kind, times in seconds.items()
    ]
    return [
        *record.heading(CLAIM, around),
        f"{arguments.documents:,} documents of {CHARACTERS:,} characters in {'a file' if arguments.store else 'memory'}. "
        f"Seconds of a request for ten results; medians (least to most) of {QUERIES} queries, {HIGHLIGHTED} with highlights.",
        "",
        "| query | documents: processor | documents: clock | highlights: processor | highlights: clock |",
        "|---|---|---|---|---|",
        *rows,
        "",
        *(goal.line() for goal in goals),
    ]


def main() -> None:
    """Measure, print the table and keep the record."""
    parser = claim_parser(__doc__)
    add_pages(parser, [REPOSITORY / "demo" / "pages"], "directories of .txt and .md files, or .jsonl.gz files")
    parser.add_argument("--store", type=Path, help="file of the server's store (default: in memory)")
    parser.add_argument("--documents", type=int, default=100_000, help="documents to store (default: %(default)s)")
    add_no_record(parser)
    arguments = parser.parse_args()
    texts, questions = read_pages(arguments.pages)
    words = Counter(word.lower() for text in texts for word in re.findall(r"[^\W\d_]+", text))
    meter = Meter()
    command = [
        sys.executable,
        "-m",
        "pullquote",
        "serve",
        "--json",
        "--port",
        "0",
        "--device",
        "cpu",
        "--log-level",
        "error",
    ]
    command += [
        "--store-documents",
        str(arguments.documents),
        "--store-bytes",
        str(arguments.documents * CHARACTERS * 4),
    ]
    command += ["--store", str(arguments.store)] if arguments.store else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            started = json.loads(server.stdout.readline())
            with httpx.Client(base_url=started["url"], timeout=60) as client:
                if client.get(f"/documents/{arguments.documents - 1}").status_code != httpx.codes.OK:
                    store(client, itertools.islice(documents(texts, words), arguments.documents))
                search(client, server.pid, "warm-up", highlights=False)
                seconds = measure(client, server.pid, queries(words, questions))
        finally:
            server.terminate()
    use = meter.stop()
    around = record.circumstances() | {"dtype": started["dtype"]}
    slowest = max(each.processor for times in seconds.values() for each in times["documents"])
    goals = [Goal("most processor time of a list of documents, s", slowest, most=1.0)]
    lines = [*table(around, arguments, seconds, goals), f"- {quietness([use])}"]
    raw = {"documents": arguments.documents, "seconds": seconds, "goals": [asdict(goal) for goal in goals]}
    record.publish(CLAIM, around | raw, "\n".join(lines) + "\n", keeps=not arguments.no_record)


if __name__ == "__main__":
    main()
