"""One call of `highlights()` in a process of its own, so that the peak of memory is that of the call.

A `Task` comes as JSON on the standard input, an `Outcome` goes as JSON to the standard output; `measure` does both ends.
"""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

# The modules in this directory are the package `bench`, for mypy and where this file is what is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.texts import QUERY, prose

DEADLINE_SECONDS = 600.0
_WARM_UP_CHARACTERS = 3_000


@dataclass(frozen=True, slots=True)
class Task:
    """The number and size of the pages, their windows, and the minimum of calls and of seconds."""

    model: str
    characters: int
    pages: int = 1
    highlight_length: int = 3
    step_size: int = 1
    calls: int = 1
    seconds: float = 0.5


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds of the calls, and the bytes that they added to the process's memory at their peak.

    `first_peak_bytes` is the first call's, and includes what is allocated once and stays. `next_peak_bytes` is the
    second call's, after all free memory of the first went back to the system; a single call has none. `utf8_bytes` is
    the size of the pages, `tokens` what was encoded, and `stages` those of the last call's `Work`.
    """

    utf8_bytes: int
    pieces: int
    tokens: int
    seconds: list[float]
    first_peak_bytes: int
    next_peak_bytes: int | None
    stages: dict[str, float]
    dtype: str


def measure(task: Task) -> Outcome:
    """Do a task in a new process. Raises `RuntimeError` with its output if it fails."""
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(asdict(task)),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        message = f"{task} failed: {done.stderr}"
        raise RuntimeError(message)
    return Outcome(**json.loads(done.stdout))


def do(task: Task) -> Outcome:
    """Do a task in this process."""
    import pullquote  # noqa: PLC0415 - so that the other end imports no torch

    text = prose(task.characters * task.pages)
    pages = [text[first : first + task.characters] for first in range(0, len(text), task.characters)]
    seconds: list[float] = []
    with pullquote.Highlighter(task.model, cache_bytes=0) as highlighter:
        highlighter.highlights(QUERY, [text[:_WARM_UP_CHARACTERS]], effort="full")
        peaks: list[int] = []
        while len(seconds) < task.calls or sum(seconds) < task.seconds:
            before = _resident_bytes() if len(peaks) < 2 else 0
            began = time.perf_counter()
            work = highlighter.highlights(
                QUERY, pages, highlight_length=task.highlight_length, step_size=task.step_size, effort="full"
            ).work
            seconds.append(time.perf_counter() - began)
            if len(peaks) < 2:
                peaks.append(_memory("VmHWM") - before)
    stages = {name: getattr(work, name) for name in ("cutting", "tokenizing", "waiting", "ranking")}
    counts = (len(text.encode()), work.windows, work.tokens)
    return Outcome(*counts, seconds, peaks[0], peaks[1] if len(peaks) > 1 else None, stages, highlighter.dtype)


def _resident_bytes() -> int:
    """Give free memory back, and reset the peak, which otherwise is that of loading, or of the parent."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _memory(what: str) -> int:
    """Read one of Linux's numbers about this process's memory, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) * 1024
    raise LookupError(what)


if __name__ == "__main__":
    json.dump(asdict(do(Task(**json.load(sys.stdin)))), sys.stdout)
