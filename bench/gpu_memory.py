"""Claim: requests of wildly different sizes leave a card's memory as it was: after 5,000 at most 1.05 times that after 500.

Requests of 1 to 1,024 texts of 4 to 512 tokens, one after the other and eight at once, through `Highlighter.embed` in float16.
After every hundred, the memory that torch's allocator reserves and allocates is read from its own counters, and the memory of
the process from the driver. For comparison the wrong way, on purpose: rayon's iterators around the encoder
(`rust/torch/examples/rayon_around.rs`), for which only the driver's number is known.

Without a card there is nothing to measure. `--device cpu` runs the same on a processor, with resident memory in the place
of a card's, to see that it works; nothing is kept then.

    .venv/bin/python bench/gpu_memory.py
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from bench import record
from bench.goals import Goal
from bench.options import add_model, add_no_record, claim_parser
from pullquote import Highlighter
from pullquote._models import model_directory

CLAIM = "gpu_memory"
BLOCK = 100
FIRST = 500
GOAL = 1.05
AT_ONCE = 8
MEBIBYTE = 1024 * 1024


def main() -> None:
    """Ask, compare, print the table and keep the record."""
    parser = claim_parser(__doc__)
    parser.add_argument("--requests", type=int, default=5_000)
    parser.add_argument("--device", default="cuda:0")
    add_model(parser)
    add_no_record(parser)
    arguments = parser.parse_args()
    is_card = arguments.device != "cpu"
    if is_card and not torch.cuda.is_available():
        print("skipped: no CUDA device here, so there is no card's memory to measure", file=sys.stderr)
        return
    model = model_directory(arguments.model)
    ours = right_way(model, arguments.device, arguments.requests)
    theirs = wrong_way(model, arguments.device, arguments.requests)
    circumstances = record.circumstances() | {"device": device_name(arguments.device)}
    raw = circumstances | {"block": BLOCK, "right": ours, "wrong": theirs}
    table = markdown(circumstances, ours, theirs)
    record.publish(CLAIM, raw, table, keeps=is_card and not arguments.no_record)
    if is_card and not arguments.no_record:
        plot(ours, theirs, record.directory() / f"{CLAIM}.png")


def device_name(device: str) -> str:
    """Name what is measured."""
    return "cpu, to try it" if device == "cpu" else str(torch.cuda.get_device_name(device))


def right_way(model: Path, device: str, requests: int) -> dict[str, list[float]]:
    """Send the requests to a highlighter; returns mebibytes after every block."""
    rng = random.Random(7)  # noqa: S311 - the same requests each time
    seen: dict[str, list[float]] = {"reserved": [], "allocated": [], "driver": []}
    dtype = "float32" if device == "cpu" else "float16"
    with (
        Highlighter(model, devices=[device], dtype=dtype, cache_bytes=0) as highlighter,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        for block in range(requests // BLOCK):
            made = [texts(rng) for _ in range(BLOCK)]
            if block % 2:
                list(pool.map(highlighter.embed, made))
            else:
                for each in made:
                    highlighter.embed(each)
            if device != "cpu":
                seen["reserved"].append(torch.cuda.memory_reserved(device) / MEBIBYTE)
                seen["allocated"].append(torch.cuda.memory_allocated(device) / MEBIBYTE)
            seen["driver"].append(process_memory(os.getpid(), device))
            print(f"{(block + 1) * BLOCK}: {[values[-1:] for values in seen.values()]}", file=sys.stderr)
    return seen


def texts(rng: random.Random) -> list[str]:
    """Invent a request: few texts or many, short ones or long ones."""
    most = rng.randint(4, 500)
    return ["moon " * rng.randint(2, most) for _ in range(rng.randint(1, 2 ** rng.randint(0, 10)))]


def wrong_way(model: Path, device: str, requests: int) -> dict[str, Any]:
    """Send the requests through rayon's iterators; returns mebibytes after every block, and the errors."""
    package = ["-p", "pullquote-torch", "--no-default-features", "--example", "rayon_around"]
    library = str(Path(torch.__file__).parent / "lib")
    environment = os.environ | {"LIBTORCH_USE_PYTORCH": "1", "LD_LIBRARY_PATH": library}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    subprocess.run(
        ["cargo", "build", "--release", "--quiet", *package], cwd=record.REPOSITORY, check=True, env=environment
    )
    binary = record.REPOSITORY / "target" / "release" / "examples" / "rayon_around"
    driver, failures = [], []
    with subprocess.Popen(
        [str(binary), str(model), device, str(requests)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(1, requests + 1):
            process.stdin.write("\n")
            process.stdin.flush()
            line = process.stdout.readline()
            while line.startswith("failed"):
                failures.append(line.strip())
                line = process.stdout.readline()
            assert line, "the wrong way ended before its requests did"
            if number % BLOCK == 0:
                driver.append(process_memory(process.pid, device))
    return {"driver": driver, "failures": failures}


def process_memory(process: int, device: str) -> float:
    """Mebibytes that a process has: of a card, by the driver, or of this machine."""
    if device == "cpu":
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0
    said = subprocess.run(
        ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    used = [line.split(",") for line in said.splitlines()]
    return sum(float(memory) for pid, memory in used if int(pid) == process)


def markdown(around: dict[str, object], ours: dict[str, list[float]], theirs: dict[str, Any]) -> str:
    """Write the record as Markdown."""
    lines = [
        *record.long_heading(CLAIM, around),
        "",
        f"| MiB | after {FIRST} requests | after the last | times | most |",
        "|---|---:|---:|---:|---:|",
    ]
    rows = {f"ours, {name}": values for name, values in ours.items()} | {"rayon around it, driver": theirs["driver"]}
    for name, values in rows.items():
        if values:
            first = values[min(FIRST // BLOCK, len(values)) - 1]
            lines.append(f"| {name} | {first:.0f} | {values[-1]:.0f} | {values[-1] / first:.3f} | {max(values):.0f} |")
    lines.append("")
    if reserved := ours["reserved"]:
        ratio = reserved[-1] / reserved[min(FIRST // BLOCK, len(reserved)) - 1]
        lines.append(Goal(f"reserved at the end, to that after {FIRST}", ratio, most=GOAL, form=".3f").line())
    lines.append(f"- of the wrong way {len(theirs['failures'])} requests failed: {theirs['failures'][:1]}")
    return "\n".join(lines) + "\n"


def plot(ours: dict[str, list[float]], theirs: dict[str, Any], file: Path) -> None:
    """Draw memory over requests."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - only `make gpu-bench` installs it

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, values in [*((f"ours, {name}", values) for name, values in ours.items()), ("rayon", theirs["driver"])]:
        axes.plot([BLOCK * (place + 1) for place in range(len(values))], values, label=name)
    axes.set(xlabel="requests", ylabel="MiB", ylim=(0, None))
    axes.legend()
    figure.savefig(file, metadata={"Date": None})


if __name__ == "__main__":
    main()
