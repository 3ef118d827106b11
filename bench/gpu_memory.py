"""The stages `memory` and `rayon` of `bench/gpu.py`: 5,000 requests of all sizes leave memory as it was after the first 500.

Requests of 1 to 1,024 different texts of 4 to 256 tokens, one after the other and eight at once. After every hundred, what torch's
allocator reserves and allocates is read, and what the driver says is used. For comparison the wrong way, on purpose: rayon's
iterators around the encoder (`rust/torch/examples/rayon_around.rs`), of which only the driver's number is known.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from bench.gpu_trial import Findings, Trial, skipped
from pullquote._models.choice import model_directory

BLOCK = 100
GOAL = 1.05
AT_ONCE = 8
MEBIBYTE = 1024 * 1024
# Of the wrong way, which is slow.
LONGEST = 60.0


def memory(trial: Trial) -> Findings:
    """Send the requests to a highlighter."""
    requests = trial.scaled(5_000, 200)
    values = right_way(trial, requests)
    findings = Findings({"mebibytes": values})
    if "reserved" in values:
        ratio = growth(values["reserved"])
        findings.goal(f"reserved after {requests} requests, to that after a tenth", ratio, most=GOAL, form=".3f")
    tabulate(findings, values)
    return findings


def rayon(trial: Trial) -> Findings:
    """Send them through rayon's iterators, for at most a minute."""
    if trial.binary is None:
        return skipped("rayon_around is not built: cargo build --release -p pullquote-torch --example rayon_around")
    driver, failures = wrong_way(trial, trial.binary, trial.scaled(5_000, 1))
    findings = Findings({"mebibytes": {"driver": driver}, "failures": failures})
    findings.lines.append(f"- {len(failures)} requests failed: {failures[:1]}")
    tabulate(findings, {"driver": driver})
    return findings


def tabulate(findings: Findings, values: dict[str, list[float]]) -> None:
    """Write what memory was after a tenth of the requests, and after the last."""
    rows = [
        [name, f"{tenth(of):.0f}", f"{of[-1]:.0f}", f"{growth(of):.3f}", f"{max(of):.0f}"]
        for name, of in values.items()
        if of
    ]
    findings.table(["MiB", "after a tenth", "after the last", "times", "most"], rows)


def tenth(values: list[float]) -> float:
    """The value after a tenth of the requests."""
    return values[max(0, len(values) // 10 - 1)]


def growth(values: list[float]) -> float:
    """Divide the last value by the one after a tenth of the requests; NaN where that one is zero."""
    return values[-1] / tenth(values) if tenth(values) else float("nan")


def right_way(trial: Trial, requests: int) -> dict[str, list[float]]:
    """Send the requests to a highlighter; returns mebibytes after every block."""
    rng = random.Random(7)  # noqa: S311 - the same requests each time
    before = used(trial.device, os.getpid())
    seen: dict[str, list[float]] = {"driver": []} if trial.is_cpu else {"reserved": [], "allocated": [], "driver": []}
    with trial.highlighter() as highlighter, ThreadPoolExecutor(AT_ONCE) as pool:
        for block in range(requests // BLOCK):
            made = [texts(rng, trial.scaled(10, 2)) for _ in range(BLOCK)]
            if block % 2:
                list(pool.map(highlighter.embed, made))
            else:
                for each in made:
                    highlighter.embed(each)
            if not trial.is_cpu:
                seen["reserved"].append(torch.cuda.memory_reserved(trial.device) / MEBIBYTE)
                seen["allocated"].append(torch.cuda.memory_allocated(trial.device) / MEBIBYTE)
            seen["driver"].append(used(trial.device, os.getpid()) - before)
    return seen


def texts(rng: random.Random, doublings: int) -> list[str]:
    """Invent a request: few texts or many, short ones or long ones, none twice."""
    most = rng.randint(4, 250)
    count = rng.randint(1, 2 ** rng.randint(0, doublings))
    return [f"{number} " + "moon " * rng.randint(2, most) for number in range(count)]


def wrong_way(trial: Trial, binary: Path, requests: int) -> tuple[list[float], list[str]]:
    """Send the requests through rayon's iterators; returns mebibytes after every block, and the errors."""
    environment = os.environ | {"LD_LIBRARY_PATH": str(Path(torch.__file__).parent / "lib")}
    until = time.monotonic() + LONGEST
    before = used(trial.device, None)
    driver: list[float] = []
    failures: list[str] = []
    with subprocess.Popen(
        [str(binary), str(model_directory(None)), trial.device, str(requests)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(1, requests + 1):
            try:
                process.stdin.write("\n")
                process.stdin.flush()
            except BrokenPipeError:
                failures.append(f"the process ended before request {number}")
                break
            line = process.stdout.readline()
            while line.startswith("failed"):
                failures.append(line.strip())
                line = process.stdout.readline()
            if number % BLOCK == 0 or number == requests:
                driver.append(used(trial.device, process.pid) - before)
            if not line or time.monotonic() > until:
                failures.append(f"ended after request {number}")
                process.kill()
                break
    return driver, failures


def used(device: str, process: int | None) -> float:
    """Mebibytes in use: of a card, by all processes, since a container's do not see their own; or of a process on this machine."""
    if device != "cpu":
        free, total = torch.cuda.mem_get_info(device)
        return float(total - free) / MEBIBYTE
    if process is None:
        return 0.0
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS:"))
