"""Claim: pullquote is there at once: importing it costs little beside torch, and the first call is like the second.

Importing and loading are timed in new processes, all kinds taking turns, after one of each that is not counted: its files
are then in memory. The first and the second call of a process read different pages of the same size, which take turns
too, and nothing that was read is of use to the other.

    .venv/bin/python bench/startup.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

# The modules beside this file are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record
from bench.cores import CoreUse, Meter, quietness
from bench.effort import ALL_WINDOWS
from bench.goals import Goal
from bench.options import claim_parser
from bench.record import spread
from bench.texts import QUERY, different_pages

CLAIM = "startup"
CHARACTERS = [2_000, 20_000]

IMPORTS = """
import json, sys, time
began = time.perf_counter()
{first}
middle = time.perf_counter()
{second}
json.dump([middle - began, time.perf_counter() - middle], sys.stdout)
"""
# What is there anyway, and what is imported after it.
WAYS = {
    "with its encoder": ("import torch", "import pullquote, pullquote_torch"),
    "without an encoder": ("import numpy", "import pullquote"),
}

CALLS = """
import json, sys, time
import pullquote, pullquote_torch
query, pages, options = json.load(sys.stdin)
times = [time.perf_counter()]
highlighter = pullquote.Highlighter(cache_bytes=0)
times.append(time.perf_counter())
for page in pages:
    highlighter.highlights(query, [page], **options)
    times.append(time.perf_counter())
highlighter.close()
json.dump([end - began for began, end in zip(times, times[1:])], sys.stdout)
"""


@dataclass(slots=True)
class Measured:
    """Seconds in the order of the rounds: by what was imported, and by the characters of a page."""

    before: dict[str, list[float]] = field(default_factory=lambda: {way: [] for way in WAYS})
    beyond: dict[str, list[float]] = field(default_factory=lambda: {way: [] for way in WAYS})
    loading: list[float] = field(default_factory=list)
    first: dict[int, list[float]] = field(default_factory=lambda: {characters: [] for characters in CHARACTERS})
    second: dict[int, list[float]] = field(default_factory=lambda: {characters: [] for characters in CHARACTERS})
    core_use: list[CoreUse] = field(default_factory=list)

    def goals(self) -> list[Goal]:
        """Compare with what was set out to be reached."""
        importing, largest = self.beyond[next(iter(WAYS))], max(CHARACTERS)
        first_call = median(self.first[largest]) / median(self.second[largest])
        return [
            Goal(
                "milliseconds for importing pullquote and its encoder", 1000 * median(importing), most=300, form=".0f"
            ),
            Goal("seconds for loading the embedded model", median(self.loading), most=1.0),
            Goal(f"first call to second, {largest:,} characters", first_call, most=1.1),
        ]


def main() -> None:
    """Measure, print the table and keep the record."""
    parser = claim_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="two rounds, and nothing is kept")
    arguments = parser.parse_args()
    rounds = 2 if arguments.quick else arguments.rounds
    one_round(Measured(), 0)  # so that all files are in memory
    result = Measured()
    for number in range(rounds):
        one_round(result, number)
        print(f"round {number + 1} of {rounds}{result.core_use[-1].remark()}", file=sys.stderr)
    around = record.circumstances() | {"rounds": rounds}
    table = markdown(around, result)
    raw = around | asdict(result) | {"goals": [asdict(goal) | {"met": goal.is_met} for goal in result.goals()]}
    record.publish(CLAIM, raw, table, keeps=not arguments.quick)


def one_round(result: Measured, number: int) -> None:
    """Start one process of each kind, and add what they say."""
    meter = Meter()
    for way, (first, second) in WAYS.items():
        before, beyond = run(IMPORTS.format(first=first, second=second), None)
        result.before[way].append(before)
        result.beyond[way].append(beyond)
    for characters in CHARACTERS:
        pages = different_pages(2, characters)[:: -1 if number % 2 else 1]
        loading, first_call, second_call = run(CALLS, [QUERY, pages, ALL_WINDOWS])
        result.loading.append(loading)
        result.first[characters].append(first_call)
        result.second[characters].append(second_call)
    result.core_use.append(meter.stop())


def run(code: str, told: Any) -> list[float]:
    """Run code in a new process, which is told something and says some seconds, both as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(told), stdout=subprocess.PIPE, text=True, check=True
    )
    return [float(seconds) for seconds in json.loads(done.stdout)]


def markdown(around: dict[str, object], result: Measured) -> str:
    """Write the record that people read."""
    lines = [
        *record.heading(CLAIM, around),
        f"{around['rounds']} rounds; milliseconds, medians (least to most)",
        "",
        "| what | milliseconds |",
        "|---|---:|",
    ]
    for way, (first, second) in WAYS.items():
        lines.append(f"| `{first}` | {milliseconds(result.before[way])} |")
        lines.append(f"| `{second}` after it | {milliseconds(result.beyond[way])} |")
    lines.append(f"| loading the embedded model | {milliseconds(result.loading)} |")
    for characters in CHARACTERS:
        pairs = zip(result.first[characters], result.second[characters], strict=True)
        lines.append(f"| first call, {characters:,} characters | {milliseconds(result.first[characters])} |")
        lines.append(f"| second call, {characters:,} others | {milliseconds(result.second[characters])} |")
        lines.append(f"| the first beyond the second | {milliseconds([first - second for first, second in pairs])} |")
    lines += ["", *(goal.line() for goal in result.goals()), f"- {quietness(result.core_use)}"]
    return "\n".join(lines) + "\n"


def milliseconds(seconds: list[float]) -> str:
    """Write seconds as milliseconds."""
    return spread([1000 * each for each in seconds], ".1f")


if __name__ == "__main__":
    main()
