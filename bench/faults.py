"""Claim: of 100,000 calls of the client during failures of every kind, each ends once, with a right answer or a typed error.

Runs `rust/client/tests/faults.rs` for many calls: two servers of the test reset connections, cut answers off, stall, reject
bursts of requests, answer late and in another order, and send wrong answers. The test fails if a vector is wrong, a call never
ends, or ends twice.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record
from bench.goals import Goal
from bench.options import add_no_record, claim_parser

CLAIM = "faults"
LINE = re.compile(r"^(\d+) calls, (\d+) requests, (\d+) right, (\{.*\}), ([\d.]+)(ms|s)$", re.MULTILINE)


def main() -> None:
    """Run the test, and keep its output."""
    parser = claim_parser(__doc__)
    parser.add_argument("--calls", type=int, default=100_000, help="default: %(default)s")
    add_no_record(parser)
    arguments = parser.parse_args()
    around = record.circumstances()
    test = ["--test", "faults", "--", "--nocapture", "each_call_ends_once"]
    command = ["cargo", "test", "--release", "--quiet", "-p", "pullquote-client", *test]
    environment = os.environ | {"PULLQUOTE_FAULTS": str(arguments.calls)}
    done = subprocess.run(command, cwd=record.REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    found = LINE.search(done.stdout)
    assert found is not None, done.stdout + done.stderr
    calls, requests, right = (int(number) for number in found.groups()[:3])
    kinds: dict[str, int] = json.loads(found[4])
    seconds = float(found[5]) / (1000 if found[6] == "ms" else 1)
    goals = [
        # The test checks each call, and fails if one is wrong or ends twice.
        Goal("calls lost, reported twice or wrong", float(done.returncode != 0), most=0, form=".0f"),
        Goal(
            "calls that are neither right nor an error of the table",
            calls - right - sum(kinds.values()),
            most=0,
            form=".0f",
        ),
    ]
    lines = [
        *record.heading(CLAIM, around),
        f"{calls:,} calls of one to four texts, 128 at a time, {requests:,} requests to two servers that fail in every way, "
        f"{seconds:.0f} s.",
        "",
        "| what came of them | calls |",
        "|---|---:|",
        f"| the right vectors | {right:,} |",
        *(f"| {kind} | {count:,} |" for kind, count in sorted(kinds.items(), key=lambda kind: -kind[1])),
        "",
        *(goal.line() for goal in goals),
    ]
    raw = around | {
        "calls": calls,
        "requests": requests,
        "right": right,
        "failed": kinds,
        "seconds": seconds,
        "goals": [asdict(goal) for goal in goals],
    }
    record.publish(CLAIM, raw, "\n".join(lines) + "\n", keeps=not arguments.no_record)


if __name__ == "__main__":
    main()
