"""Claim: memory grows with the length of a row, and not with its square.

Rows of 128 to 8,192 tokens, one at a time on one core, by models of 8,192 positions: as wide as nomic-embed-text and
modernbert-embed-base, with four layers and random weights. Every row is encoded in a process of its own, after a short one.
Memory is the most that the row adds to the process's memory. ONNX Runtime has the same weights; it gets rows of up to 4,096
tokens, since longer ones need more memory than a small machine has.

    .venv/bin/python bench/long_rows.py
"""

from __future__ import annotations

import multiprocessing
import re
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

# The modules in this directory are the package `bench`, for mypy and for the processes started from here too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record
from bench.goals import Goal
from bench.options import add_no_record, claim_parser
from bench.record import spread

CLAIM = "long_rows"
FAMILIES = ["nomic_bert", "modernbert"]
LENGTHS = [128, 512, 1024, 2048, 4096, 8192]
LONGEST_OF_RIVAL = 4096
SIDES = ["pullquote float32", "onnxruntime float32", "pullquote bfloat16", "pullquote int8"]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a row of one length for a side, in the order of the rounds."""

    family: str
    side: str
    length: int
    processor_seconds: list[float]
    # The most that the row added to the process's memory.
    bytes: list[int]

    @property
    def microseconds(self) -> list[float]:
        """Processor time of a token."""
        return [seconds / self.length * 1e6 for seconds in self.processor_seconds]

    @property
    def memory(self) -> float:
        """Megabytes."""
        return median(self.bytes) / 1e6


def main() -> None:
    """Measure all lengths, print the table and keep the record."""
    parser = claim_parser(__doc__)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--rounds", type=int, default=1)
    add_no_record(parser)
    arguments = parser.parse_args()
    circumstances = record.circumstances() | {"rounds": arguments.rounds}
    costs = []
    for family in arguments.families:
        with tempfile.TemporaryDirectory() as folder:
            model, graph = write(family, Path(folder), exports=any("onnx" in side for side in arguments.sides))
            for length in arguments.lengths:
                sides = [side for side in arguments.sides if "onnx" not in side or length <= LONGEST_OF_RIVAL]
                runs: dict[str, list[tuple[float, int]]] = {side: [] for side in sides}
                for _ in range(arguments.rounds):
                    for side in sides:
                        runs[side].append(in_process(side, model, graph, length))
                for side, found in runs.items():
                    costs.append(Cost(family, side, length, [one[0] for one in found], [one[1] for one in found]))
                    print(line(costs[-1]), file=sys.stderr)
    raw = circumstances | {"costs": [asdict(cost) for cost in costs]}
    record.publish(CLAIM, raw, markdown(circumstances, costs), keeps=not arguments.no_record)


def write(family: str, folder: Path, *, exports: bool) -> tuple[Path, Path]:
    """Write a family's model and its graph."""
    # Imported here, not in the processes that are measured.
    from bench.encoders import export_float32  # noqa: PLC0415
    from bench.families import write_family  # noqa: PLC0415

    model, graph = folder / "model", folder / "graph.onnx"
    model.mkdir()
    write_family(family, model, longest=max(LENGTHS))
    if exports:
        export_float32(model, graph)
    return model, graph


def in_process(side: str, model: Path, graph: Path, length: int) -> tuple[float, int]:
    """Measure one row in a new process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, side, model, graph, length).result()


def measure(side: str, model: Path, graph: Path, length: int) -> tuple[float, int]:
    """Encode a row of this many tokens: processor seconds, and the bytes that it added at most."""
    name, dtype = side.split()
    encode = load_pullquote(model, dtype) if name == "pullquote" else load_onnxruntime(graph)
    encode(16)
    # Resets the peak to the current memory.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    held = status("VmRSS")
    start = time.process_time()
    encode(length)
    return time.process_time() - start, status("VmHWM") - held


def load_pullquote(model: Path, dtype: str) -> Callable[[int], object]:
    """Return a function that encodes a row of a number of tokens."""
    from pullquote import Highlighter  # noqa: PLC0415 - only its side's process loads it

    highlighter = Highlighter(model, devices="cpu", dtype=dtype, threads=1)
    # Each word is a token, and there are two special ones.
    return lambda length: highlighter.embed([" ".join(["water", "light"] * ((length - 2) // 2))])


def load_onnxruntime(graph: Path) -> Callable[[int], object]:
    """Return the same for the exported graph."""
    import numpy as np  # noqa: PLC0415 - as above
    import onnxruntime  # noqa: PLC0415 - as above

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])

    def encode(length: int) -> object:
        ids = np.full((1, length), 2300, np.int64)
        return session.run(None, {"ids": ids, "mask": np.ones_like(ids)})

    return encode


def status(field: str) -> int:
    """Read a size of this process, in bytes."""
    found = re.search(rf"^{field}:\s*(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def line(cost: Cost) -> str:
    """Write a row of the table."""
    return (
        f"| {cost.family} | {cost.side} | {cost.length:,} | {spread(cost.microseconds, ',.0f')} | {cost.memory:,.0f} |"
    )


def markdown(around: dict[str, object], costs: list[Cost]) -> str:
    """Write the record as Markdown."""
    lines = [
        *record.long_heading(CLAIM, around),
        f"- {around['rounds']} rounds, the sides taking turns, one core; the machine was shared, so times are processor times",
        "- four layers, random weights; ONNX Runtime's graph is torch's plain one",
        "",
        "| family | side | tokens | µs a token (least to most) | MB of the row |",
        "|---|---|---:|---:|---:|",
        *(line(cost) for cost in costs),
        "",
    ]
    known = {(cost.family, cost.side, cost.length): cost.memory for cost in costs}
    for family, side in dict.fromkeys((cost.family, cost.side) for cost in costs):
        long, short = known.get((family, side, 8192)), known.get((family, side, 2048))
        if side.startswith("pullquote") and long and short:
            what = f"{family}, {side}: memory of 8,192 tokens, over four times that of 2,048"
            lines.append(Goal(what, long / short / 4, most=1.1).line())
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
