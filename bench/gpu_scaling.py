"""Claim: one thread feeds more devices than a machine has: what it costs for each batch, and how many it could feed.

1 to 8 devices that compute nothing and say after a fixed time that a batch is done (`rust/core/examples/issuing.rs`): all of
the engine's own work is real, and the device costs nothing. What a batch costs the thread that owns the devices is its
processor time, by Linux's count; a second divided by it is the number of batches it could issue, and that times a device's
time for a batch the number of devices. What a real card adds is the queueing of its kernels by torch: the stage `queueing` of
`bench/gpu.py` measures it.
Also measured: passages, of devices that send vectors back and of those that send scores, in turns.

    .venv/bin/python bench/gpu_scaling.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record
from bench.goals import Goal
from bench.machine_noise import Meter, quietness
from bench.options import add_model, add_no_record, claim_parser
from bench.record import spread
from pullquote._models.choice import model_directory

CLAIM = "gpu_scaling"
DEVICES = (1, 2, 4, 8)
# A card's batch of 16,384 tokens through a model of this size (MiniLM) and through one of 110 million weights, in
# milliseconds: what would be fast for today's cards.
BATCH_MILLISECONDS = (5, 25)
SLEEPING_MILLISECONDS = 200
# Few enough that two cores cut and tokenize what they take.
DEVICES_FOR_PASSAGES = 4


@dataclass(frozen=True, slots=True)
class Sleeping:
    """A run over devices that compute nothing."""

    devices: int
    batches: int
    rate: float
    ideal: float
    idle_share: float
    microseconds: float


def main() -> None:
    """Measure, print the table and keep the record."""
    parser = claim_parser(__doc__)
    add_model(parser)
    add_no_record(parser)
    parser.add_argument("--seconds", type=float, default=8.0, help="of a run (default: 8)")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    model = model_directory(arguments.model)
    binary = build()
    runs: dict[int, list[Sleeping]] = {devices: [] for devices in DEVICES}
    uses = []
    passages: dict[str, list[Sleeping]] = {"passages": [], "scores": []}
    for _ in range(arguments.rounds):
        for wanted, found in passages.items():
            found.append(asleep(binary, model, DEVICES_FOR_PASSAGES, arguments.seconds, wanted))
            print(wanted, found[-1], file=sys.stderr)
        for devices in DEVICES:
            meter = Meter()
            runs[devices].append(asleep(binary, model, devices, arguments.seconds))
            uses.append(meter.stop())
            print(runs[devices][-1], file=sys.stderr)
    raw = record.circumstances() | {
        "milliseconds": SLEEPING_MILLISECONDS,
        "sleeping": {devices: [asdict(run) for run in of] for devices, of in runs.items()},
        "passages": {wanted: [asdict(run) for run in of] for wanted, of in passages.items()},
    }
    record.publish(CLAIM, raw, markdown(runs, passages, quietness(uses)), keeps=not arguments.no_record)


def build() -> Path:
    """Build the devices that compute nothing."""
    subprocess.run(
        ["cargo", "build", "--release", "--quiet", "-p", "pullquote-core", "--example", "issuing"],
        cwd=record.REPOSITORY,
        check=True,
    )
    return record.REPOSITORY / "target" / "release" / "examples" / "issuing"


def asleep(binary: Path, model: Path, devices: int, seconds: float, wanted: str = "vectors") -> Sleeping:
    """Run this number of devices for this time."""
    command = [str(binary), str(model), str(devices), str(SLEEPING_MILLISECONDS), str(seconds), wanted]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout)
    return Sleeping(
        devices,
        said["batches"],
        said["batches"] / said["seconds"],
        devices * 1000 / SLEEPING_MILLISECONDS,
        said["idle_nanoseconds"] / 1e9 / said["seconds"] / devices,
        said["scheduler_nanoseconds"] / 1000 / said["batches"],
    )


def markdown(
    runs: dict[int, list[Sleeping]],
    passages: dict[str, list[Sleeping]],
    quiet: str,
) -> str:
    """Write the record as Markdown."""
    lines = [
        *record.heading(CLAIM, record.circumstances()),
        f"Devices that take {SLEEPING_MILLISECONDS} ms for a batch of 256 rows of 64 tokens and 384 values; two batches each.",
        "",
        "| devices | batches/s | of what they could do | a device without work | µs of the thread for a batch |",
        "|---:|---:|---:|---:|---:|",
    ]
    for devices, of in runs.items():
        share = spread([run.rate / run.ideal for run in of], ".3f")
        idle = spread([run.idle_share for run in of], ".1%")
        cost = spread([run.microseconds for run in of], ".0f")
        lines.append(f"| {devices} | {median(run.rate for run in of):.1f} | {share} | {idle} | {cost} |")
    most = runs[DEVICES[-1]]
    microseconds = median(run.microseconds for run in most)
    lines += ["", "The devices it could feed, by what a batch takes a device, kernels' queueing not counted:", ""]
    lines += [f"- {milliseconds} ms: {milliseconds * 1000 / microseconds:.0f}" for milliseconds in BATCH_MILLISECONDS]
    reached = median(run.rate / run.ideal for run in most)
    lines += ["", Goal("8 devices, share of what they could do", reached, least=0.97, form=".3f").line()]
    lines += [
        "",
        f"Passages, {DEVICES_FOR_PASSAGES} devices:",
        "",
        "| devices send | batches/s | µs of the thread for a batch |",
        "|---|---:|---:|",
    ]
    for name, of in zip(("vectors", "scores"), passages.values(), strict=True):
        cost = spread([run.microseconds for run in of], ".0f")
        lines.append(f"| {name} | {median(run.rate for run in of):.1f} | {cost} |")
    return "\n".join([*lines, "", f"- {quiet}"]) + "\n"


if __name__ == "__main__":
    main()
