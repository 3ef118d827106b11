"""Claim: more sequences than cores cost nothing, and neither do more threads.

1, 2, 8, 64 and 512 sequences, each of which sends the next page when it has an answer, until all pages of a round are
done: as threads of a host that call one `Highlighter`, and as requests of an `Engine` that one thread
steps. The numbers alternate, upwards in one round and downwards in the next. Throughput is in tokens, since pages differ.
The table also has the cores that were used, voluntary and involuntary switches of threads, and the
slowest hundredth of the answers against the share that each sequence has: as many requests as there are sequences, over the
throughput.

A round has at least 256 pages and two for each sequence; smaller numbers get every second, fourth, … of the same pages.

Then a CPU device of 1 to 128 workers on this machine's cores, with 64 sequences: the cost of locks and switches if
threads outnumber cores. `docs/decisions/0008-many-cores.md` has what this cannot show.

    .venv/bin/python bench/sequences.py

A round of everything takes some minutes on two cores. Where a machine cannot be had for longer, `--rounds 1 --kinds steps --add`
makes one more round of a kind for the same commit's record.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import resource
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pullquote.engine
from bench import record
from bench.goals import Goal
from bench.machine_noise import CoreUse, Meter, quietness
from bench.options import claim_parser
from bench.texts import QUERY, different_pages

CLAIM = "sequences"
SEQUENCES = (1, 2, 8, 64, 512)
WORKERS = (1, 2, 4, 8, 16, 32, 64, 128)
PAGE_CHARACTERS = 1_000
MOST_PAGES = 1024
WORKERS_SEQUENCES = 64
LEVELS = {"threads": SEQUENCES, "steps": SEQUENCES, "workers": WORKERS}
LEAST = 0.97
# The slowest hundredth, in shares of the time: the last request of a round waits for all others.
MOST_SHARES = 2.0
# Tokens for a second of a core: spinning threads use cores and encode nothing.
LEAST_WORK = 0.95


@dataclass(frozen=True, slots=True)
class Round:
    """All pages of a round, requested by a number of sequences."""

    kind: str
    sequences: int
    workers: int | None
    seconds: float
    tokens: int
    latencies: list[float]
    cpu_seconds: float
    voluntary: int
    involuntary: int

    @property
    def throughput(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds

    @property
    def p99_shares(self) -> float:
        """The slowest hundredth, in shares of the time."""
        ordered = sorted(self.latencies)
        p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
        return p99 / (self.seconds * min(self.sequences, len(ordered)) / len(ordered))


Ask = Callable[[list[str], int], tuple[list[float], int]]


def by_threads(highlighter: pullquote.Highlighter) -> Ask:
    """Sequences as threads; returns latencies and tokens."""

    def ask(pages: list[str], sequences: int) -> tuple[list[float], int]:
        left, lock = iter(pages), threading.Lock()
        done: list[tuple[float, int]] = []

        def sequence() -> None:
            while True:
                with lock:
                    page = next(left, None)
                if page is None:
                    return
                began = time.perf_counter()
                found = highlighter.highlights(QUERY, [page], effort="full")
                done.append((time.perf_counter() - began, found.work.tokens))

        threads = [threading.Thread(target=sequence) for _ in range(sequences)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [seconds for seconds, _ in done], sum(tokens for _, tokens in done)

    return ask


def by_steps(engine: pullquote.engine.Engine) -> Ask:
    """Sequences as requests of an engine; returns latencies and tokens."""

    def ask(pages: list[str], sequences: int) -> tuple[list[float], int]:
        names = map(str, itertools.count())
        left, since = iter(pages), dict[str, float]()
        latencies, tokens = [], 0

        def add() -> None:
            if (page := next(left, None)) is not None:
                name = next(names)
                since[name] = time.perf_counter()
                engine.add_request(name, QUERY, [page], {"effort": "full"})

        for _ in range(sequences):
            add()
        while engine.has_unfinished_requests():
            for output in engine.step():
                latencies.append(time.perf_counter() - since[output.request_id])
                tokens += output.progress.tokens
                add()
        return latencies, tokens

    return ask


def measure(kind: str, ask: Ask, pages: list[str], sequences: int, workers: int | None = None) -> Round:
    """One round, and what the process used for it."""
    before, cpu, began = resource.getrusage(resource.RUSAGE_SELF), time.process_time(), time.perf_counter()
    latencies, tokens = ask(pages, sequences)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
    after = resource.getrusage(resource.RUSAGE_SELF)
    voluntary, involuntary = after.ru_nvcsw - before.ru_nvcsw, after.ru_nivcsw - before.ru_nivcsw
    made = Round(kind, sequences, workers, seconds, tokens, latencies, cpu_seconds, voluntary, involuntary)
    print(row(made), file=sys.stderr)
    return made


def row(made: Round) -> str:
    """Write a round as a line of a table."""
    cells = [
        made.kind,
        str(made.workers or made.sequences),
        f"{made.throughput:,.0f}",
        f"{made.cpu_seconds / made.seconds:.2f}",
        f"{made.tokens / made.cpu_seconds:,.0f}",
        f"{1000 * median(made.latencies):.0f}",
        f"{made.p99_shares:.2f}",
        f"{made.voluntary / made.tokens * 1000:.1f}",
        f"{made.involuntary / made.tokens * 1000:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def goals(rounds: list[Round]) -> list[Goal]:
    """Compare with the goals: ratios within one kind, medians over its rounds."""
    reached = []
    for kind in dict.fromkeys(made.kind for made in rounds):
        levels: dict[int, list[Round]] = {}
        for made in rounds:
            if made.kind == kind:
                levels.setdefault(made.workers or made.sequences, []).append(made)
        most = max(levels)
        name = f"{kind}: {most}{'' if kind == 'workers' else ' sequences'}"
        speed = {level: median(made.throughput for made in of) for level, of in levels.items()}
        work = {level: median(made.tokens / made.cpu_seconds for made in of) for level, of in levels.items()}
        reached += [
            Goal(f"{name}: throughput to the best", speed[most] / max(speed.values()), least=LEAST),
            Goal(
                f"{name}: tokens for a second of a core, to the best", work[most] / max(work.values()), least=LEAST_WORK
            ),
            Goal(f"{name}: p99 in shares", median(made.p99_shares for made in levels[most]), most=MOST_SHARES),
        ]
    return reached


def pages_for(sequences: int, pages: list[str]) -> list[str]:
    """Choose pages at equal steps: at least a quarter of them, and two for each sequence."""
    return pages[:: len(pages) // max(len(pages) // 4, min(2 * sequences, len(pages)))]


def measure_kind(kind: str, pages: list[str], repeat: int) -> tuple[list[Round], list[CoreUse]]:
    """Measure every number of a kind once: upwards if `repeat` is even, else downwards."""
    rounds: list[Round] = []
    core_use: list[CoreUse] = []

    def once(ask: Ask, sequences: int, workers: int | None = None) -> None:
        meter = Meter()
        rounds.append(measure(kind, ask, pages_for(sequences, pages), sequences, workers))
        core_use.append(meter.stop())

    for level in LEVELS[kind][:: 1 - 2 * (repeat % 2)]:
        workers = level if kind == "workers" else None
        with contextlib.ExitStack() as stack:
            if kind == "steps":
                ask = by_steps(stack.enter_context(pullquote.engine.Engine(devices="cpu", cache_bytes=0)))
            else:
                made = pullquote.Highlighter(devices="cpu", cache_bytes=0, threads=workers)
                ask = by_threads(stack.enter_context(made))
            ask(pages[:8], 2)
            once(ask, WORKERS_SEQUENCES if workers else level, workers)
    return rounds, core_use


def kept(commit: object) -> tuple[list[Round], list[CoreUse]]:
    """Read the rounds that the record already has of this commit."""
    file = record.directory() / f"{CLAIM}.json"
    raw = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if raw.get("commit") != commit:
        return [], []
    return [Round(**made) for made in raw["rounds"]], [CoreUse(**use) for use in raw["core_use"]]


def main() -> None:
    """Measure, print the table and keep the record."""
    parser = claim_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="an eighth of the pages, one round, and nothing is kept")
    parser.add_argument("--rounds", type=int, default=1, help="rounds of each kind (default: %(default)s)")
    parser.add_argument(
        "--kinds", nargs="+", choices=LEVELS, default=list(LEVELS), help="what is measured (default: all)"
    )
    parser.add_argument("--add", action="store_true", help="add them to the record of the same commit")
    arguments = parser.parse_args()
    pages = different_pages(MOST_PAGES // 8 if arguments.quick else MOST_PAGES, PAGE_CHARACTERS)
    around = record.circumstances()
    rounds, core_use = kept(around["commit"]) if arguments.add else ([], [])
    for kind in arguments.kinds:
        done = sum(made.kind == kind for made in rounds) // len(LEVELS[kind])
        for repeat in range(done, done + (1 if arguments.quick else arguments.rounds)):
            more, use = measure_kind(kind, pages, repeat)
            rounds, core_use = rounds + more, core_use + use
    with pullquote.Highlighter(devices="cpu") as made:
        around |= {"dtype": made.dtype}
    lines = [
        *record.heading(CLAIM, around),
        f"Pages of {PAGE_CHARACTERS:,} characters; workers have {WORKERS_SEQUENCES} sequences.",
        "Switches are for a thousand tokens.",
        "",
        "| kind | sequences or workers | tokens/s | cores | tokens/core s | median ms | p99 in shares | gave up | was taken |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
        *map(row, rounds),
        "",
        *(goal.line() for goal in goals(rounds)),
        f"- {quietness(core_use)}",
    ]
    raw = {
        "rounds": [asdict(made) for made in rounds],
        "core_use": [asdict(use) for use in core_use],
        "goals": [asdict(goal) for goal in goals(rounds)],
    }
    record.publish(CLAIM, around | raw, "\n".join(lines) + "\n", keeps=not arguments.quick)


if __name__ == "__main__":
    main()
