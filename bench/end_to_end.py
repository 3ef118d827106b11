"""Claim: `highlights()` processes more pages a second than Python programs for the same task.

The rivals are sentence-transformers in one process, and a pipeline of processes joined by queues. All sides have the
same pages, query, windows, model, dtype and cores. They alternate, and what counts is the ratio within a round.
Loading and a warm-up are not timed. The sides' answers are compared before anything is reported.

    .venv/bin/python bench/end_to_end.py --rounds 5
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

# The modules in this directory are the package `bench`, for mypy and for the processes started from here too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record
from bench.contenders import Contender, InProcess, Pullquote, Run, SentenceTransformers, Setting
from bench.machine_noise import CoreUse, Meter, quietness
from bench.options import add_model, add_no_record, add_pages, claim_parser
from bench.pipeline import Pipeline
from bench.record import spread
from bench.scores import Chosen
from bench.texts import QUERY
from bench.workload import Page, Workload, load_workload
from pullquote._models.choice import model_directory

CLAIM = "end_to_end"
SIDES = ["pullquote", "sentence-transformers", "pipeline of processes"]
# A side that needs a GPU to be fast.
VARLEN = "pipeline, rows not padded"
WARM_UP_PAGES = 3

# The largest difference between scores of the same answer: rounding of the dtype.
TOLERANCE = {"float32": 1e-3, "float16": 1e-2, "bfloat16": 2e-2}


@dataclass(frozen=True, slots=True)
class Agreement:
    """How a rival's answers compare with pullquote's, page by page.

    `largest_difference` is between the scores of the best windows; `same_best` counts pages where both put the same
    window first, and `near_ties` those of the others where the rival gives both windows the same score, up to the
    tolerance.
    """

    pages: int
    same_best: int
    near_ties: int
    largest_difference: float


@dataclass(frozen=True, slots=True)
class Measured:
    """All runs in one dtype: `runs[side]` in the order of the rounds, and `core_use[side]` during each of them."""

    dtype: str
    threads: dict[str, str]
    runs: dict[str, list[Run]]
    core_use: dict[str, list[CoreUse]]
    agreements: dict[str, Agreement]

    def seconds(self, side: str) -> list[float]:
        """List the seconds of a side's runs."""
        return [run.seconds for run in self.runs[side]]

    def ratios(self, rival: str) -> list[float]:
        """For each round, pullquote's pages a second over the rival's."""
        return [theirs / ours for ours, theirs in zip(self.seconds(SIDES[0]), self.seconds(rival), strict=True)]

    def stage_shares(self) -> dict[str, float]:
        """The part of pullquote's time that its caller spent in each stage: medians over the rounds."""
        stages = ["cutting", "tokenizing", "waiting", "ranking"]
        return {stage: median(run.work[stage] / run.seconds for run in self.runs[SIDES[0]]) for stage in stages}


def main() -> None:
    """Measure, compare, print the table and keep the record."""
    arguments = parse_arguments()
    model = model_directory(arguments.model)
    workload = load_workload(arguments.pages, arguments.query, model, arguments.limit)
    circumstances = record.circumstances()
    print(f"workload: {workload.counts()}", file=sys.stderr)
    results = []
    for dtype in arguments.dtypes:
        setting = Setting(model, dtype, arguments.device, arguments.batch_size)
        results.append(measure(setting, workload, arguments.rounds))
    options = {"device": arguments.device, "batch_size": arguments.batch_size, "rounds": arguments.rounds}
    raw = circumstances | options | {"workload": workload.counts(), "model": model.parent.name, "results": {}}
    raw["results"] = {result.dtype: raw_numbers(result, workload) for result in results}
    table = markdown(circumstances | options, workload, results)
    record.publish(CLAIM, raw, table, keeps=not arguments.no_record)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = claim_parser(__doc__)
    meaning = 'directories of .txt and .md files, cut at blank lines, or .jsonl[.gz] files of {"text": …}, taken whole'
    add_pages(parser, [record.REPOSITORY / "demo" / "pages"], meaning)
    parser.add_argument("--limit", type=int, help="maximum number of pages, spread evenly over all")
    parser.add_argument("--query", default=QUERY)
    add_model(parser)
    parser.add_argument("--dtypes", nargs="+", choices=list(TOLERANCE), default=["float32", "bfloat16"])
    parser.add_argument("--device", default="cpu", help="cpu, or cuda:0")
    parser.add_argument("--batch-size", type=int, default=32, help="windows in a batch of the rivals (default: 32)")
    parser.add_argument("--rounds", type=int, default=3)
    add_no_record(parser)
    return parser.parse_args()


def measure(
    setting: Setting,
    workload: Workload,
    rounds: int,
    names: list[str] = SIDES,
    warm_up_pages: int | None = WARM_UP_PAGES,
    seconds: float = math.inf,
) -> Measured:
    """Load all sides, warm them up with some pages or (`None`) all, let them take turns, and compare their answers.

    No round but the first begins after this number of seconds.
    """
    sides: dict[str, Contender] = {}
    try:
        for name in names:
            print(f"{setting.dtype}: loading {name}", file=sys.stderr)
            sides[name] = load_side(name, setting, workload.max_tokens)
            sides[name].run(workload.query, workload.pages[:warm_up_pages])
        runs: dict[str, list[Run]] = {name: [] for name in sides}
        core_use: dict[str, list[CoreUse]] = {name: [] for name in sides}
        until = time.monotonic() + seconds
        for number in range(rounds):
            if number > 0 and time.monotonic() > until:
                break
            for name, side in sides.items():
                meter = Meter()
                run = side.run(workload.query, workload.pages)
                use = meter.stop()
                runs[name].append(run)
                core_use[name].append(use)
                progress = f"{setting.dtype}: round {number + 1} of {rounds}: {name} {run.seconds:.2f} s"
                print(f"{progress} on {use.own:.1f} cores{use.remark()}", file=sys.stderr)
    finally:
        for side in sides.values():
            side.close()
    agreements = {rival: compare(runs[SIDES[0]], runs[rival], workload.pages, setting.dtype) for rival in names[1:]}
    threads = {name: side.threads for name, side in sides.items()}
    return Measured(setting.dtype, threads, runs, core_use, agreements)


def load_side(name: str, setting: Setting, max_tokens: int) -> Contender:
    """Start a side's processes and load its model."""
    if name == SIDES[0]:
        return InProcess(Pullquote, setting)
    if name == SIDES[1]:
        return InProcess(SentenceTransformers, setting)
    return Pipeline(setting, max_tokens, pads=name != VARLEN)


def compare(ours: list[Run], theirs: list[Run], pages: list[Page], dtype: str) -> Agreement:
    """Check the last runs' answers against each other.

    Raises `AssertionError` where a best score is off by more than the dtype's tolerance, and in float32 where the
    best windows of a page differ without being tied.
    """
    tolerance = TOLERANCE[dtype]
    same = near = 0
    largest = 0.0
    for number, (page, our, their) in enumerate(zip(pages, ours[-1].chosen, theirs[-1].chosen, strict=True)):
        difference = float(abs(our.scores[0] - their.scores[0]))
        assert difference <= tolerance, f"page {number}: best scores differ by {difference}, more than {tolerance}"
        largest = max(largest, difference)
        if our.spans[0].tolist() == their.spans[0].tolist():
            same += 1
        elif score_of(our.spans[0].tolist(), page, their) >= float(their.scores[0]) - tolerance:
            near += 1
        else:
            assert dtype != "float32", f"page {number}: best windows differ, {our.spans[0]} and {their.spans[0]}"
    return Agreement(len(pages), same, near, largest)


def score_of(span: list[int], page: Page, chosen: Chosen) -> float:
    """The score that a side gave the window of this span."""
    assert chosen.all_scores is not None, "only the rivals give every window's score away"
    windows = np.flatnonzero((page.spans == span).all(axis=1))
    assert len(windows) == 1, f"{span} is no window of the page, so the sides did not do the same work"
    return float(chosen.all_scores[windows[0]])


def speeds(workload: Workload, seconds: float) -> dict[str, float]:
    """A side's pages, windows and tokens a second, from a run's seconds."""
    amounts = {"pages": len(workload.pages), "pieces": workload.pieces, "tokens": workload.tokens}
    return {name: amount / seconds for name, amount in amounts.items()}


def raw_numbers(result: Measured, workload: Workload) -> dict[str, object]:
    """Gather everything measured in one dtype, for the record."""
    return {
        "threads": result.threads,
        "seconds": {side: result.seconds(side) for side in result.runs},
        "core_use": {side: [asdict(use) for use in uses] for side, uses in result.core_use.items()},
        "per_second": {side: speeds(workload, median(result.seconds(side))) for side in result.runs},
        "ratios": {rival: result.ratios(rival) for rival in result.agreements},
        "agreement": {rival: asdict(agreement) for rival, agreement in result.agreements.items()},
        "stage_shares": result.stage_shares(),
        "work": [run.work for run in result.runs[SIDES[0]]],
    }


def markdown(around: dict[str, object], workload: Workload, results: list[Measured]) -> str:
    """Write the record as Markdown."""
    counts = workload.counts()
    lines = [
        *record.long_heading(CLAIM, around),
        f"- workload: {counts['pages']} pages, {counts['characters']:,} characters, {counts['pieces']:,} windows of "
        f"{counts['highlight_length']} sentences, {counts['tokens']:,} tokens (special ones included, padding not); "
        f"{counts['truncated_pieces']} windows cut at {counts['max_tokens']} tokens; query {counts['query']!r}",
        f"- {around['rounds']} rounds, the sides taking turns; the rivals' batches hold {around['batch_size']} windows",
        "- the rivals are given the windows' spans; the pipeline also passes over each text with a regular expression",
        "- seconds and ratios are medians; a ratio is pullquote's speed over the rival's in the same round",
        "",
        "| dtype | side | pages/s | pieces/s | tokens/s | seconds (least to most) | ratio (least to most) |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for result in results:
        for side in SIDES:
            seconds = result.seconds(side)
            speed = speeds(workload, median(seconds))
            ratio = "1" if side == SIDES[0] else spread(result.ratios(side))
            lines.append(
                f"| {result.dtype} | {side} | {speed['pages']:.2f} | {speed['pieces']:,.0f} | {speed['tokens']:,.0f} "
                f"| {spread(seconds)} | {ratio} |"
            )
    for result in results:
        shares = ", ".join(f"{stage} {share:.1%}" for stage, share in result.stage_shares().items())
        lines += ["", f"{result.dtype}:", "", f"- pullquote's caller spends its time: {shares}"]
        for rival, agreement in result.agreements.items():
            lines.append(
                f"- against {rival}: the same best window on {agreement.same_best} of {agreement.pages} pages, tied on "
                f"{agreement.near_ties} more; best scores differ by at most {agreement.largest_difference:.1e}"
            )
        for side, threads in result.threads.items():
            used = spread([use.own for use in result.core_use[side]])
            lines.append(f"- {side} is {threads}; it used {used} cores")
        lines.append(f"- {quietness(use for uses in result.core_use.values() for use in uses)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
