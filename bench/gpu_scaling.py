"""Claim: one thread feeds more devices than a machine has: what it costs for each batch, and how many it could feed.

1 to 8 devices that compute nothing and say after a fixed time that a batch is done (`rust/core/examples/issuing.rs`): all of
the engine's own work is real, and the device costs nothing. What a batch costs the thread that owns the devices is its
processor time, by Linux's count; a second divided by it is the number of batches it could issue, and that times a device's
time for a batch the number of devices. What a real card adds is the queueing of its kernels by torch on the same thread.
Beside it: passages, of devices that send vectors back and of those that send scores, in turns.

With a graphics card the same is asked of it as 1, 2 and 4 devices: how long `submit` took on that thread, kernels
included, and whether the rate stays what it is.

    .venv/bin/python bench/gpu_scaling.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pullquote
from bench import record
from bench.goals import Goal
from bench.machine_noise import Meter, quietness
from bench.options import add_model, add_no_record, claim_parser
from bench.record import spread
from bench.texts import prose
from pullquote._models import model_directory

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
    cards = on_cards(arguments.seconds)
    raw = record.circumstances() | {
        "milliseconds": SLEEPING_MILLISECONDS,
        "sleeping": {devices: [asdict(run) for run in of] for devices, of in runs.items()},
        "passages": {wanted: [asdict(run) for run in of] for wanted, of in passages.items()},
        "cards": cards,
    }
    record.publish(CLAIM, raw, markdown(runs, passages, cards, quietness(uses)), keeps=not arguments.no_record)


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


def on_cards(seconds: float) -> dict[str, dict[str, float]]:
    """Measure a graphics card as 1, 2 and 4 devices; empty without a card."""
    import torch  # noqa: PLC0415 - takes seconds, and the rest needs it not

    if not torch.cuda.is_available():
        return {}
    texts = [prose(200_000)[start : start + 300] for start in range(0, 199_000, 97)]
    found = {}
    for devices in (1, 2, 4):
        with pullquote.Highlighter(devices=["cuda:0"] * devices, dtype="float16", cache_bytes=0) as highlighter:
            highlighter.embed(texts)
            before, began = highlighter.stages, time.perf_counter()
            while time.perf_counter() - began < seconds:
                highlighter.embed(texts)
            elapsed, after = time.perf_counter() - began, highlighter.stages
            batches = after["copy_in"].count - before["copy_in"].count
            issue = (after["copy_in"].seconds - before["copy_in"].seconds) / batches
            found[str(devices)] = {
                "batches_per_second": batches / elapsed,
                "issue_microseconds": issue * 1e6,
            }
    return found


def markdown(
    runs: dict[int, list[Sleeping]],
    passages: dict[str, list[Sleeping]],
    cards: dict[str, dict[str, float]],
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
    if cards:
        lines += [
            "",
            "One card as several devices:",
            "",
            "| devices | batches/s | µs to submit one |",
            "|---:|---:|---:|",
        ]
        lines += [
            f"| {devices} | {of['batches_per_second']:.1f} | {of['issue_microseconds']:.0f} |"
            for devices, of in cards.items()
        ]
    else:
        lines += ["", "There was no graphics card: what torch takes to queue a batch's kernels was not measured."]
    return "\n".join([*lines, "", f"- {quiet}"]) + "\n"


if __name__ == "__main__":
    main()
