"""Claim: a second look costs a fraction of what it costs elsewhere.

Scores 8, 32 and 128 candidates of one query with a reranker of the size of ms-marco-MiniLM-L6-v2, against sentence-transformers'
`CrossEncoder` and ONNX Runtime, and answers a query over ten pages with and without it. Weights are random: no published ones could
be had, and time does not depend on them. Candidates are windows of real pages, about 100 tokens each. Each side is a process of its
own, and the sides take turns. `CrossEncoder` and pullquote get texts; ONNX Runtime gets token ids, sorted by length, in batches of
at most 512 tokens, run by one thread for each core. Loading and a warm-up are not timed.

    .venv/bin/python bench/rerank.py
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

# The modules in this directory are the package `bench`, for mypy and for the processes started from here too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pullquote
from bench import record
from bench.goals import Goal
from bench.machine_noise import CoreUse, Meter, cores, quietness
from bench.options import add_no_record, claim_parser
from bench.record import spread
from pullquote._models.choice import embedded_model

CLAIM = "rerank"
PAGES = Path(__file__).parents[1] / "demo" / "pages"
QUERY = "How long does a battery of an electric car last in the cold?"
COUNTS = (8, 32, 128)
BATCH_TOKENS = 512
# The least ratio of each pair of sides, from the issue that asked for rerankers.
GOALS = {
    ("pullquote float32", "CrossEncoder float32"): 2,
    ("pullquote int8", "CrossEncoder float32"): 3,
    ("pullquote float32", "onnxruntime float32"): 1.1,
    ("pullquote int8", "onnxruntime int8"): 1.1,
}

Score = Callable[[list[str]], object]


def save_model(path: Path) -> None:
    """Save a classifier with one label and random weights."""
    import transformers  # noqa: PLC0415 - slow to import

    config = transformers.BertConfig(
        vocab_size=30522,
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
    )
    config.num_labels = 1
    transformers.BertForSequenceClassification(config).save_pretrained(path)
    transformers.AutoTokenizer.from_pretrained(embedded_model()).save_pretrained(path)


def export(model: Path) -> None:
    """Write the model as ONNX next to its weights, and a copy that ONNX Runtime quantizes dynamically."""
    import transformers  # noqa: PLC0415 - slow to import

    from bench import encoders  # noqa: PLC0415 - imports torch

    network = transformers.AutoModelForSequenceClassification.from_pretrained(model, attn_implementation="eager").eval()
    exported = encoders.Exported(model / "float32.onnx", model / "int8.onnx")
    encoders.export_graph(network, encoders.PAIR_INPUTS, exported.float32, "logits", {0: "rows"})
    encoders.quantize(exported)


def candidates() -> list[str]:
    """Windows of five sentences, none twice: a cached pair would cost nothing."""
    found: list[str] = []
    for page in sorted(PAGES.glob("*.en.*")):
        text = page.read_text("utf-8", errors="ignore")
        found += [text[start:end] for start, end in pullquote.parse_pieces(text, 5, 5)]
    return [text for text in dict.fromkeys(found) if 300 < len(text) < 700][: max(COUNTS)]


def load_cross_encoder(model: Path, _: str) -> Score:
    """Load it as users do."""
    import torch  # noqa: PLC0415 - only its side's process loads it
    from sentence_transformers import CrossEncoder  # noqa: PLC0415 - as above

    torch.set_num_threads(cores())
    encoder = CrossEncoder(str(model), device="cpu")
    return lambda texts: encoder.predict([(QUERY, text) for text in texts])


def load_onnxruntime(model: Path, dtype: str) -> Score:
    """One session, run by one thread for each core."""
    import onnxruntime  # noqa: PLC0415 - only its side's process loads it
    import transformers  # noqa: PLC0415 - as above

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model / f"{dtype}.onnx"), options, providers=["CPUExecutionProvider"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    pool = ThreadPoolExecutor(cores())
    batches: dict[int, list[dict[str, Any]]] = {}

    def prepare(texts: list[str]) -> list[dict[str, Any]]:
        pairs = sorted(texts, key=lambda text: len(tokenizer(QUERY, text)["input_ids"]))
        longest = len(tokenizer(QUERY, pairs[-1])["input_ids"])
        size = max(1, BATCH_TOKENS // longest)
        groups = [pairs[first : first + size] for first in range(0, len(pairs), size)]
        return [dict(tokenizer([QUERY] * len(group), group, padding=True, return_tensors="np")) for group in groups]

    def score(texts: list[str]) -> object:
        if len(texts) not in batches:
            batches[len(texts)] = prepare(texts)
        return np.concatenate(list(pool.map(lambda batch: session.run(None, batch)[0], batches[len(texts)])))

    return score


def load_pullquote(model: Path, dtype: str) -> Score:
    """A highlighter that keeps no scores."""
    highlighter = pullquote.Highlighter(devices="cpu", dtype=dtype, reranker=model, cache_bytes=0)
    return lambda texts: highlighter.rerank(QUERY, texts)


def load_pages(model: Path, dtype: str) -> Score:
    """Ten pages, answered with a reranker of the dtype, or without one."""
    second: dict[str, Any] = {} if dtype == "without" else {"reranker": model, "dtype": dtype}
    highlighter = pullquote.Highlighter(devices="cpu", cache_bytes=0, **second)
    files = sorted(PAGES.glob("*.en.*"))
    pages = [files[index % len(files)].read_text("utf-8", errors="ignore") + f"\n{index}" for index in range(10)]
    return lambda _: highlighter.highlights(QUERY, pages)


SIDES: dict[str, Callable[[Path, str], Score]] = {
    "CrossEncoder float32": load_cross_encoder,
    "onnxruntime float32": load_onnxruntime,
    "onnxruntime int8": load_onnxruntime,
    "pullquote float32": load_pullquote,
    "pullquote int8": load_pullquote,
}
# The same for ten pages. "without" is no dtype of a reranker.
PAGE_SIDES = {f"ten pages, {dtype}": load_pages for dtype in ("without", "float32", "int8")}

# The side of this process, if it was started for one.
_loaded: list[Score] = []


def load(name: str, model: Path) -> None:
    """Load a side into this process."""
    _loaded.append((SIDES | PAGE_SIDES)[name](model, name.rsplit(" ", 1)[1]))


def run(texts: list[str], warm_up: int) -> float:
    """Score the texts after an untimed pass over the first of them, and return seconds by the clock."""
    if warm_up:
        _loaded[0](texts[:warm_up])
    began = time.perf_counter()
    _loaded[0](texts)
    return time.perf_counter() - began


def measure(rounds: int) -> tuple[dict[str, dict[str, list[float]]], list[CoreUse]]:
    """Seconds of all rounds, by what is scored and side."""
    texts = candidates()
    kinds = {f"{count} candidates": (list(SIDES), texts[:count]) for count in COUNTS}
    kinds["ten pages"] = (list(PAGE_SIDES), texts[:8])
    uses = []
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder)
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, context) as writer:
            writer.submit(save_model, model).result()
            writer.submit(export, model).result()
        processes = {name: ProcessPoolExecutor(1, context, load, (name, model)) for name in SIDES | PAGE_SIDES}
        seconds: dict[str, dict[str, list[float]]] = {
            kind: {name: [] for name in sides} for kind, (sides, _) in kinds.items()
        }
        try:
            for name, process in processes.items():
                process.submit(run, kinds["ten pages"][1] if name in PAGE_SIDES else texts, 0).result()
            for _ in range(rounds):
                meter = Meter()
                for kind, (sides, part) in kinds.items():
                    for name in sides:
                        warm_up = 0 if name in PAGE_SIDES else 8
                        seconds[kind][name].append(processes[name].submit(run, part, warm_up).result())
                uses.append(meter.stop())
        finally:
            for process in processes.values():
                process.shutdown()
    return seconds, uses


def ratios(seconds: dict[str, list[float]], ours: str, theirs: str) -> list[float]:
    """For each round, how many times as fast our side is."""
    return [their / our for our, their in zip(seconds[ours], seconds[theirs], strict=True)]


def goals(seconds: dict[str, dict[str, list[float]]]) -> list[Goal]:
    """The least median ratio over the numbers of candidates, for each pair of sides."""
    return [
        Goal(
            f"{ours}: least times as fast as {theirs}",
            min(median(ratios(seconds[f"{count} candidates"], ours, theirs)) for count in COUNTS),
            least,
        )
        for (ours, theirs), least in GOALS.items()
    ]


def markdown(around: dict[str, object], seconds: dict[str, dict[str, list[float]]], uses: list[CoreUse]) -> str:
    """Write the record as Markdown."""
    kinds = [f"{count} candidates" for count in COUNTS]
    lines = [
        *record.long_heading(CLAIM, around),
        "- six layers of 384, one label, random weights; candidates of about 100 tokens",
        f"- {around['rounds']} rounds, the sides taking turns; milliseconds are medians, ratios are of times within a round",
        "- ONNX Runtime gets token ids, in batches of at most 512 tokens, sorted by length; the others get texts",
        "- int8 of ONNX Runtime is dynamic quantization",
        "",
        "| milliseconds | " + " | ".join(kinds) + " |",
        "|---|" + "---:|" * len(kinds),
    ]
    lines += [
        f"| {name} | " + " | ".join(f"{1000 * median(seconds[kind][name]):.0f}" for kind in kinds) + " |"
        for name in SIDES
    ]
    lines += ["", "| times as fast | " + " | ".join(kinds) + " |", "|---|" + "---:|" * len(kinds)]
    lines += [
        f"| {ours} over {theirs} | " + " | ".join(spread(ratios(seconds[kind], ours, theirs)) for kind in kinds) + " |"
        for ours, theirs in GOALS
    ]
    lines += ["", "| ten pages | ms |", "|---|---:|"]
    for name, values in seconds["ten pages"].items():
        lines.append(f"| reranker: {name.removeprefix('ten pages, ')} | {1000 * median(values):.0f} |")
    lines += ["", *(goal.line() for goal in goals(seconds)), f"- {quietness(uses)}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print the tables and keep the record."""
    parser = claim_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    add_no_record(parser)
    arguments = parser.parse_args()
    around = record.circumstances() | {"rounds": arguments.rounds}
    seconds, uses = measure(arguments.rounds)
    raw = around | {"seconds": seconds, "goals": [asdict(goal) for goal in goals(seconds)]}
    record.publish(CLAIM, raw, markdown(around, seconds, uses), keeps=not arguments.no_record)


if __name__ == "__main__":
    main()
