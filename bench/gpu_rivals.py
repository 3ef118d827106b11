"""Stages of `bench/gpu.py` that compare with the sides of `bench/end_to_end.py`, and with a pipeline that does not pad rows."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from pathlib import Path
from statistics import median

from bench.gpu_trial import Findings, Trial, base_model, skipped
from bench.record import spread
from bench.texts import QUERY, prose_pages
from bench.workload import Workload, make_workload
from pullquote._models.choice import model_directory

BATCH_SIZES = (64, 128, 256, 512)
# As many times as fast as sentence-transformers, the pipeline, and the pipeline without padding.
LEAST_TIMES = (2.0, 4.0, 4.0)
# Rounds after the first begin only within this time, in seconds.
LONGEST = 60.0
# torch's variable against cuDNN's attention: it plans each shape of padded rows that it has not seen, for 0.4 s, so warming up with
# all shapes would take minutes.
NO_CUDNN = "TORCH_CUDNN_SDPA_DEPRIORITIZED"
# Other software, card and model, hence no side of ours: infinity's docs/docs/benchmarking.md (TEI 0.6, bge-large, one L4).
PUBLISHED = (
    "- published by infinity for bge-large on an L4: Text Embeddings Inference 3.2 times sentence-transformers float16"
)


def rivals(trial: Trial) -> Findings:
    """The embedded model."""
    return compare(trial, model_directory(None), trial.scaled(1_000, 1))


def rivals_base(trial: Trial) -> Findings:
    """The model of 110 million weights."""
    with tempfile.TemporaryDirectory() as directory:
        findings = compare(trial, base_model(trial, Path(directory)), trial.scaled(200, 1))
    findings.lines.append(PUBLISHED)
    return findings


def compare(trial: Trial, model: Path, pages: int) -> Findings:
    """Let all sides take turns on the same pages, after each was warmed up with all of them."""
    if importlib.util.find_spec("sentence_transformers") is None:
        return skipped("sentence-transformers is not installed.")
    # Before torch reads it, here and in the sides' processes. With the value 0, cuDNN is used as torch does.
    os.environ.setdefault(NO_CUDNN, "1")
    from bench import end_to_end  # noqa: PLC0415 - imports the rivals
    from bench.contenders import Setting  # noqa: PLC0415

    sides = [*end_to_end.SIDES, end_to_end.VARLEN]
    workload = make_workload(prose_pages(pages, trial.scaled(6_000, 2_000)), QUERY, model)
    sizes = try_sizes(trial, model, workload)
    best = max(sizes, key=lambda size: sizes[size])
    findings = Findings({"workload": workload.counts(), "sizes": sizes, NO_CUDNN: os.environ[NO_CUDNN]})
    findings.lines.append(
        f"- {pages} pages, {workload.pieces:,} windows, {workload.tokens:,} tokens, {trial.dtype}; the rivals' batches hold {best} "
        f"windows, the best of those tried for sentence-transformers; {NO_CUDNN}={os.environ[NO_CUDNN]} for all sides"
    )
    trial.write(findings)
    setting = Setting(model, trial.dtype, trial.device, best)
    measured = end_to_end.measure(setting, workload, trial.scaled(3, 1), sides, warm_up_pages=None, seconds=LONGEST)
    findings.numbers["measured"] = end_to_end.raw_numbers(measured, workload)
    rows = []
    for side in sides:
        speed = end_to_end.speeds(workload, median(measured.seconds(side)))
        ratio = "1" if side == sides[0] else spread(measured.ratios(side))
        rows.append([side, f"{speed['pieces']:,.0f}", f"{speed['tokens']:,.0f}", ratio])
    findings.table(["side", "windows/s", "tokens/s", "pullquote is as many times as fast"], rows)
    for rival, least in zip(sides[1:], LEAST_TIMES, strict=True):
        findings.goal(f"to {rival}", median(measured.ratios(rival)), least=least)
    return findings


def try_sizes(trial: Trial, model: Path, workload: Workload) -> dict[int, float]:
    """Pages a second of sentence-transformers with batches of each size, over a tenth of the pages, the second time."""
    from bench.contenders import SentenceTransformers, Setting  # noqa: PLC0415 - imports the rival

    found = {}
    pages = workload.pages[: max(1, len(workload.pages) // 10)]
    for size in trial.scaled(BATCH_SIZES, (32,)):
        side = SentenceTransformers(Setting(model, trial.dtype, trial.device, size))
        side.run(workload.query, pages)
        found[size] = len(pages) / side.run(workload.query, pages).seconds
    return found
