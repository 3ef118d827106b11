"""Claim: many requests at once get through as fast as a few, and wait for no more than their share of the work.

1, 2, 4, 16, 64 and 256 clients ask one `Highlighter` at the same time, from threads and from asyncio tasks
(`asyncio.to_thread`, with a thread for each). Each request is another page of 20 kB, and nothing is kept
(`cache_bytes=0`). A client asks again as soon as it is answered, until all requests of the round are. The numbers of
clients take turns, upwards in one round and downwards in the next; ratios are between runs of one round. Pages of 20 kB
have more tokens here and fewer there, so throughput is compared in tokens, and every number of clients gets pages from
all over the text.

The policy (`rust/core/src/scheduler/batches.rs`): jobs take turns of one batch, and the next job fills the free rows of a
job's last batch. So requests that arrive together end together, each after about the time of all of them: the median
latency is the length of the queue over the throughput, and no request waits twice as long as a similar one.

It is measured with the embedded model, from threads, and in more rounds with a model that costs next to nothing, where
the time is the engine's own.

    .venv/bin/python bench/concurrency.py
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pullquote
from bench import record, small_model
from bench.goals import Goal
from bench.machine_noise import CoreUse, Meter, quietness
from bench.options import claim_parser
from bench.record import spread
from bench.texts import QUERY, different_pages
from pullquote._models.choice import model_directory

CLAIM = "concurrency"
LEVELS = [1, 2, 4, 16, 64, 256]
CHARACTERS = 20_000
KEEPS_ALL_BUSY = 4  # With this number of clients or more, the queue is never empty: latencies are compared from here.


@dataclass(frozen=True, slots=True)
class Run:
    """All requests of one number of clients, once: seconds of each, and what the whole process used meanwhile."""

    seconds: float
    tokens: int
    latencies: list[float]
    cpu_seconds: float
    voluntary_switches: int
    involuntary_switches: int
    core_use: CoreUse

    def throughput(self) -> float:
        """Tokens encoded each second."""
        return self.tokens / self.seconds

    def requests(self) -> float:
        """Requests answered each second."""
        return len(self.latencies) / self.seconds

    def median(self) -> float:
        """The median latency, in seconds."""
        return median(self.latencies)

    def p99(self) -> float:
        """The 99th percentile of the latency, in seconds."""
        return float(np.quantile(self.latencies, 0.99, method="higher"))

    def summary(self) -> dict[str, object]:
        """The numbers that a record keeps; of thousands of latencies these three."""
        latencies = {"median": self.median(), "p99": self.p99(), "most": max(self.latencies)}
        return asdict(self) | {"latencies": latencies}


Ask = Callable[[str], int]
Answered = list[tuple[float, int]]
Way = Callable[[Ask, list[str], int], Answered]


def by_threads(ask: Ask, pages: list[str], clients: int) -> Answered:
    """Request all pages from `clients` threads; returns the seconds and tokens of each request."""
    waiting = iter(pages)
    answered: Answered = []

    def client() -> None:
        for page in waiting:
            began = time.perf_counter()
            tokens = ask(page)
            answered.append((time.perf_counter() - began, tokens))

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answered


def by_tasks(ask: Ask, pages: list[str], clients: int) -> Answered:
    """Request all pages from `clients` asyncio tasks; returns the seconds and tokens of each request."""
    waiting: Iterator[str] = iter(pages)
    answered: Answered = []

    async def client() -> None:
        for page in waiting:
            began = time.perf_counter()
            tokens = await asyncio.to_thread(ask, page)
            answered.append((time.perf_counter() - began, tokens))

    async def all_clients() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(clients))
        await asyncio.gather(*(client() for _ in range(clients)))

    asyncio.run(all_clients())
    return answered


WAYS: dict[str, Way] = {"threads": by_threads, "asyncio tasks": by_tasks}


@dataclass(frozen=True, slots=True)
class Setting:
    """How one model is measured: the rounds, the callers, and the requests for each number of clients."""

    name: str
    model: Path
    ways: list[str]
    rounds: int
    requests: dict[int, int]


@dataclass(frozen=True, slots=True)
class Measured:
    """All runs with one model in one way: by number of clients, in the order of the rounds."""

    setting: Setting
    way: str
    dtype: str
    runs: dict[int, list[Run]]

    def best(self) -> int:
        """The number of clients with the highest throughput."""
        return max(self.runs, key=lambda level: median(run.throughput() for run in self.runs[level]))

    def ratios(self, level: int) -> list[float]:
        """For each round, the throughput of this number of clients over the best."""
        pairs = zip(self.runs[level], self.runs[self.best()], strict=True)
        return [run.throughput() / best.throughput() for run, best in pairs]

    def tails(self, level: int) -> list[float]:
        """For each round, the 99th percentile of the latency over its median."""
        return [run.p99() / run.median() for run in self.runs[level]]

    def growth(self) -> float:
        """Fit the power of the number of clients with which the median latency grows."""
        levels = [level for level in self.runs if level >= KEEPS_ALL_BUSY]
        medians = [median(run.median() for run in self.runs[level]) for level in levels]
        return float(np.polyfit(np.log(levels), np.log(medians), 1)[0]) if len(levels) > 1 else float("nan")

    def goals(self) -> list[Goal]:
        """Compare with the goals."""
        most, tail = max(self.runs), min(64, max(self.runs))
        where = f"{self.setting.name}, {self.way}"
        return [
            Goal(
                f"{where}: throughput of {most} clients to the best", median(self.ratios(most)), least=0.97, form=".3f"
            ),
            Goal(f"{where}: power of clients with which the median latency grows", self.growth(), least=0.9, most=1.1),
            Goal(f"{where}: 99th percentile to median latency, {tail} clients", median(self.tails(tail)), most=2.0),
        ]


def main() -> None:
    """Measure, print the table and keep the record."""
    parser = claim_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="with the embedded model (default: %(default)s)")
    parser.add_argument("--small-rounds", type=int, default=5, help="with the small model (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="few clients and requests, and nothing is kept")
    arguments = parser.parse_args()
    levels = LEVELS[:4] if arguments.quick else LEVELS
    fewest = 16 if arguments.quick else 256
    with tempfile.TemporaryDirectory() as directory:
        small = small_model.write_small_model(Path(directory))
        # With the embedded model, 256 clients send one request each; that alone takes minutes.
        requests = {level: max(8, level if level > 64 else 2 * level) for level in levels}
        settings = [
            Setting("embedded model", model_directory(None), ["threads"], arguments.rounds, requests),
            Setting(
                small_model.NAME,
                small,
                [*WAYS],
                arguments.small_rounds,
                {level: max(fewest, 4 * level) for level in levels},
            ),
        ]
        results = [result for setting in settings for result in measure(setting)]
    around = record.circumstances() | {"dtype": " and ".join(dict.fromkeys(result.dtype for result in results))}
    table = markdown(around, results)
    raw = around | {"results": list(map(raw_numbers, results))}
    record.publish(CLAIM, raw, table, keeps=not arguments.quick)


def measure(setting: Setting) -> list[Measured]:
    """Load the model, warm it up, and alternate numbers of clients and kinds of callers."""
    pages = different_pages(max(setting.requests.values()), CHARACTERS)
    with pullquote.Highlighter(setting.model, cache_bytes=0) as highlighter:

        def ask(page: str) -> int:
            return highlighter.highlights(QUERY, [page], effort="full").work.tokens

        results = [
            Measured(setting, way, highlighter.dtype, {level: [] for level in setting.requests}) for way in setting.ways
        ]
        by_threads(ask, pages[:8], 4)
        for number in range(setting.rounds):
            upwards = sorted(setting.requests)
            for level in upwards if number % 2 == 0 else reversed(upwards):
                for result in results:
                    run = one_run(WAYS[result.way], ask, pages[:: len(pages) // setting.requests[level]], level)
                    result.runs[level].append(run)
                    progress = f"{setting.name}, round {number + 1}: {level} {result.way} {run.requests():.2f} a second"
                    print(f"{progress}{run.core_use.remark()}", file=sys.stderr)
    return results


def one_run(way: Way, ask: Ask, pages: list[str], clients: int) -> Run:
    """Request all pages, and measure the processor time of this process."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    meter = Meter()
    began = time.perf_counter()
    answered = way(ask, pages, clients)
    seconds = time.perf_counter() - began
    use = meter.stop()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return Run(
        seconds,
        sum(tokens for _, tokens in answered),
        [latency for latency, _ in answered],
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        after.ru_nvcsw - before.ru_nvcsw,
        after.ru_nivcsw - before.ru_nivcsw,
        use,
    )


def raw_numbers(result: Measured) -> dict[str, object]:
    """Gather everything measured in one way, for the record."""
    return {
        "model": result.setting.name,
        "way": result.way,
        "dtype": result.dtype,
        "rounds": result.setting.rounds,
        "best": result.best(),
        "growth": result.growth(),
        "goals": [asdict(goal) | {"met": goal.is_met} for goal in result.goals()],
        "runs": {str(level): [run.summary() for run in runs] for level, runs in result.runs.items()},
    }


def markdown(around: dict[str, object], results: list[Measured]) -> str:
    """Write the record as Markdown."""
    lines = [
        *record.heading(CLAIM, around),
        f"Each request is another page of {CHARACTERS:,} characters; medians over the rounds (least to most). Queue is the",
        "median latency over clients / requests a second: 1 is a fair share. Throughput is compared in tokens.",
    ]
    for result in results:
        rounds = result.setting.rounds
        lines += ["", f"{result.setting.name}, from {result.way}, {rounds} rounds, {result.dtype}:", ""]
        lines += [
            "| clients | requests a round | requests/s | tokens/s | to the best | median ms | p99 ms | p99 to median | queue "
            "| a request: CPU ms | switches, voluntary | involuntary |",
            "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        ]
        lines += [row(result, level) for level in result.runs]
    lines += ["", *(goal.line() for result in results for goal in result.goals())]
    uses = (run.core_use for result in results for runs in result.runs.values() for run in runs)
    lines.append(f"- {quietness(uses)}")
    return "\n".join(lines) + "\n"


def row(result: Measured, level: int) -> str:
    """Write the row of one number of clients."""
    runs, requests = result.runs[level], result.setting.requests[level]
    cells = [
        str(level),
        str(requests),
        spread([run.requests() for run in runs]),
        f"{median(run.throughput() for run in runs):,.0f}",
        spread(result.ratios(level), ".3f"),
        f"{1000 * median(run.median() for run in runs):,.0f}",
        f"{1000 * median(run.p99() for run in runs):,.0f}",
        spread(result.tails(level)),
        f"{median(run.median() * run.requests() / level for run in runs):.2f}",
        f"{1000 * median(run.cpu_seconds for run in runs) / requests:,.1f}",
        f"{median(run.voluntary_switches for run in runs) / requests:,.1f}",
        f"{median(run.involuntary_switches for run in runs) / requests:,.1f}",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
