"""Claim: time and memory grow linearly with the text.

One page of 1 kB to 10 MB, 1 to 10,000 pages of 1 kB, windows of 1 to 10 sentences, steps of 1 to 3. Each point is a
process of its own. Memory is a call's peak over the process's memory before it: of the first call, which allocates much
that stays, and of the second. A model that costs next to nothing shows the cost outside the network; the embedded one
shows the whole, up to sizes that take minutes. No sentence of the text occurs twice, and nothing is cached
(`cache_bytes=0`).

The exponent of growth is the slope of the line through the logarithms (least squares), from the size at which the fixed
cost of a call is negligible. Steps and lengths of windows are compared by the tokens that they encode.

    .venv/bin/python bench/scaling.py
"""

from __future__ import annotations

import math
import sys
import tempfile
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median

import numpy as np

# The modules in this directory are the package `bench`, for mypy and for the processes started from here too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import plot, record, small_model
from bench.goals import Goal
from bench.isolated_call import Outcome, Task, measure
from bench.machine_noise import CoreUse, Meter, quietness
from bench.options import claim_parser
from pullquote._models.choice import model_directory

CLAIM = "scaling"
EMBEDDED = "embedded model"
SIZES = [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000]
PAGES = [1, 10, 100, 300, 1_000, 3_000, 10_000]
PAGE_CHARACTERS = 1_000
LENGTHS = [1, 2, 3, 5, 7, 10]
STEPS = [1, 2, 3]
# Below these sizes, the fixed cost of a call matters; and with the small model, whether there is more than one job and one
# group of pages, so that the caller's thread and the devices work at the same time.
FIT_FROM = {EMBEDDED: {"size": 30_000, "pages": 100}, small_model.NAME: {"size": 300_000, "pages": 300}}
WINDOWS_CHARACTERS = {EMBEDDED: 100_000, small_model.NAME: 1_000_000}
MEGABYTE = 1_000_000


@dataclass(slots=True)
class Series:
    """Points along one quantity with one model; `outcomes` in the order of the rounds, by point."""

    model: str
    quantity: str
    tasks: dict[int, Task]
    fit_from: int
    outcomes: dict[int, list[Outcome]] = field(default_factory=dict)

    def seconds(self, point: int) -> float:
        """Seconds of a call: the median over the rounds of their medians."""
        return median(median(outcome.seconds) for outcome in self.outcomes[point])

    def first_peak_bytes(self, point: int) -> float:
        """Memory that the first call added: the median over the rounds."""
        return median(outcome.first_peak_bytes for outcome in self.outcomes[point])

    def next_peak_bytes(self, point: int) -> float:
        """Memory that the second call added: the median over the rounds, or NaN if there was one call."""
        peaks = [outcome.next_peak_bytes for outcome in self.outcomes[point] if outcome.next_peak_bytes is not None]
        return median(peaks) if peaks else math.nan

    def amount(self, point: int) -> int:
        """The amount of work: bytes of text, or tokens if the text is the same."""
        outcome = self.outcomes[point][0]
        return outcome.tokens if self.quantity in {"length", "step"} else outcome.utf8_bytes

    def fitted(self) -> list[int]:
        """The points that are large enough for the fit."""
        return [point for point in self.tasks if point >= self.fit_from]

    def power(self) -> float:
        """The exponent with which time grows."""
        return self._slope([self.seconds(point) for point in self.fitted()])

    def memory_power(self) -> float:
        """The exponent with which the second call's memory grows. Less than a megabyte is noise, and may be negative."""
        return self._slope([max(self.next_peak_bytes(point), MEGABYTE) for point in self.fitted()])

    def _slope(self, values: list[float]) -> float:
        if len(values) < 2 or not all(value > 0 for value in values):
            return math.nan
        amounts = [self.amount(point) for point in self.fitted()]
        return float(np.polyfit(np.log(amounts), np.log(values), 1)[0])

    def name(self) -> str:
        """What is fitted to what."""
        amount = "tokens" if self.quantity in {"length", "step"} else "bytes"
        return f"{self.model}, {self.quantity} from {self.fit_from:,}: power of {amount} with which"

    def goals(self) -> list[Goal]:
        """Compare with the goals.

        Other windows of the same text cost the same to cut and tokenize, so the small model's time does not depend on tokens.
        Memory may grow more slowly than the text, but no faster.
        """
        goals = []
        if self.model == EMBEDDED or self.quantity in {"size", "pages"}:
            goals.append(Goal(f"{self.name()} time grows", self.power(), least=0.95, most=1.05, form=".3f"))
        if self.model != EMBEDDED and self.quantity in {"size", "pages"}:
            goals.append(Goal(f"{self.name()} memory grows", self.memory_power(), most=1.05, form=".3f"))
        return goals


def main() -> None:
    """Measure, fit, print the table, and keep the record with its plot."""
    parser = claim_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument(
        "--largest", type=int, default=1_000_000, help="characters for the embedded model (default: %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="sizes of at most a hundredth, once, and nothing is kept")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        small = small_model.write_small_model(Path(directory))
        part = 100 if arguments.quick else 1
        rounds = 1 if arguments.quick else arguments.rounds
        results = [
            *series_of(small_model.NAME, small, max(SIZES) // part, part),
            *series_of(EMBEDDED, model_directory(None), arguments.largest // part, part),
        ]
        core_use = [use for number in range(rounds) for series in results for use in one_round(series, number)]
    around = record.circumstances() | {"dtype": results[0].outcomes[SIZES[0]][0].dtype}
    table = markdown(around, results, core_use)
    raw = around | {"results": list(map(raw_numbers, results)), "core_use": [asdict(use) for use in core_use]}
    record.publish(CLAIM, raw, table, keeps=not arguments.quick)
    if not arguments.quick:
        plot.write(record.directory() / f"{CLAIM}.svg", panels(results))


def series_of(name: str, model: Path, largest: int, part: int) -> list[Series]:
    """A model's points, none of more characters than `largest`."""
    calls = 1 if name == EMBEDDED else 2
    sizes = {size: Task(str(model), size, calls=calls) for size in SIZES if size <= largest}
    counts = [count for count in PAGES if count * PAGE_CHARACTERS <= largest]
    pages = {count: Task(str(model), PAGE_CHARACTERS, count, calls=calls) for count in counts}
    same = Task(str(model), WINDOWS_CHARACTERS[name] // part, calls=calls)
    return [
        Series(name, "size", sizes, fit_from=FIT_FROM[name]["size"] // part),
        Series(name, "pages", pages, fit_from=FIT_FROM[name]["pages"] // part),
        Series(name, "length", {length: replace(same, highlight_length=length) for length in LENGTHS}, fit_from=1),
        Series(name, "step", {step: replace(same, step_size=step) for step in STEPS}, fit_from=1),
    ]


def one_round(series: Series, number: int) -> list[CoreUse]:
    """Measure all points once, upwards in one round and downwards in the next."""
    core_use = []
    for point in list(series.tasks)[:: -1 if number % 2 else 1]:
        meter = Meter()
        outcome = measure(series.tasks[point])
        use = meter.stop()
        series.outcomes.setdefault(point, []).append(outcome)
        core_use.append(use)
        progress = f"{series.model}, round {number + 1}: {series.quantity} {point:,}: {median(outcome.seconds):.4f} s"
        print(f"{progress}, {outcome.first_peak_bytes / 1e6:.1f} MB{use.remark()}", file=sys.stderr)
    return core_use


def raw_numbers(series: Series) -> dict[str, object]:
    """Gather everything measured in a series, for the record."""
    return {
        "model": series.model,
        "quantity": series.quantity,
        "fit_from": series.fit_from,
        "power": series.power(),
        "memory_power": series.memory_power(),
        "goals": [asdict(goal) | {"met": goal.is_met} for goal in series.goals()],
        "points": {
            point: {"outcomes": [asdict(outcome) for outcome in outcomes]}
            for point, outcomes in series.outcomes.items()
        },
    }


def markdown(around: dict[str, object], results: list[Series], core_use: list[CoreUse]) -> str:
    """Write the record as Markdown."""
    lines = [*record.heading(CLAIM, around), f"![the same as a plot]({CLAIM}.svg)"]
    for series in results:
        same = next(iter(series.tasks.values()))
        what = {
            "size": "one page, characters",
            "pages": f"pages of {PAGE_CHARACTERS:,} characters",
            "length": f"one page of {same.characters:,} characters, sentences of a window",
            "step": f"one page of {same.characters:,} characters, sentences from window to window",
        }[series.quantity]
        rounds = max(len(outcomes) for outcomes in series.outcomes.values())
        lines += ["", f"{series.model}, {what}, {rounds} round{'s' * (rounds > 1)}:", ""]
        lines += [
            f"| {series.quantity} | windows | tokens | seconds (least to most) | waiting for vectors | µs a token "
            "| MB, first call | second |",
            "|---:|---:|---:|---:|---:|---:|---:|---:|",
        ]
        for point, outcomes in series.outcomes.items():
            seconds = [one for outcome in outcomes for one in outcome.seconds]
            next_bytes = series.next_peak_bytes(point)
            next_peak = "" if math.isnan(next_bytes) else f"{next_bytes / 1e6:.1f}"
            waited = median(outcome.stages["waiting"] / outcome.seconds[-1] for outcome in outcomes)
            lines.append(
                f"| {point:,} | {outcomes[0].pieces:,} | {outcomes[0].tokens:,} | {record.spread(seconds, '.4f')} | {waited:.0%} "
                f"| {1e6 * series.seconds(point) / outcomes[0].tokens:.2f} | {series.first_peak_bytes(point) / 1e6:.1f} "
                f"| {next_peak} |"
            )
    lines += ["", *(goal.line() for series in results for goal in series.goals())]
    lines.append(f"- {quietness(core_use)}")
    return "\n".join(lines) + "\n"


def panels(results: list[Series]) -> list[plot.Panel]:
    """Lay out the plot: time and memory of each quantity."""
    by_text = [series for series in results if series.quantity in {"size", "pages"}]
    by_windows = [series for series in results if series.quantity in {"length", "step"}]

    def curve(series: Series, values: dict[int, float]) -> plot.Curve:
        name = f"{series.model}, {series.quantity}"
        return plot.Curve(name, [series.amount(point) for point in values], list(values.values()))

    def seconds(series: Series) -> dict[int, float]:
        return {point: series.seconds(point) for point in series.tasks}

    def megabytes(series: Series) -> dict[int, float]:
        return {point: series.next_peak_bytes(point) / 1e6 for point in series.tasks}

    return [
        plot.Panel("bytes of text", "seconds", [curve(series, seconds(series)) for series in by_text]),
        plot.Panel("bytes of text", "MB, second call", [curve(series, megabytes(series)) for series in by_text[:2]]),
        plot.Panel("tokens encoded, same text", "seconds", [curve(series, seconds(series)) for series in by_windows]),
    ]


if __name__ == "__main__":
    main()
