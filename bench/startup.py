"""Claim: a new process has its first answer within half a second, from a small installation.

Each side has its own new virtual environment: pullquote with its model and numpy; fastembed; ONNX Runtime with
tokenizers and numpy; sentence-transformers. The time is that of a whole process, from its start to its end: it imports, loads the
model, and finds the passage of a page of 20,000 characters that answers a question. The rivals embed the windows that pullquote
cuts; they receive the spans, and their model's files. All sides alternate, after one untimed process of each.
Resident memory is a process's maximum.

    .venv/bin/python bench/startup.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pullquote
from bench import record
from bench.goals import Goal
from bench.machine_noise import CoreUse, Meter, quietness
from bench.options import claim_parser
from bench.record import spread
from bench.texts import QUERY, different_pages
from pullquote._models.choice import model_directory

CLAIM = "startup"
CHARACTERS = 20_000
MEGABYTE = 1_000_000
WHEELS = record.REPOSITORY / ".make"
OURS, COMMAND = "pullquote", "pullquote highlight"

# Measures the stages of a process. Nothing is cached, so the second answer repeats the work of the first.
STAGES = ["import numpy", "import pullquote", "load the model", "first answer", "second answer"]
PULLQUOTE = """
import json, sys, time
times = [time.perf_counter()]
import numpy
times.append(time.perf_counter())
import pullquote
times.append(time.perf_counter())
task = json.load(open(sys.argv[1], encoding="utf-8"))
highlighter = pullquote.Highlighter(cache_bytes=0)
times.append(time.perf_counter())
for _ in range(2 if "stages" in sys.argv else 1):
    found = highlighter.highlights(task["query"], [task["page"]])[0][0].start
    times.append(time.perf_counter())
highlighter.close()
print(json.dumps([end - began for began, end in zip(times, times[1:])]))
"""
CHOOSE = """
vectors = numpy.stack(embed([task["query"], *(task["page"][start:end] for start, end in task["windows"])]))
print(task["windows"][int((vectors[1:] @ vectors[0]).argmax())][0])
"""
FASTEMBED = (
    """
import json, os, sys, numpy
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
task = json.load(open(sys.argv[1], encoding="utf-8"))
TextEmbedding.add_custom_model(model="own/model", pooling=PoolingType.MEAN, normalization=True,
    sources=ModelSource(url="file:///nowhere"), dim=384, model_file="model.onnx")
model = TextEmbedding("own/model", specific_model_path=task["folder"])
embed = lambda texts: list(model.embed(texts))
"""
    + CHOOSE
)
ONNXRUNTIME = (
    """
import json, os, sys, numpy, onnxruntime
from tokenizers import Tokenizer
task = json.load(open(sys.argv[1], encoding="utf-8"))
tokenizer = Tokenizer.from_file(task["folder"] + "/tokenizer.json")
tokenizer.enable_truncation(256)
tokenizer.enable_padding()
session = onnxruntime.InferenceSession(task["folder"] + "/model.onnx", providers=["CPUExecutionProvider"])
def embed(texts):
    vectors = []
    for first in range(0, len(texts), 16):
        rows = tokenizer.encode_batch_fast(texts[first : first + 16])
        ids, mask = (numpy.array([getattr(row, name) for row in rows]) for name in ("ids", "attention_mask"))
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}
        tokens = session.run(None, inputs)[0] * mask[:, :, None]
        pooled = tokens.sum(1)
        vectors.extend(pooled / numpy.linalg.norm(pooled, axis=1, keepdims=True))
    return vectors
"""
    + CHOOSE
)
SENTENCE_TRANSFORMERS = (
    """
import json, sys, numpy
from sentence_transformers import SentenceTransformer
task = json.load(open(sys.argv[1], encoding="utf-8"))
model = SentenceTransformer(task["folder"], device="cpu", model_kwargs={"dtype": "float32"})
embed = lambda texts: list(model.encode(texts, normalize_embeddings=True, show_progress_bar=False))
"""
    + CHOOSE
)


@dataclass(frozen=True, slots=True)
class Side:
    """The packages to install, and the program; without one, the command line."""

    packages: list[str]
    program: str | None


def sides() -> dict[str, Side]:
    """All sides, by name; the command line shares the environment of the library."""
    own = [str(wheel) for name in ("pullquote", "minilm") for wheel in (WHEELS / f"wheels-{name}").glob("*.whl")]
    return {
        OURS: Side(own, PULLQUOTE),
        COMMAND: Side(own, None),
        "onnxruntime": Side(["onnxruntime", "tokenizers", "numpy"], ONNXRUNTIME),
        "fastembed": Side(["fastembed"], FASTEMBED),
        "sentence-transformers": Side(["sentence-transformers", "torch==2.11.0"], SENTENCE_TRANSFORMERS),
    }


@dataclass(slots=True)
class Measured:
    """For each side, seconds and bytes of memory in the order of the rounds, and bytes on disk; and our stages' seconds."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in sides()})
    resident: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in sides()})
    installed: dict[str, int] = field(default_factory=dict)
    stages: list[list[float]] = field(default_factory=list)
    core_use: list[CoreUse] = field(default_factory=list)

    def goals(self) -> list[Goal]:
        """Compare with the goals."""
        first, second = (median(stages[place] for stages in self.stages) for place in (3, 4))
        importing = median(sum(stages[:4]) for stages in self.stages)
        return [
            Goal("seconds to import, load and answer", importing, most=0.5),
            Goal("seconds of a whole command", median(self.seconds[COMMAND]), most=0.6),
            Goal("resident megabytes after it", median(self.resident[OURS]) / MEGABYTE, most=250, form=".0f"),
            Goal("installed megabytes", self.installed[OURS] / MEGABYTE, most=150, form=".0f"),
            Goal("first answer to second", first / second, most=1.1),
        ]


class Stage:
    """The environments and the task, in a folder."""

    def __init__(self, folder: Path) -> None:
        """Install everything, and write the task down."""
        self.folder, self.task = folder, folder / "task.json"
        [page] = different_pages(1, CHARACTERS)
        model = folder / "model"
        subprocess.run(["cp", "-r", str(model_directory(None)), str(model)], check=True)
        # In a separate process: until a child starts its program, its memory counts as large as its parent's.
        export = "import sys, pathlib, bench.encoders as e; e.export_tokens(*map(pathlib.Path, sys.argv[1:]))"
        command = [sys.executable, "-c", export, str(model), str(model / "model.onnx")]
        subprocess.run(command, check=True, cwd=record.REPOSITORY)
        windows = pullquote.parse_pieces(page).tolist()
        task = {"query": QUERY, "page": page, "windows": windows, "folder": str(model)}
        self.task.write_text(json.dumps(task), encoding="utf-8")
        (folder / "page.txt").write_text(page, encoding="utf-8")
        for name, side in sides().items():
            if name == COMMAND:
                continue
            uv = str(Path(sys.executable).with_name("uv"))
            subprocess.run([uv, "--quiet", "venv", "--python", sys.executable, str(folder / name)], check=True)
            python = str(folder / name / "bin" / "python")
            subprocess.run([uv, "--quiet", "pip", "install", "--python", python, *side.packages], check=True)

    def command(self, name: str) -> list[str]:
        """The command that starts a process of a side."""
        program = sides()[name].program
        if program is None:
            return [
                str(self.folder / OURS / "bin" / "pullquote"),
                "highlight",
                "--exit-zero",
                "-q",
                QUERY,
                str(self.folder / "page.txt"),
            ]
        return [str(self.folder / name / "bin" / "python"), "-c", program, str(self.task)]

    def run(self, name: str) -> tuple[float, int]:
        """Seconds and bytes of resident memory of one process."""
        began = time.perf_counter()
        process = subprocess.Popen(self.command(name), stdout=subprocess.DEVNULL, env=ENVIRONMENT)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            message = f"{name} ended with {process.returncode}"
            raise RuntimeError(message)
        return seconds, usage.ru_maxrss * 1024

    def stages(self) -> list[float]:
        """Seconds of each stage of one of our processes."""
        done = subprocess.run(
            [*self.command(OURS), "stages"], stdout=subprocess.PIPE, text=True, check=True, env=ENVIRONMENT
        )
        return [float(seconds) for seconds in json.loads(done.stdout)]

    def installed(self, name: str) -> int:
        """Bytes of the packages of a side's environment, without what Python compiles of them."""
        [site] = (self.folder / name / "lib").glob("python*/site-packages")
        files = (path for path in site.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return sum(path.stat().st_size for path in files)


# Hides the environment of this process, and disables the hub.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
ENVIRONMENT["HF_HUB_OFFLINE"] = "1"


def main() -> None:
    """Measure, print the table and keep the record."""
    parser = claim_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two rounds, and nothing is kept")
    arguments = parser.parse_args()
    rounds = 2 if arguments.quick else arguments.rounds
    around = record.circumstances() | {"rounds": rounds}
    result = Measured()
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        result.installed = {name: stage.installed(name) for name in sides() if name != COMMAND}
        for name in sides():
            stage.run(name)  # so that all files are in the system's cache
        for number in range(rounds):
            meter = Meter()
            for name in sides():
                seconds, resident = stage.run(name)
                result.seconds[name].append(seconds)
                result.resident[name].append(resident)
            result.stages.append(stage.stages())
            result.core_use.append(meter.stop())
            print(f"round {number + 1} of {rounds}{result.core_use[-1].remark()}", file=sys.stderr)
    raw = around | asdict(result) | {"goals": [asdict(goal) | {"met": goal.is_met} for goal in result.goals()]}
    record.publish(CLAIM, raw, markdown(around, result), keeps=not arguments.quick)


def markdown(around: dict[str, object], result: Measured) -> str:
    """Write the record as Markdown."""
    lines = [
        *record.heading(CLAIM, around),
        f"{around['rounds']} rounds; medians (least to most)",
        "",
        "| a process, from its start to its end | seconds | resident MB | installed MB |",
        "|---|---:|---:|---:|",
    ]
    for name in sides():
        resident = spread([one / MEGABYTE for one in result.resident[name]], ".0f")
        installed = f"{result.installed[name] / MEGABYTE:,.0f}" if name in result.installed else ""
        lines.append(f"| {name} | {spread(result.seconds[name])} | {resident} | {installed} |")
    lines += ["", "| of pullquote's | milliseconds |", "|---|---:|"]
    for name, times in zip(STAGES, zip(*result.stages, strict=True), strict=True):
        lines.append(f"| {name} | {spread([1000 * seconds for seconds in times], '.0f')} |")
    lines += ["", *(goal.line() for goal in result.goals()), f"- {quietness(result.core_use)}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
