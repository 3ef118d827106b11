"""Stages of `bench/gpu.py` that say whether the answers are right: against the CPU, the memory checker, tests, a broken context."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench import record
from bench.gpu_trial import Findings, Trial, skipped, takes
from bench.texts import QUERY, prose, prose_pages
from pullquote import Highlighter
from pullquote.errors import DeviceError, PullquoteError

TESTS = "tests/python/integration/test_gpu.py"
# The least cosine with the CPU's float32.
LEAST = {"float16": 0.9995, "bfloat16": 0.995, "float32": 0.99999}
SCORES = 2e-3
SANITIZERS = ("compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer")


def card(trial: Trial) -> Findings:
    """Name the card, the driver and all versions."""
    import torch  # noqa: PLC0415 - takes seconds, which the processes of the other checks do not need

    if not trial.is_cpu and not torch.cuda.is_available():
        return skipped(
            "There is no CUDA device here, or its driver is too old for this torch (13.0 needs 580 or newer)."
        )
    circumstances = record.circumstances()
    circumstances["device"] = "cpu" if trial.is_cpu else torch.cuda.get_device_name(trial.device)
    circumstances["cuda"] = torch.version.cuda
    if not trial.is_cpu:
        memory = torch.cuda.get_device_properties(trial.device).total_memory
        circumstances["capability"] = list(torch.cuda.get_device_capability(trial.device))
        circumstances["mebibytes"] = memory // 2**20
        if shutil.which("nvidia-smi"):
            # For the log; without persistence mode it may take many seconds.
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(["nvidia-smi"], check=False, timeout=30)
    name = "-".join(re.findall(r"[a-z0-9]+", str(circumstances["device"]).lower()))
    return Findings(circumstances | {"name": name}, record.long_heading("", circumstances)[2:])


def gate(trial: Trial) -> Findings:
    """Compare vectors in each dtype, and the passages of pages, with the CPU's in float32.

    An error in one dtype leaves the others to be compared, since they tell what causes it.
    """
    texts = sentences(trial.scaled(2_000, 100))
    pages = prose_pages(trial.scaled(200, 8), 6_000)
    with Highlighter(devices="cpu", dtype="float32", cache_bytes=0) as highlighter:
        right = highlighter.embed(texts)
        expected = highlighter.highlights(QUERY, pages)
    findings = Findings({"dtypes": {}})
    rows = []
    for dtype in trial.scaled(list(LEAST), ["float32"]):
        began = time.perf_counter()
        try:
            with trial.highlighter(dtype=dtype) as highlighter:
                loaded = time.perf_counter() - began
                cosine = float((highlighter.embed(texts) * right).sum(axis=1).min())
                found = highlighter.highlights(QUERY, pages)
                state = highlighter.device_states[0]
        except PullquoteError as error:
            findings.outcome = f"failed: {dtype}: {error}"
            rows.append([dtype, f"{type(error).__name__}: {error}", "", "", "", "", ""])
            findings.numbers["dtypes"][dtype] = {"error": str(error)}
            continue
        padded = getattr(state, "padded_rows", None)
        compared = compare_passages(found, expected)
        # A comparison with NaN is false, so NaN is wrong.
        is_right = cosine >= LEAST[dtype] and state.failures == 0
        findings.outcome = findings.outcome if is_right else f"failed: wrong vectors in {dtype}"
        findings.numbers["dtypes"][dtype] = {
            "load_seconds": loaded,
            "least_cosine": cosine,
            "failures": state.failures,
            "last_error": state.last_error,
            "padded_rows": padded,
        } | compared
        rows.append(
            [
                dtype,
                f"{loaded:.2f}",
                f"{cosine:.6f}",
                str(padded),
                f"{compared['same_pages']} of {len(pages)}",
                f"{compared['tied_pages']}",
                f"{compared['score_difference']:.1e}",
            ]
        )
        if dtype == trial.dtype:
            findings.goal(
                f"largest difference of scores on the same passages, {dtype}",
                compared["score_difference"],
                most=SCORES,
                form=".1e",
            )
            findings.goal(
                f"of {len(pages)} pages, those with the CPU's passages or with others of the same scores, {dtype}",
                compared["same_pages"] + compared["tied_pages"],
                least=len(pages),
                form=".0f",
            )
    heads = [
        "dtype",
        "seconds to load",
        "least cosine",
        "rows padded",
        "pages with the same passages",
        "with others of the same scores",
        "scores differ by",
    ]
    findings.table(heads, rows)
    return findings


def compare_passages(found: Any, expected: Any) -> dict[str, Any]:
    """Compare the passages of all pages: `same_pages`, the largest `score_difference` on these, and `tied_pages`.

    On tied pages other passages were chosen, whose scores are the same within the goal: rounding decided between them.
    """
    same = tied = 0
    furthest = 0.0
    for page in range(len(expected)):
        (our_spans, ours), (their_spans, theirs) = passages(found, page), passages(expected, page)
        if our_spans.tolist() == their_spans.tolist():
            same += 1
            # NaN stays, which Python's `max` may drop.
            furthest = float(np.maximum(furthest, np.abs(ours - theirs).max(initial=0.0)))
        elif len(ours) == len(theirs) and float(np.abs(np.sort(ours) - np.sort(theirs)).max()) <= SCORES:
            tied += 1
    return {"same_pages": same, "tied_pages": tied, "score_difference": furthest}


def passages(found: Any, page: int) -> tuple[Any, Any]:
    """The spans of a page, and their scores, in the result's order."""
    of_page = found.pages == page
    return found.spans[of_page], found.scores[of_page]


def sentences(count: int) -> list[str]:
    """Texts of 5 to 250 tokens."""
    text = prose(count * 200)
    return [f"{number}: {text[number * 100 : number * 100 + 20 + number * 37 % 1_000]}" for number in range(count)]


def memcheck(trial: Trial) -> Findings:
    """Run a few batches under compute-sanitizer, without torch's allocator, which hides writes behind a block's end."""
    sanitizer = next(filter(None, map(shutil.which, SANITIZERS)), None)
    command = [sys.executable, "-m", "bench.gpu_checks", "batches", trial.device]
    if trial.is_cpu:
        subprocess.run(command, check=True)
        return skipped("There is no card: the batches ran without compute-sanitizer.")
    if sanitizer is None:
        return skipped("compute-sanitizer is not installed.")
    options = ["--tool", "memcheck", "--target-processes", "all", "--report-api-errors", "no", "--error-exitcode", "9"]
    done = subprocess.run(
        [sanitizer, *options, *command],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    )
    print(done.stdout, done.stderr)
    said = [line for line in done.stdout.splitlines() if "ERROR SUMMARY" in line]
    outcome = "passed" if done.returncode == 0 else f"failed: exit code {done.returncode}"
    return Findings({"said": said}, said or ["compute-sanitizer gave no summary."], outcome=outcome)


def batches(device: str) -> None:
    """Embed in small batches, rows of many lengths and a single one, vectors and scores."""
    graphs: dict[str, Any] = {"cuda_graphs": False} if takes("cuda_graphs") else {}
    trial = Trial(device, None, Path(os.devnull))
    with trial.highlighter(max_batch_tokens=2_048, **graphs) as highlighter:
        highlighter.embed(sentences(40))
        highlighter.embed(["one"])
        highlighter.highlights(QUERY, prose_pages(1, 3_000), effort="full")


def tests(trial: Trial) -> Findings:
    """Run the tests that need a card; without one they are skipped."""
    del trial
    if importlib.util.find_spec("pytest") is None:
        return skipped("pytest is not installed.")
    options = ["--noconftest", "-p", "no:cacheprovider", "-o", "filterwarnings=", "-o", "addopts=", "-rA", "--tb=short"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, TESTS],
        check=False,
        capture_output=True,
        text=True,
        cwd=record.REPOSITORY,
    )
    print(done.stdout, done.stderr)
    said = [line for line in done.stdout.splitlines() if line.startswith(("PASSED", "FAILED", "ERROR", "SKIPPED"))]
    last = next((line for line in reversed(done.stdout.splitlines()) if line.strip()), "pytest said nothing")
    outcome = "passed" if done.returncode == 0 else f"failed: exit code {done.returncode}"
    if not any(line.startswith("PASSED") for line in said):
        outcome = "skipped" if done.returncode == 0 else outcome
    return Findings(
        {"tests": said, "summary": last}, [*(f"- {line}" for line in said), "", last.strip("= ")], outcome=outcome
    )


def sticky(trial: Trial) -> Findings:
    """Break the CUDA context of a child process, with and without another device: the process must live.

    A device-side assertion does it; every later call of CUDA in that process fails.
    """
    findings = Findings({"runs": {}})
    for name, devices in {"the card alone": [trial.device], "the card and the CPU": [trial.device, "cpu"]}.items():
        command = [sys.executable, "-m", "bench.gpu_checks", "broken", *devices]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                said, _ = process.communicate(timeout=trial.scaled(45, 300))
            except subprocess.TimeoutExpired:
                process.kill()
                said, _ = process.communicate()
        print(said)
        steps = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        # Its exit code is torch's business: what torch frees at the interpreter's end may fail too.
        lives = bool(steps) and steps[-1]["step"] == "closed"
        findings.numbers["runs"][name] = {"exit_code": process.returncode, "steps": steps}
        answers = [step["answer"] for step in steps if "answer" in step]
        fate = "lives" if lives else "ended"
        findings.lines.append(f"- {name}: the process {fate}, answers {answers}, exit code {process.returncode}")
        findings.lines += [f"  - {state}" for step in steps[-2:] for state in step.get("states", [])]
        # A single device has no other to take over; with the CPU, callers get their vectors.
        allowed = {"same vectors"} if trial.is_cpu or len(devices) > 1 else {"DeviceError"}
        if not lives or not set(answers) <= allowed or not answers:
            findings.outcome = f"failed: {name}: {answers}, exit code {process.returncode}"
    return findings


def broken(devices: list[str]) -> None:
    """Embed, break the context, embed again twice; print each step."""
    import torch  # noqa: PLC0415 - only this process needs it

    texts = sentences(200)
    is_cpu = devices[0] == "cpu"
    with Highlighter(
        devices=[f"cpu:{number}" for number in range(len(devices))] if is_cpu else devices,
        dtype="float32",
        cache_bytes=0,
        encoder="torch" if is_cpu else None,
    ) as highlighter:
        before = highlighter.embed(texts)
        say(step="embedded")
        if not is_cpu:
            torch._assert_async(torch.zeros(1, device=devices[0]))
        for _ in range(2):
            try:
                after = highlighter.embed(texts)
                answer = "same vectors" if float((before * after).sum(axis=1).min()) > 0.9999 else "other vectors"
            except DeviceError as error:
                answer = type(error).__name__
            states = [
                f"{state.name}: works {state.is_working}, {state.last_error}" for state in highlighter.device_states
            ]
            say(step="embedded again", answer=answer, states=states)
    say(step="closed")


def say(**step: Any) -> None:
    """Print a step at once: the process may end."""
    print(json.dumps(step), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "batches":
        batches(sys.argv[2])
    else:
        broken(sys.argv[2:])
