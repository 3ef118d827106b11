"""Claim: every family of models is faster on a CPU than ONNX Runtime with the same weights.

For each family, a model as wide as a popular one with four layers and random weights, exported by torch. Rows of exactly 64
and 128 tokens of real pages. All sides take turns in short slices, so that other programs on the machine disturb them
alike; what counts is the ratio of processor times within a round. Loading and a warm-up are not timed. The vectors of both
sides in float32 are compared.

    .venv/bin/python bench/families.py
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers

# The modules in this directory are the package `bench`, for mypy and for the processes started from here too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import encoders, record
from bench.encoder import rows_of
from bench.encoders import Rows
from bench.goals import Goal
from bench.machine_noise import CoreUse, Meter, quietness
from bench.options import add_no_record, claim_parser
from bench.record import spread
from bench.small_model import write_network

CLAIM = "families"
GOAL = 1.1
DTYPES = ["float32", "int8"]
LENGTHS = [64, 128]

_BASE = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}

# The class in transformers, the model that has these sizes, and the sizes.
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": (
        "Bert",
        "bge-small-en-v1.5",
        {"hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536},
    ),
    "xlm-roberta": ("XLMRoberta", "multilingual-e5-base", _BASE | {"max_position_embeddings": 514}),
    "mpnet": ("MPNet", "all-mpnet-base-v2", _BASE | {"max_position_embeddings": 514}),
    "distilbert": ("DistilBert", "multi-qa-distilbert", {"dim": 768, "n_heads": 12, "hidden_dim": 3072}),
    "nomic_bert": ("NomicBert", "nomic-embed-text-v1.5", _BASE | {"max_position_embeddings": 8192}),
    "modernbert": (
        "ModernBert",
        "modernbert-embed-base",
        _BASE
        | {"intermediate_size": 1152, "max_position_embeddings": 8192}
        | {"pad_token_id": 0, "bos_token_id": 101, "eos_token_id": 102, "cls_token_id": 101, "sep_token_id": 102},
    ),
    "gte": ("Gte", "gte-base-en-v1.5", _BASE | {"max_position_embeddings": 8192}),
    "qwen3": (
        "Qwen3",
        "Qwen3-Embedding-0.6B",
        {"hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128}
        | {"intermediate_size": 3072, "max_position_embeddings": 32768, "pad_token_id": None},
    ),
}
LAYERS = 4
ABSENT = "no jina-bert-v2, which transformers lacks, and no gemma3_text, whose export fails in torch 2.11"


@dataclass(slots=True)
class Measured:
    """All rounds of a family with rows of one length: processor seconds in the order of the rounds, by side."""

    family: str
    length: int
    rows: int = 0
    seconds: dict[str, list[float]] = field(default_factory=dict)
    core_use: list[CoreUse] = field(default_factory=list)
    # The largest difference of a value of unit vectors, between both sides in float32.
    difference: float = 0.0

    def ratios(self, dtype: str) -> list[float]:
        """For each round, how many times as fast as ONNX Runtime pullquote is."""
        ours, theirs = (self.seconds[f"{name} {dtype}"] for name in ("pullquote", "onnxruntime"))
        return [their / our for our, their in zip(ours, theirs, strict=True)]

    def speeds(self, side: str) -> list[float]:
        """Tokens for each second of a core, for each round."""
        return [self.rows * self.length / seconds for seconds in self.seconds[side]]


def main() -> None:
    """Measure every family, print the table and keep the record."""
    parser = claim_parser(__doc__)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--tokens", type=int, default=2048, help="in all rows of a length (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    add_no_record(parser)
    arguments = parser.parse_args()
    circumstances = record.circumstances() | {"rounds": arguments.rounds, "layers": LAYERS}
    results = []
    for name in arguments.families:
        results += measure(name, arguments.rounds, arguments.tokens)
        print("\n".join(line(result) for result in results[-len(LENGTHS) :]), file=sys.stderr)
    table = markdown(circumstances, results)
    raw = circumstances | {"results": [asdict(result) for result in results]}
    raw["goals"] = [asdict(goal) for goal in goals(results)]
    record.publish(CLAIM, raw, table, keeps=not arguments.no_record)


def measure(family: str, rounds: int, tokens: int) -> list[Measured]:
    """Write and export a family's model, load all sides, warm them up, and alternate them."""
    sides = [f"{name} {dtype}" for dtype in DTYPES for name in ("pullquote", "onnxruntime")]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        model, graphs = Path(folder) / "model", Path(folder) / "graphs"
        model.mkdir()
        graphs.mkdir()
        write_family(family, model)
        exported = encoders.export(model, graphs)
        context = multiprocessing.get_context("spawn")
        processes = {name: ProcessPoolExecutor(1, context, encoders.load, (name, model, exported)) for name in sides}
        try:
            for length in LENGTHS:
                results.append(
                    take_turns(Measured(family, length), rows_of(length, tokens // length, model), processes, rounds)
                )
        finally:
            for process in processes.values():
                process.shutdown()
    return results


def take_turns(result: Measured, rows: Rows, processes: dict[str, ProcessPoolExecutor], rounds: int) -> Measured:
    """Let each side encode the same rows once in each round."""
    result.rows = len(rows.texts)
    warm = {name: process.submit(encoders.run, rows) for name, process in processes.items()}
    ours, theirs = (warm[f"{name} float32"].result().vectors for name in ("pullquote", "onnxruntime"))
    result.difference = float(abs(ours - theirs).max())
    for future in warm.values():
        future.result()
    result.seconds = {name: [] for name in processes}
    for _ in range(rounds):
        meter = Meter()
        for name, process in processes.items():
            result.seconds[name].append(process.submit(encoders.run, rows).result().processor_seconds)
        result.core_use.append(meter.stop())
    return result


def line(result: Measured) -> str:
    """Write a row of the table."""
    cells = [result.family, FAMILIES[result.family][1], f"{result.length}"]
    for dtype in DTYPES:
        cells += [f"{median(result.speeds(f'pullquote {dtype}')):,.0f}", spread(result.ratios(dtype))]
    return f"| {' | '.join(cells)} | {result.difference:.0e} |"


def markdown(around: dict[str, object], results: list[Measured]) -> str:
    """Write the record as Markdown."""
    lines = [
        *record.long_heading(CLAIM, around),
        f"- {LAYERS} layers of the named model's width, random weights, mean pooling; {ABSENT}",
        f"- {around['rounds']} rounds of {results[0].rows * results[0].length} tokens, the sides taking turns",
        "- speeds are medians of tokens a second of processor time; ratios are of processor times within a round",
        "- difference: the largest of a value of vectors of unit length, between both sides in float32",
        "- ONNX Runtime gets token ids in batches of 512 tokens of equally long rows, pullquote gets texts",
        "- int8 of ONNX Runtime is dynamic quantization",
        "",
        "| family | as wide as | tokens in a row | float32 | ratio | int8 | ratio | difference |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
        *(line(result) for result in results),
        "",
    ]
    lines += [goal.line() for goal in goals(results)]
    lines.append(f"- {quietness(use for result in results for use in result.core_use)}")
    return "\n".join(lines) + "\n"


def goals(results: list[Measured]) -> list[Goal]:
    """A goal for each dtype, for the family and length with the least ratio."""
    return [
        Goal(
            f"{dtype}: least times as fast as ONNX Runtime",
            min(median(result.ratios(dtype)) for result in results),
            GOAL,
        )
        for dtype in DTYPES
    ]


def write_family(name: str, directory: Path, longest: int = 512) -> Path:
    """Write a family's model into a directory, for rows of at most `longest` tokens, and return the directory."""
    class_name, _, sizes = FAMILIES[name]
    depth = "n_layers" if class_name == "DistilBert" else "num_hidden_layers"
    config = getattr(transformers, f"{class_name}Config")(**sizes, vocab_size=30_522, **{depth: LAYERS})
    torch.manual_seed(1)
    network = getattr(transformers, f"{class_name}Model")(config)
    return write_network(directory, network, config.hidden_size, longest)


if __name__ == "__main__":
    main()
