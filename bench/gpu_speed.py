"""Stages of `bench/gpu.py` that say how fast: what a batch costs the thread that queues it, and how busy the card is.

Models: the embedded one, and BERT of 110 million random weights (`bench/small_model.py`). Texts: `bench.texts.prose`, of which no
sentence stands twice, since equal texts of a call are encoded once. The card has rows of other calls while a call is cut or ranked:
four threads ask.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile

from bench.gpu_checks import sentences
from bench.gpu_trial import LAUNCH, Findings, Trial, base_model, takes
from bench.texts import QUERY, prose_pages
from bench.workload import HIGHLIGHT_LENGTH, STEP_SIZE, TOP_K, read_max_tokens
from pullquote import Highlighter
from pullquote._models.choice import model_directory

THREADS = 4
BATCH_TOKENS = (8_192, 16_384, 32_768, 65_536)
DEPTHS = (2, 3, 4)
CALL_PAGES = 100
LENGTHS = (32, 64, 128, 256)
PRODUCT_TOKENS = 16_384
QUEUEING = [
    "model",
    "batch tokens",
    "depth",
    "graphs",
    "share of batches as graphs",
    "tokens of a batch",
    "µs to queue one",
    "batches/s",
    "tokens/s",
]


def queueing(trial: Trial) -> Findings:
    """What queueing a batch's kernels takes, by tokens of a batch, batches in flight, and with CUDA graphs or without.

    The large model has only the defaults.
    """
    texts = [sentences(trial.scaled(8_000, 60))[thread::THREADS] for thread in range(THREADS)]
    graphs: list[dict[str, Any]] = (
        [{"cuda_graphs": value} for value in ("auto", False)] if takes("cuda_graphs") else [{}]
    )
    sizes = itertools.product(trial.scaled(BATCH_TOKENS, (1_024, 2_048)), trial.scaled(DEPTHS, (2,)))
    settings: list[dict[str, Any]] = [{"max_batch_tokens": tokens, "depth": depth} for tokens, depth in sizes]
    findings = Findings({"rows": []})
    with tempfile.TemporaryDirectory() as directory:
        models = {"embedded": model_directory(None), "110M": base_model(trial, Path(directory))}
        for (name, model), graph in itertools.product(models.items(), graphs):
            for setting in settings if name == "embedded" else [{"depth": 2}]:
                with trial.highlighter(model, **setting, **graph) as highlighter:
                    run = loaded(highlighter, texts, trial.scaled(1.5, 0.5), trial.scaled(3, 1))
                    state = highlighter.device_states[0]
                error = {"graph_error": getattr(state, "graph_error", None)}
                row = {"model": name, "max_batch_tokens": state.batch_tokens} | setting | graph | run | error
                findings.numbers["rows"].append(row)
                findings.lines.clear()
                findings.table(QUEUEING, [queueing_cells(one) for one in findings.numbers["rows"]])
                trial.write(findings)
    if not takes("cuda_graphs"):
        findings.lines.append("- this version has no CUDA graphs")
    elif trial.is_cpu:
        findings.lines.append("- CUDA graphs need a card: on a CPU the option changes nothing")
    for error in sorted({row["graph_error"] for row in findings.numbers["rows"]} - {None}):
        findings.lines.append(f"- CUDA graphs were turned off: {error}")
    return findings


def queueing_cells(row: dict[str, Any]) -> list[str]:
    """Write a row of the table."""
    return [
        row["model"],
        f"{row['max_batch_tokens']:,}",
        str(row["depth"]),
        str(row.get("cuda_graphs", "none")),
        f"{row['graph_share']:.2f}",
        f"{row['tokens_per_batch']:,.0f}",
        f"{row['launch_microseconds']:.0f}",
        f"{row['batches_per_second']:.0f}",
        f"{row['tokens_per_second']:,.0f}",
    ]


def loaded(highlighter: Highlighter, texts: Sequence[list[str]], seconds: float, rounds: int = 3) -> dict[str, float]:
    """Embed from as many threads as there are lists of texts, for this time after `rounds`; returns rates of the first device."""

    def ask(mine: list[str]) -> None:
        while time.perf_counter() < until:
            highlighter.embed(mine)

    with ThreadPoolExecutor(len(texts)) as pool:
        # More than once: a CUDA graph is captured of shapes that came before.
        for _ in range(rounds):
            list(pool.map(highlighter.embed, texts))
        state, stages, began = highlighter.device_states[0], highlighter.stages, time.perf_counter()
        until = began + seconds
        list(pool.map(ask, texts))
        elapsed = time.perf_counter() - began
    after, totals = highlighter.device_states[0], highlighter.stages
    batches, tokens = after.batches - state.batches, after.tokens - state.tokens
    replayed = getattr(after, "graph_batches", 0) - getattr(state, "graph_batches", 0)
    launched = totals[LAUNCH].seconds - stages[LAUNCH].seconds if LAUNCH in totals else float("nan")
    return {
        "batches_per_second": batches / elapsed,
        "tokens_per_second": tokens / elapsed,
        "tokens_per_batch": tokens / max(1, batches),
        "launch_microseconds": launched / max(1, batches) * 1e6,
        "launch_share": launched / elapsed,
        "graph_share": replayed / max(1, batches),
    }


def busy(trial: Trial) -> Findings:
    """The part of the time in which the card computes, with the embedded model, over 50 million distinct tokens."""
    return busy_with(trial, model_directory(None), trial.scaled(50_000_000, 8_000), 0.85)


def busy_base(trial: Trial) -> Findings:
    """The same with 110 million weights, and a fifth of the tokens."""
    with tempfile.TemporaryDirectory() as directory:
        model = base_model(trial, Path(directory))
        return busy_with(trial, model, trial.scaled(10_000_000, 4_000), 0.9)


def busy_with(trial: Trial, model: Path, tokens: int, least: float) -> Findings:
    """Measure all pages under nvidia-smi, which asks the driver, then a fifth of them under torch's profiler, which is CUPTI.

    The profiler makes each launch 1 to 3 µs dearer. `of the calls' time` counts from the first call to the last answer, cutting
    the first pages and ranking the last ones included; `from the first kernel to the last` does not.
    """
    characters = trial.scaled(6_000, 600)
    trials = prose_pages(THREADS * trial.scaled(10, 1), characters)
    with trial.highlighter(model) as highlighter:
        each = ask_all(highlighter, trials)["tokens"] / len(trials)
        pages = prose_pages(int(tokens / each) + 1, characters)
        ask_all(highlighter, pages[: len(pages) // 5 + 1])
        before = highlighter.stages
        with utilization(trial) as driver:
            whole = ask_all(highlighter, pages)
        stages = {name: of.seconds - before[name].seconds for name, of in highlighter.stages.items()}
        findings = Findings({"pages": len(pages), "whole": whole, "stages": stages, "driver": driver})
        findings.lines += [
            f"- {len(pages):,} pages, {whole['encoded']:,.0f} of {whole['windows']:,.0f} windows encoded, {whole['tokens']:,.0f} "
            f"tokens, {THREADS} threads: {whole['seconds']:.2f} s, {whole['tokens'] / whole['seconds']:,.0f} tokens/s",
            "- seconds of the stages: " + ", ".join(f"{name} {seconds:.2f}" for name, seconds in stages.items()),
        ]
        if driver:
            findings.goal(f"busy by the driver, mean of {len(driver)} samples", mean(driver), least=least)
        trial.write(findings)
        batches = highlighter.device_states[0].batches
        activity = ProfilerActivity.CPU if trial.is_cpu else ProfilerActivity.CUDA
        # Kernels are a card's, whatever thread queued them; operators on a CPU are a thread's.
        config = _ExperimentalConfig(profile_all_threads=trial.is_cpu)
        with profile(activities=[activity], acc_events=True, experimental_config=config) as profiled:
            part = ask_all(highlighter, pages[: len(pages) // 5 + 1])
            wait(trial)
        batches = highlighter.device_states[0].batches - batches
    spans = sorted(
        (event.time_range.start / 1e6, event.time_range.end / 1e6, event.name)
        for event in profiled.events()
        if trial.is_cpu or (str(event.device_type).endswith("CUDA") and "Memcpy" not in event.name)
    )
    if spans:
        add_kernels(findings, spans, part, batches, least)
    else:
        findings.lines.append("- the profiler saw no kernels")
    return findings


def add_kernels(
    findings: Findings, spans: list[tuple[float, float, str]], part: dict[str, float], batches: int, least: float
) -> None:
    """Add what the kernels took, which are sorted by their start: the goals, and the kernels that took most."""
    kernels = union([(start, end) for start, end, _ in spans])
    reach = max(end for _, end, _ in spans) - spans[0][0]
    totals: dict[str, float] = {}
    for start, end, kernel in spans:
        totals[kernel] = totals.get(kernel, 0.0) + end - start
    longest = sorted(totals.items(), key=lambda item: -item[1])
    findings.numbers["profiled"] = part | {
        "kernel_seconds": kernels,
        "reach_seconds": reach,
        "kernels_per_batch": len(spans) / max(1, batches),
        "kernels": dict(longest[:30]),
    }
    findings.goal("busy by kernels, from the first kernel to the last", kernels / reach, least=least)
    findings.goal("busy by kernels, of the calls' time", kernels / part["seconds"], least=least)
    findings.lines.append(f"- {len(spans) / max(1, batches):.0f} kernels a batch, {batches} batches")
    findings.table(
        ["kernel", "share"],
        [[f"`{kernel[:90]}`", f"{seconds / kernels:.1%}"] for kernel, seconds in longest[:15]],
    )


def ask_all(highlighter: Highlighter, pages: list[str]) -> dict[str, float]:
    """Highlight all pages, in calls of a hundred at most, from four threads; every window is encoded."""

    def ask(part: list[str]) -> tuple[int, int, int]:
        found = highlighter.highlights(
            QUERY, part, highlight_length=HIGHLIGHT_LENGTH, step_size=STEP_SIZE, top_k=TOP_K, effort="full"
        )
        return found.work.tokens, found.work.windows, found.work.encoded

    size = max(1, min(CALL_PAGES, len(pages) // THREADS))
    began = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        done = list(pool.map(ask, [pages[start : start + size] for start in range(0, len(pages), size)]))
    seconds = time.perf_counter() - began
    tokens, windows, encoded = (float(sum(of)) for of in zip(*done, strict=True))
    return {"seconds": seconds, "tokens": tokens, "windows": windows, "encoded": encoded}


def union(spans: list[tuple[float, float]]) -> float:
    """The time that at least one of the spans covers; they are sorted by their start."""
    covered, last = 0.0, float("-inf")
    for start, end in spans:
        covered += max(0.0, end - max(start, last))
        last = max(last, end)
    return covered


@contextmanager
def utilization(trial: Trial) -> Iterator[list[float]]:
    """Ask nvidia-smi while this is open: the part of each period in which a kernel ran. Empty without numbers."""
    samples: list[float] = []
    if trial.is_cpu or shutil.which("nvidia-smi") is None:
        yield samples
        return
    index = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
    command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-i", index]
    ended = threading.Event()

    def sample() -> None:
        # Its period is up to a second, so the first samples would be of the time before.
        while not ended.wait(0.2 if samples else 1.0):
            said = subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()
            samples.append(float(said) / 100 if said.isdigit() else float("nan"))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield samples
    finally:
        ended.set()
        sampler.join()


def lengths(trial: Trial) -> Findings:
    """Tokens a second of rows of a length, and the share of what their matrix products reach alone."""
    model = model_directory(None)
    assert max(LENGTHS) <= read_max_tokens(model), "longer rows are cut, so their tokens would not be computed"
    alone = products_alone(trial, model)
    findings = Findings({"products_alone": alone, "rows": []})
    with trial.highlighter(model) as highlighter:
        for length in trial.scaled(LENGTHS, (32,)):
            texts = exact_rows(model, length, trial.scaled(1_000_000, 1_024) // length)
            run = loaded(highlighter, [texts[thread::THREADS] for thread in range(THREADS)], trial.scaled(4.0, 0.5))
            findings.numbers["rows"].append({"length": length, "share": run["tokens_per_second"] / alone} | run)
    findings.table(
        ["rows of", "tokens/s", "µs to queue a batch", "share of the matrix products alone"],
        [
            [
                str(row["length"]),
                f"{row['tokens_per_second']:,.0f}",
                f"{row['launch_microseconds']:.0f}",
                f"{row['share']:.2f}",
            ]
            for row in findings.numbers["rows"]
        ],
    )
    findings.lines.append(f"- the matrix products alone, batches of {PRODUCT_TOKENS:,}: {alone:,.0f} tokens/s")
    return findings


def exact_rows(model: Path, length: int, count: int) -> list[str]:
    """Different texts of exactly this number of tokens, the two special ones included."""
    vocabulary = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    words = sorted(word for word in vocabulary if word.isalpha() and word.isascii())
    rng = random.Random(length)  # noqa: S311 - the same texts each time
    return [" ".join(rng.choices(words, k=length - 2)) for _ in range(count)]


def products_alone(trial: Trial, model: Path) -> float:
    """Tokens a second of the matrix products of a model's layers, with nothing between them."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    hidden, wide, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    kind: Any = {"dtype": getattr(torch, trial.dtype), "device": trial.device}
    tokens = trial.scaled(PRODUCT_TOKENS, 256)
    rows, wider = torch.randn(tokens, hidden, **kind), torch.randn(tokens, wide, **kind)
    pairs = [(rows, torch.randn(hidden, side, **kind)) for side in (3 * hidden, hidden, wide)]
    pairs.append((wider, torch.randn(wide, hidden, **kind)))
    rounds = trial.scaled(100, 1)
    for left, right in pairs:
        left @ right
    wait(trial)
    began = time.perf_counter()
    for _ in range(rounds):
        for left, right in pairs:
            left @ right
    wait(trial)
    return tokens * rounds / ((time.perf_counter() - began) * float(layers))


def wait(trial: Trial) -> None:
    """Wait until the card is idle."""
    if not trial.is_cpu:
        torch.cuda.synchronize(trial.device)
