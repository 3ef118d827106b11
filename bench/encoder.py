"""Claim: the encoder is faster on a CPU than ONNX Runtime, OpenVINO and sentence-transformers with the same numbers.

Rows of exactly 64 and 128 tokens of real pages, all-MiniLM-L6-v2, all cores. All sides take turns; what counts is the
ratio within a round. Loading and a warm-up are not timed. The table also has the distance of each side's vectors from
pullquote's in float32.

    .venv/bin/python bench/encoder.py --rounds 5
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from transformers import AutoTokenizer

# The modules in this directory are the package `bench`, for mypy and for the processes started from here too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import encoders, record
from bench.encoders import Rows, Vectors
from bench.machine_noise import CoreUse, Meter, quietness
from bench.options import add_model, add_no_record, claim_parser
from bench.record import spread
from pullquote._models.choice import EMBEDDED_NAME, model_directory

CLAIM = "encoder"
EXACT = "pullquote float32"

# Each of our dtypes with the rivals of the same width.
RIVALS = {
    EXACT: ["onnxruntime float32", "openvino float32", "fastembed float32", "sentence-transformers float32"],
    "pullquote bfloat16": ["openvino bfloat16"],
    "pullquote int8": ["onnxruntime int8", "onnxruntime float32"],
}


@dataclass(slots=True)
class Measured:
    """All runs over rows of one length: seconds and the cores' use in the order of the rounds, by side."""

    length: int
    rows: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    core_use: dict[str, list[CoreUse]] = field(default_factory=dict)
    cosines: dict[str, tuple[float, float]] = field(default_factory=dict)

    def ratios(self, ours: str, rival: str) -> list[float]:
        """For each round, how many times as fast as the rival ours is."""
        return [their / our for our, their in zip(self.seconds[ours], self.seconds[rival], strict=True)]

    def speeds(self, side: str) -> list[float]:
        """Tokens a second of a side, for each round."""
        return [self.rows * self.length / seconds for seconds in self.seconds[side]]


def main() -> None:
    """Measure, compare, print the table and keep the record."""
    parser = claim_parser(__doc__)
    add_model(parser)
    parser.add_argument("--tokens", type=int, default=40_960, help="in all rows of a length (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    add_no_record(parser)
    arguments = parser.parse_args()
    model = model_directory(arguments.model)
    circumstances = record.circumstances() | {
        "rounds": arguments.rounds,
        "model": EMBEDDED_NAME if arguments.model is None else model.name,
    }
    with tempfile.TemporaryDirectory() as directory:
        exported = encoders.export(model, Path(directory))
        results = [
            measure(model, exported, rows_of(length, arguments.tokens // length, model), arguments.rounds)
            for length in (64, 128)
        ]
    raw = circumstances | {"results": [asdict(result) for result in results]}
    table = markdown(circumstances, results)
    record.publish(CLAIM, raw, table, keeps=not arguments.no_record)


def rows_of(length: int, count: int, model: Path) -> Rows:
    """Cut texts of exactly this number of tokens out of the demo's pages, which are read repeatedly if they are too short."""
    tokenizer = AutoTokenizer.from_pretrained(str(model))
    pages = sorted((record.REPOSITORY / "demo" / "pages").glob("*.*"))
    texts = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)[
            "offset_mapping"
        ]
        inner = length - 2  # a special token on either side
        starts = range(0, len(offsets) - inner, inner)
        texts += [text[offsets[start][0] : offsets[start + inner - 1][1]] for start in starts]
    encoded = tokenizer(texts, verbose=False)["input_ids"]
    # A text that begins within a word may have other tokens when tokenized alone.
    fitting = [(text, ids) for text, ids in zip(texts, encoded, strict=True) if len(ids) == length]
    chosen = [fitting[number % len(fitting)] for number in range(count)]
    return Rows([text for text, _ in chosen], np.array([ids for _, ids in chosen], dtype=np.int64))


def measure(model: Path, exported: encoders.Exported, rows: Rows, rounds: int) -> Measured:
    """Load all sides, warm them up, alternate them, and compare their vectors."""
    count, length = rows.ids.shape
    result = Measured(length, count)
    context = multiprocessing.get_context("spawn")
    processes: dict[str, ProcessPoolExecutor] = {}
    vectors: dict[str, Vectors] = {}
    try:
        for name in encoders.sides():
            processes[name] = ProcessPoolExecutor(1, context, encoders.load, (name, model, exported))
            vectors[name] = processes[name].submit(encoders.run, rows).result().vectors
            result.seconds[name], result.core_use[name] = [], []
        for number in range(rounds):
            for name, process in processes.items():
                meter = Meter()
                run = process.submit(encoders.run, rows).result()
                use = meter.stop()
                vectors[name] = run.vectors
                result.seconds[name].append(run.seconds)
                result.core_use[name].append(use)
                print(f"{length} tokens, round {number + 1}: {name} {run.seconds:.2f} s{use.remark()}", file=sys.stderr)
    finally:
        for process in processes.values():
            process.shutdown()
    for name, found in vectors.items():
        cosines = (found * vectors[EXACT]).sum(axis=1)
        result.cosines[name] = (float(cosines.min()), float(cosines.mean()))
    return result


def markdown(around: dict[str, object], results: list[Measured]) -> str:
    """Write the record as Markdown."""
    every = encoders.sides()
    lines = [
        *record.long_heading(CLAIM, around),
        f"- {around['rounds']} rounds, the sides taking turns; speeds and ratios are medians",
        "- each turn begins with a tenth of the rows, untimed",
        "- cosines are with pullquote's vectors in float32: the least and the mean of all rows",
        "- the rivals get token ids in batches of 512 tokens of equally long rows; pullquote and sentence-transformers get texts",
    ]
    lines += [f"- {name}: {side.threads}" for name, side in every.items() if name.split()[1] == "float32"]
    for result in results:
        lines += ["", f"{result.rows} rows of {result.length} tokens:", ""]
        lines += ["| side | tokens/s (least to most) | least cosine | mean cosine |", "|---|---:|---:|---:|"]
        for name in every:
            least, mean = result.cosines[name]
            lines.append(f"| {name} | {spread(result.speeds(name), ',.0f')} | {least:.5f} | {mean:.5f} |")
        lines += ["", "| ours | rival | ratio (least to most) |", "|---|---|---:|"]
        for ours, rivals in RIVALS.items():
            lines += [f"| {ours} | {rival} | {spread(result.ratios(ours, rival), '.2f')} |" for rival in rivals]
        lines += ["", f"- {quietness(use for uses in result.core_use.values() for use in uses)}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
