"""Claim: on a card, 4 times as many pieces a second as a pipeline of processes, and twice those of sentence-transformers.

For the embedded model and for one as large as BERT's base (`bench/small_model.py`), or for the one that is named. The
sides, the workload and the comparison of their answers are those of `bench/end_to_end.py`, on a card, in float16, with the
batch size that is best for the rivals, which is tried out first. Beside it: what part of the time the card computes (kernels
as torch's profiler sees them, over `highlights()`), and how many tokens a second that is, next to what the same matrix
products reach alone, by the lengths of rows.

Without a card there is nothing to measure. `--device cpu` runs the same on a processor, in bfloat16, to see that it works;
nothing is kept then.

    .venv/bin/python bench/gpu.py --pages DIR --limit 2000
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from transformers import AutoConfig

from bench import end_to_end, record, small_model
from bench.contenders import Pullquote, SentenceTransformers, Setting
from bench.goals import Goal
from bench.options import add_model, add_no_record, add_pages, claim_parser
from bench.record import spread
from bench.texts import QUERY
from bench.workload import Workload, load_workload
from pullquote import Highlighter
from pullquote._models import model_directory

CLAIM = "gpu"
BATCH_SIZES = (32, 64, 128, 256, 512)
TRIAL_PAGES = 100
LENGTHS = (64, 128, 256, 512)
TOKENS = 16_384
LEAST_TIMES = {"sentence-transformers": 2.0, "pipeline of processes": 4.0}
LEAST_BUSY = 0.85


@dataclass(frozen=True)
class Found:
    """What was measured with a model."""

    called: str
    workload: Workload
    sizes: dict[int, float]
    best: int
    measured: end_to_end.Measured
    busy: float
    products: list[dict[str, float]]

    def raw(self) -> dict[str, object]:
        """As it is kept."""
        return {
            "model": self.called,
            "workload": self.workload.counts(),
            "sizes": self.sizes,
            "measured": end_to_end.raw_numbers(self.measured, self.workload),
            "busy": self.busy,
            "products": self.products,
        }

    def lines(self) -> list[str]:
        """As people read it."""
        counts = self.workload.counts()
        lines = [
            "",
            f"## {self.called}",
            "",
            f"- {counts['pages']} pages, {counts['pieces']:,} pieces, {self.measured.dtype}; the rivals' batches hold "
            f"{self.best} windows",
            "",
            "| side | pieces/s | times as fast |",
            "|---|---:|---:|",
        ]
        for side in end_to_end.SIDES:
            speed = end_to_end.speeds(self.workload, median(self.measured.seconds(side)))["pieces"]
            ratio = "1" if side == end_to_end.SIDES[0] else spread(self.measured.ratios(side))
            lines.append(f"| {side} | {speed:,.0f} | {ratio} |")
        lines += ["", "| rows of | tokens/s | their matrix products alone | share |", "|---:|---:|---:|---:|"]
        lines += [
            f"| {one['length']} | {one['tokens']:,.0f} | {one['products_alone']:,.0f} | {one['share']:.2f} |"
            for one in self.products
        ]
        ratios = {rival: median(self.measured.ratios(rival)) for rival in LEAST_TIMES}
        goals = [Goal(f"to {rival}", ratio, least=LEAST_TIMES[rival]) for rival, ratio in ratios.items()]
        goals.append(Goal("of the time the card computes", self.busy, least=LEAST_BUSY))
        return [*lines, "", *(goal.line() for goal in goals)]


def main() -> None:
    """Measure, print the table and keep the record."""
    parser = claim_parser(__doc__)
    add_pages(parser, [record.REPOSITORY / "demo" / "pages"], "directories or files, as for bench/end_to_end.py")
    parser.add_argument("--limit", type=int, help="maximum number of pages")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--rounds", type=int, default=3)
    add_model(parser)
    add_no_record(parser)
    arguments = parser.parse_args()
    is_card = arguments.device != "cpu"
    if is_card and not torch.cuda.is_available():
        print("skipped: no CUDA device here, so there is nothing to measure", file=sys.stderr)
        return
    dtype = "float16" if is_card else "bfloat16"
    name = str(torch.cuda.get_device_name(arguments.device)) if is_card else "cpu, to try it"
    circumstances = record.circumstances() | {"device": name}
    found = []
    with tempfile.TemporaryDirectory() as directory:
        if arguments.model is not None:
            models = {str(arguments.model): model_directory(arguments.model)}
        else:
            base = small_model.write_model(Path(directory), small_model.BASE)
            models = {"the embedded model": model_directory(None), small_model.BASE_NAME: base}
        for called, model in models.items():
            print(called, file=sys.stderr)
            found.append(measure(called, model, dtype, arguments))
    raw = circumstances | {"models": [one.raw() for one in found]}
    table = "\n".join([*record.long_heading(CLAIM, circumstances), *(line for one in found for line in one.lines())])
    record.publish(CLAIM, raw, table + "\n", keeps=is_card and not arguments.no_record)


def measure(called: str, model: Path, dtype: str, arguments: argparse.Namespace) -> Found:
    """Measure all of it with one model."""
    workload = load_workload(arguments.pages, QUERY, model, arguments.limit)
    sizes = try_sizes(model, dtype, arguments.device, workload)
    best = max(sizes, key=lambda size: sizes[size])
    setting = Setting(model, dtype, arguments.device, best)
    measured = end_to_end.measure(setting, workload, arguments.rounds)
    busy = busy_share(setting, workload) if arguments.device != "cpu" else float("nan")
    products = [rate(setting, length) for length in LENGTHS]
    return Found(called, workload, sizes, best, measured, busy, products)


def try_sizes(model: Path, dtype: str, device: str, workload: Workload) -> dict[int, float]:
    """Pages a second of sentence-transformers with batches of each size, over some of the pages."""
    found = {}
    pages = workload.pages[:TRIAL_PAGES]
    for size in BATCH_SIZES:
        side = SentenceTransformers(Setting(model, dtype, device, size))
        side.run(workload.query, pages[:3])
        found[size] = len(pages) / side.run(workload.query, pages).seconds
        print(f"batches of {size}: {found[size]:.1f} pages/s", file=sys.stderr)
    return found


def busy_share(setting: Setting, workload: Workload) -> float:
    """What part of the time of a run at least one kernel computes."""
    from torch.profiler import ProfilerActivity, profile  # noqa: PLC0415 - only on a card

    side = Pullquote(setting)
    side.run(workload.query, workload.pages[:3])
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        seconds = side.run(workload.query, workload.pages).seconds
    side.close()
    spans = sorted(
        (event.time_range.start, event.time_range.end)
        for event in profiled.events()
        if str(event.device_type).endswith("CUDA") and "Memcpy" not in event.name
    )
    busy, last = 0.0, 0.0
    for start, end in spans:
        busy += max(0.0, end - max(start, last))
        last = max(last, end)
    return busy / 1e6 / seconds


def rate(setting: Setting, length: int) -> dict[str, float]:
    """Tokens a second of rows of a length, and the share of what their matrix products reach alone."""
    texts = ["moon " * (length - 2)] * (TOKENS // length * (8 if setting.device != "cpu" else 1))
    with Highlighter(setting.model, devices=[setting.device], dtype=setting.dtype, cache_bytes=0) as highlighter:
        highlighter.embed(texts)
        began = time.perf_counter()
        highlighter.embed(texts)
        ours = len(texts) * length / (time.perf_counter() - began)
    config: Any = AutoConfig.from_pretrained(str(setting.model))
    hidden, wide, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    kind = getattr(torch, setting.dtype)
    rows = torch.randn(TOKENS, hidden, dtype=kind, device=setting.device)
    wider = torch.randn(TOKENS, wide, dtype=kind, device=setting.device)
    weights = [torch.randn(hidden, side, dtype=kind, device=setting.device) for side in (3 * hidden, hidden, wide)]
    down = torch.randn(wide, hidden, dtype=kind, device=setting.device)

    def once() -> None:
        for weight in weights:
            rows @ weight
        wider @ down

    once()
    synchronize(setting.device)
    began = time.perf_counter()
    for _ in range(3):
        once()
    synchronize(setting.device)
    alone = TOKENS / ((time.perf_counter() - began) / 3 * layers)
    return {"length": length, "tokens": ours, "products_alone": alone, "share": ours / alone}


def synchronize(device: str) -> None:
    """Wait for a card."""
    if device != "cpu":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
