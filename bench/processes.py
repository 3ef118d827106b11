"""Claim: an interpreter with calls in progress ends within two seconds of its last line; a fork gets an error within one.

Each is a separate process: an interpreter whose daemon threads are in calls that would take minutes, of each kind of caller,
measured from outside; and a fork that calls an engine made before it, while eight threads of the parent call it too, measured
in the child.

    .venv/bin/python bench/processes.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record
from bench.goals import Goal
from bench.options import claim_parser
from bench.record import spread

CLAIM = "processes"

HEAD = """
import asyncio, json, os, sys, threading, time, warnings
import numpy as np
import pullquote.engine
warnings.filterwarnings("ignore", category=DeprecationWarning)
PAGE = " ".join(f"Sentence {n} is here." for n in range(20_000))
def slow(texts):
    time.sleep(0.05)
    return np.array([[len(text), text.count("e"), 1.0] for text in texts], np.float32)
"""

# The work of the daemon threads of an interpreter at its end.
CALLS = {
    "threads, a function": "made = pullquote.Highlighter(encoder=slow)\ncall = lambda: made.highlights('cat', [PAGE])",
    "threads, torch": (
        "made = pullquote.Highlighter(devices='cpu')\n"
        "call = lambda: made.highlights('cat', [f'{PAGE} {n}' for n in range(6)])"
    ),
    "asyncio": (
        "made = pullquote.AsyncHighlighter(encoder=slow)\n"
        "async def main(): await asyncio.gather(*[made.highlights('cat', [PAGE]) for _ in range(50)])\n"
        "call = lambda: asyncio.run(main())"
    ),
    "steps": (
        "made, lock = pullquote.engine.Engine(encoder=slow), threading.Lock()\n"
        "def call():\n"
        "    made.add_request(str(threading.get_ident()), 'cat', [PAGE])\n"
        "    while made.has_unfinished_requests(): made.step()"
    ),
}

END = """
for _ in range(4):
    threading.Thread(target=call, daemon=True).start()
time.sleep(1.0)
print(time.time(), flush=True)
"""

FORK = """
made = pullquote.Highlighter(encoder=slow)
def go_on():
    while True:
        made.highlights("cat", [PAGE[:4000]])
for _ in range(8):
    threading.Thread(target=go_on, daemon=True).start()
time.sleep(0.5)
child = os.fork()
if child == 0:
    began = time.perf_counter()
    try:
        made.highlights("cat", ["The cat."])
    except pullquote.errors.ForkedError:
        print(time.perf_counter() - began, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def run(code: str) -> tuple[float, float]:
    """Run a program; returns the number that it prints and the time when it had ended."""
    command = [sys.executable, "-c", HEAD + code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout), time.time()


def main() -> None:
    """Measure, print the table and keep the record."""
    parser = claim_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="each once, and nothing is kept")
    arguments = parser.parse_args()
    repeats = 1 if arguments.quick else 5
    ends: dict[str, list[float]] = {kind: [] for kind in CALLS}
    told: list[float] = []
    for _ in range(repeats):
        for kind, calls in CALLS.items():
            said, ended = run(f"{calls}{END}")
            ends[kind].append(ended - said)
        told.append(run(FORK)[0])
    goals = [
        *(Goal(f"seconds to the end during calls: {kind}", max(took), most=2) for kind, took in ends.items()),
        Goal("seconds until a call in a fork raises", max(told), most=1, form=".4f"),
    ]
    around = record.circumstances()
    lines = [
        *record.heading(CLAIM, around),
        f"{repeats} processes of each kind, medians (least to most). Goals are for the slowest.",
        "",
        *(f"- the end, in seconds: {kind}: {spread(took)}" for kind, took in ends.items()),
        f"- a call in a fork, in milliseconds: {spread([1000 * seconds for seconds in told], '.3f')}",
        "",
        *(goal.line() for goal in goals),
    ]
    raw = {"ends": ends, "told": told, "goals": [asdict(goal) for goal in goals]}
    record.publish(CLAIM, around | raw, "\n".join(lines) + "\n", keeps=not arguments.quick)


if __name__ == "__main__":
    main()
