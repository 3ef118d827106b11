"""Claim: a small request does not wait for an earlier large one, and a waiting thread uses no core.

One thread sends a job of 5 MB; while it runs, another sends requests for single pages of 20 kB, one after the other. Jobs take
turns, a batch each (`rust/core/src/scheduler/batches.rs`), so that a page is answered long before the job is. The time of
pages without other requests is measured for comparison.

Also measured: the use of cores by the process in ten seconds without requests, by a thread that waits for vectors which other
threads compute, and by the pages' thread while the job ran.

    .venv/bin/python bench/waiting.py
"""

from __future__ import annotations

import math
import resource
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pullquote
from bench import record, small_model
from bench.goals import Goal
from bench.machine_noise import CoreUse, Meter, quietness
from bench.options import claim_parser
from bench.record import spread
from bench.texts import QUERY, different_pages, prose
from pullquote._models.choice import model_directory

CLAIM = "waiting"
EMBEDDED = "embedded model"
JOB_CHARACTERS = 5_000_000
PAGE_CHARACTERS = 20_000
WAITING_CHARACTERS = 200_000
IDLE_SECONDS = 10.0

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Used:
    """Seconds, the processor time of a thread or the whole process in them, and the context switches."""

    seconds: float
    cpu_seconds: float
    switches: int


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything measured with one model; `during_job` are the pages requested during the job and answered before its end.

    `waiting` is a call that hardly does more than wait; only the embedded model is slow enough for one. The numbers of a call
    are those of its thread; `idle` are those of the whole process without requests.
    """

    model: str
    dtype: str
    job_seconds: float
    alone: list[Used]
    during_job: list[Used]
    waiting: Used | None
    idle: Used
    core_use: list[CoreUse]

    def goals(self) -> list[Goal]:
        """Compare with the goals."""
        slowest = max((each.seconds for each in self.during_job), default=math.nan)
        idle = self.idle.cpu_seconds / self.idle.seconds
        goals = [
            Goal(
                f"{self.model}: the slowest page's time to the job's", slowest / self.job_seconds, most=0.1, form=".3f"
            ),
            Goal(f"{self.model}: cores used without requests", idle, most=0.001, form=".4f"),
        ]
        if self.waiting:
            share = self.waiting.cpu_seconds / self.waiting.seconds
            goals.append(Goal(f"{self.model}: cores used by a thread that waits", share, most=0.01, form=".4f"))
        return goals


def main() -> None:
    """Measure, print the table and keep the record."""
    parser = claim_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="a job and a wait of a fiftieth, and nothing is kept")
    arguments = parser.parse_args()
    part = 50 if arguments.quick else 1
    with tempfile.TemporaryDirectory() as directory:
        small = small_model.write_small_model(Path(directory))
        models = {EMBEDDED: model_directory(None), small_model.NAME: small}
        results = [measure(name, model, part) for name, model in models.items()]
    around = record.circumstances() | {"dtype": " and ".join(dict.fromkeys(result.dtype for result in results))}
    table = markdown(around, results)
    raw = [asdict(result) | {"goals": [asdict(goal) for goal in result.goals()]} for result in results]
    record.publish(CLAIM, around | {"results": raw}, table, keeps=not arguments.quick)


def measure(name: str, model: Path, part: int) -> Measured:
    """Load a model, warm it up and measure it."""
    job = prose(JOB_CHARACTERS // part)
    pages = different_pages(100, PAGE_CHARACTERS)
    text = prose(WAITING_CHARACTERS // part)
    windows = [text[start:end] for start, end in pullquote.parse_pieces(text)]
    core_use: list[CoreUse] = []
    with pullquote.Highlighter(model, cache_bytes=0) as highlighter:

        def ask(text: str) -> Used:
            return used_by_thread(lambda: highlighter.highlights(QUERY, [text], effort="full"))

        def metered(what: str, work: Callable[[], Result]) -> Result:
            meter = Meter()
            result = work()
            core_use.append(meter.stop())
            print(f"{name}: {what}{core_use[-1].remark()}", file=sys.stderr)
            return result

        ask(pages[0])
        alone = metered("pages alone", lambda: [ask(page) for page in pages[1:11]])
        job_seconds, during_job = metered("pages during a job", lambda: pages_during(job, pages, ask))
        waiting = None
        if name == EMBEDDED:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", pullquote.errors.TruncationWarning)  # one of the windows is too long
                waiting = metered("a thread that waits", lambda: used_by_thread(lambda: highlighter.embed(windows)))
        idle = metered("without requests", lambda: used_by_process(lambda: time.sleep(IDLE_SECONDS / part)))
        return Measured(name, highlighter.dtype, job_seconds, alone, during_job, waiting, idle, core_use)


def used_by_thread(call: Callable[[], object]) -> Used:
    """Make a call from this thread, and read what the thread used."""
    return used(call, resource.RUSAGE_THREAD, time.thread_time)


def used_by_process(call: Callable[[], object]) -> Used:
    """Make a call from this thread, and read what all threads of this process used."""
    return used(call, resource.RUSAGE_SELF, time.process_time)


def used(call: Callable[[], object], whose: int, cpu_time: Callable[[], float]) -> Used:
    """Make a call, and read the clocks and counters before and after it."""
    before = resource.getrusage(whose)
    cpu, began = cpu_time(), time.perf_counter()
    call()
    seconds, cpu_seconds = time.perf_counter() - began, cpu_time() - cpu
    after = resource.getrusage(whose)
    return Used(seconds, cpu_seconds, after.ru_nvcsw - before.ru_nvcsw + after.ru_nivcsw - before.ru_nivcsw)


def pages_during(job: str, pages: list[str], ask: Callable[[str], Used]) -> tuple[float, list[Used]]:
    """Request the job on a thread, and pages on this one until it ends; returns the job's seconds, and the pages'."""
    jobs: list[Used] = []
    during_job: list[Used] = []
    thread = threading.Thread(target=lambda: jobs.append(ask(job)))
    thread.start()
    while thread.is_alive():
        page = ask(pages[len(during_job) % len(pages)])
        # The last one may have run without the job for a while.
        if thread.is_alive():
            during_job.append(page)
    thread.join()
    return jobs[0].seconds, during_job


def markdown(around: dict[str, object], results: list[Measured]) -> str:
    """Write the record as Markdown."""
    lines = [
        *record.heading(CLAIM, around),
        f"A job of {JOB_CHARACTERS:,} characters and pages of {PAGE_CHARACTERS:,}; medians (least to most).",
    ]
    for result in results:
        alone = [each.seconds for each in result.alone]
        during_job = [each.seconds for each in result.during_job]
        waiting, idle = result.waiting, result.idle
        lines += ["", f"{result.model}, {result.dtype}:", ""]
        lines.append(f"- the job took {result.job_seconds:.2f} s")
        lines.append(f"- a page alone took {spread(alone, '.3f')} s")
        if during_job:
            slower = median(during_job) / median(alone)
            lines.append(
                f"- a page during the job took {spread(during_job, '.3f')} s, {len(during_job)} of them; {slower:.1f} times as long"
            )
            milliseconds, alone_too = (
                [1000 * each.cpu_seconds for each in pages] for pages in (result.during_job, result.alone)
            )
            lines.append(
                f"- its thread used {spread(milliseconds, '.1f')} ms of a core, and alone {spread(alone_too, '.1f')}"
            )
        if waiting:
            lines.append(
                f"- a thread that waited {waiting.seconds:.2f} s for vectors used {1000 * waiting.cpu_seconds:.1f} ms of a core "
                f"and was switched {waiting.switches / waiting.seconds:.0f} times a second"
            )
        lines.append(
            f"- without requests for {idle.seconds:.1f} s, the process used {1000 * idle.cpu_seconds:.2f} ms of a core, "
            f"and its threads were switched {idle.switches} times"
        )
    lines += ["", *(goal.line() for result in results for goal in result.goals())]
    lines.append(f"- {quietness(use for result in results for use in result.core_use)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
