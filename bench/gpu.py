"""Claim: on a GPU, right answers, then 4 times the pieces a second of a pipeline of processes and twice sentence-transformers'.

Runs the stages below, each in a process of its own with a time limit, so that an abort names its stage. Where `gate` finds wrong
vectors, the rest does not run. The results are three files in `--out`, by default `bench/record/<card>`: numbers (gpu.json),
tables (gpu.md) and the output of all stages (gpu.log). Results of stages that do not run this time stay in them.

In the folder that `make gpu-kit` builds, this needs Python 3.11 or newer, torch 2.11, numpy and a card; the wheels in `wheels/` are
unpacked into a temporary directory. `tests` also needs pytest, and the rivals are sentence-transformers and transformers: without
them those stages are skipped. In the repository, `make gpu-bench` runs it.

    python3 bench/gpu.py                                   # everything, 25 minutes at most
    python3 bench/gpu.py --minutes 9 --resume              # in parts: again and again, until no stage is left
    python3 bench/gpu.py --stages gate,tests --minutes 9
    python3 bench/gpu.py --cpu --out /tmp/results          # tries the stages without a card, with little work
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WHEELS = ROOT / "wheels"
BINARY = ROOT / "bin" / "rayon_around"
# Names the card, so it always runs.
FIRST = "card"
LOG = "gpu.log"
NO_TIME = "no time left"
NOT_DONE = "failed: not done"


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of the run: a function ``module:name`` in this directory, and its time limit in seconds.

    Where a `decides` stage fails, the rest does not run.
    """

    name: str
    function: str
    seconds: int
    decides: bool = False


# What decides comes first, then the goals, then what explains them.
STAGES = (
    Stage(FIRST, "gpu_checks:card", 90, decides=True),
    Stage("operators", "gpu_operators:operators", 60),
    Stage("gate", "gpu_checks:gate", 150, decides=True),
    Stage("sticky", "gpu_checks:sticky", 100),
    Stage("tests", "gpu_checks:tests", 240),
    Stage("busy", "gpu_speed:busy", 180),
    Stage("busy-base", "gpu_speed:busy_base", 120),
    Stage("memory", "gpu_memory:memory", 120),
    Stage("rivals", "gpu_rivals:rivals", 240),
    Stage("rivals-base", "gpu_rivals:rivals_base", 180),
    Stage("queueing", "gpu_speed:queueing", 240),
    Stage("lengths", "gpu_speed:lengths", 60),
    Stage("memcheck", "gpu_checks:memcheck", 200),
    Stage("rayon", "gpu_memory:rayon", 90),
)


def main() -> None:
    """Run the stages and print their tables; after each, write the results, since this process may be ended too."""
    arguments = parse_arguments()
    until = time.monotonic() + arguments.minutes * 60
    out: Path | None = arguments.out
    results, earlier_log = read_earlier(out)
    failed = []
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        environment = unpack(scratch / "site")
        for stage in STAGES:
            # The stages' own limits are for a machine with a GPU.
            limit = math.inf if arguments.cpu else stage.seconds
            seconds = min(limit, until - time.monotonic())
            is_done = arguments.resume and results.get(stage.name, {}).get("outcome") in {"passed", "skipped"}
            if stage.name != FIRST and (stage.name not in arguments.stages or is_done):
                results.setdefault(stage.name, {"outcome": "not asked for"})
                continue
            if seconds <= 0:
                results.setdefault(stage.name, {"outcome": NO_TIME})
                continue
            result = run(stage, seconds, arguments, environment, scratch)
            if result["outcome"].startswith(NOT_DONE) and seconds < limit:
                result["outcome"] = f"{NO_TIME}: ended after {seconds:.0f} s"
            print("\n".join(report(stage.name, result)), flush=True)
            if stage.name == FIRST:
                if out is None and "name" in result and not arguments.cpu:
                    out = ROOT / "bench" / "record" / result["name"]
                    results, earlier_log = read_earlier(out)
                known = results.get(FIRST, result).get("name")
                if known != result.get("name"):
                    sys.exit(f"{out} has the results of another card, {known}: choose another --out")
                results[FIRST] = result
            results[stage.name] = result | {"commit": results[FIRST].get("commit")}
            if out is not None:
                keep(out, results, earlier_log + (scratch / LOG).read_bytes())
            failed += [stage.name] if result["outcome"].startswith("failed") else []
            if stage.decides and result["outcome"] != "passed":
                break
    print("\n".join(["", *summary(results)]))
    if out is not None:
        keep(out, results, (out / LOG).read_bytes())
        print(f"kept in {out}", file=sys.stderr)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    names = [stage.name for stage in STAGES]
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--stages", type=lambda text: text.split(","), default=names, help=f"of {','.join(names)}")
    parser.add_argument("--cpu", action="store_true", help="try the stages on the processor, with little work")
    parser.add_argument("--minutes", type=float, default=25, help="for all stages (default: 25)")
    parser.add_argument("--resume", action="store_true", help="leave out the stages that passed in --out before")
    parser.add_argument(
        "--out", type=Path, help="folder for the results (default: bench/record/<card>; none with --cpu)"
    )
    parser.add_argument(
        "--binary", type=Path, help="rust/torch/examples/rayon_around, built; without it `rayon` is skipped"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.stages) - set(names):
        parser.error(f"no stages {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    arguments.binary = arguments.binary.resolve() if arguments.binary else BINARY if BINARY.exists() else None
    return arguments


def unpack(site: Path) -> dict[str, str]:
    """Unpack the wheels, where there are any; returns the environment of the stages."""
    for wheel in sorted(WHEELS.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    paths = [str(site), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1"}


def run(
    stage: Stage, seconds: float, arguments: argparse.Namespace, environment: dict[str, str], scratch: Path
) -> dict[str, Any]:
    """Run a stage; returns what it found, `seconds`, and `outcome`: passed, skipped, or failed and how."""
    print(f"{stage.name} ...", file=sys.stderr, flush=True)
    found = scratch / f"{stage.name}.json"
    device = "cpu" if arguments.cpu else "cuda:0"
    command = [sys.executable, "-m", "bench.gpu_trial", stage.function, str(found), device, str(arguments.binary or "")]
    began = time.monotonic()
    with (scratch / LOG).open("ab") as log:
        log.write(f"\n===== {stage.name}\n".encode())
        log.flush()
        # A session of its own, so that all of its processes can be ended.
        with subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, cwd=ROOT, start_new_session=True
        ) as process:
            try:
                code = process.wait(timeout=seconds)
                ended = f"failed: exit code {code}" if code >= 0 else f"failed: {signal.Signals(-code).name}"
            except subprocess.TimeoutExpired:
                code, ended = -1, f"{NOT_DONE} after {seconds:.0f} s"
            finally:
                kill(process.pid)
    result: dict[str, Any] = json.loads(found.read_text()) if found.exists() else {}
    if code == 0 and "outcome" in result:
        ended = result["outcome"]
    if ended.startswith("failed"):
        result["tail"] = tail(scratch / LOG)
    return result | {"outcome": ended, "seconds": round(time.monotonic() - began, 1)}


def kill(group: int) -> None:
    """End what is left of a stage's processes."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def tail(log: Path) -> list[str]:
    """The last lines of a stage that failed."""
    return log.read_text(encoding="utf-8", errors="replace").rpartition("\n===== ")[2].splitlines()[1:][-25:]


def read_earlier(out: Path | None) -> tuple[dict[str, dict[str, Any]], bytes]:
    """The results and the log that earlier runs left in a folder."""
    if out is None or not (out / "gpu.json").exists():
        return {}, b""
    log = out / LOG
    return json.loads((out / "gpu.json").read_text(encoding="utf-8")), log.read_bytes() if log.exists() else b""


def summary(results: dict[str, dict[str, Any]]) -> list[str]:
    """Write a table of all stages, those included that did not run, and all goals."""
    commit = results[FIRST].get("commit")
    lines = ["| stage | outcome | seconds |", "|---|---|---:|"]
    for stage in STAGES:
        result = results.get(stage.name, {"outcome": "not reached"})
        seconds = f"{result['seconds']:.0f}" if "seconds" in result else ""
        other = f", commit {result['commit']}" if seconds and result.get("commit") != commit else ""
        lines.append(f"| {stage.name} | {result['outcome']}{other} | {seconds} |")
    goals = [f"{goal} [{stage.name}]" for stage in STAGES for goal in results.get(stage.name, {}).get("goals", [])]
    return [*lines, "", *goals]


def report(name: str, result: dict[str, Any]) -> list[str]:
    """Write what a stage that ran found as Markdown."""
    lines = ["", f"## {name}: {result['outcome']}, {result['seconds']:.0f} s", "", *result.get("lines", [])]
    if "tail" in result:
        lines += ["", "```", *result["tail"], "```"]
    return lines


def keep(out: Path, results: dict[str, dict[str, Any]], log: bytes) -> None:
    """Write the three files of the results."""
    out.mkdir(parents=True, exist_ok=True)
    ran = [stage.name for stage in STAGES if "seconds" in results.get(stage.name, {})]
    lines = ["# gpu", "", *summary(results), *(line for name in ran for line in report(name, results[name]))]
    table = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"
    raw = json.dumps(results, ensure_ascii=False, separators=(",", ":")) + "\n"
    (out / "gpu.json").write_text(raw, encoding="utf-8")
    (out / "gpu.md").write_text(table, encoding="utf-8")
    (out / LOG).write_bytes(log)


if __name__ == "__main__":
    main()
