"""Claim: while large requests flood a server, small ones are answered within ten times their usual time.

Two servers run, one of whose computing threads have the priority of all others (`--nice 0`). For each of the dearest known
requests (`tests/python/support/worst_requests.py`), eight clients send it again and again, in pieces, from a process that
gives way to every other, as clients on machines of their own would: at nice 19, they held the cores when a small request
came. A client in another process sends a small request every 2 ms. The servers take turns.

    .venv/bin/python bench/small_requests.py
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from statistics import median, quantiles

import httpx

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/python"))

from bench import record
from bench.goals import Goal
from bench.options import add_no_record, claim_parser
from support.server_process import ServerProcess, running_server
from support.worst_requests import SMALL, WORST

CLAIM = "small_requests"
SENDERS = 8
PAUSE = 0.002
HEAD_START = 1.5  # seconds in which the flood begins
JSON = {"content-type": "application/json"}
SIDES = ("0", "10")
PIECE = 64 * 1024  # bytes


def main() -> None:
    """Measure, print, keep; or be one of the clients."""
    parser = claim_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of a turn (default: %(default)s)")
    parser.add_argument("--client", nargs=2, metavar=("KIND", "URL"), help=argparse.SUPPRESS)
    add_no_record(parser)
    arguments = parser.parse_args()
    if arguments.client:
        kind, url = arguments.client
        return send_small(url, arguments.seconds) if kind == "small" else send_large(url, kind, arguments.seconds)
    times: dict[str, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        servers = {side: stack.enter_context(running_server("--nice", side)) for side in SIDES}
        for kind in ["", *WORST]:
            times[kind] = {side: [] for side in SIDES}
            for turn in range(arguments.rounds):
                for side in SIDES if turn % 2 else reversed(SIDES):
                    times[kind][side] += small_times(servers[side], kind, arguments.seconds)
    publish(times, arguments)
    return None


def small_times(server: ServerProcess, flood: str, seconds: float) -> list[float]:
    """Times of small requests while a kind of request floods the server; of a quiet server without a kind."""

    def client(kind: str, lasts: float) -> list[str]:
        return [sys.executable, __file__, "--seconds", str(lasts), "--client", kind, server.url]

    with ExitStack() as stack:
        if flood:
            lasts = HEAD_START + seconds
            stack.enter_context(subprocess.Popen(client(flood, lasts)))
            time.sleep(HEAD_START)  # so that the flood is in full flow
        found: list[float] = json.loads(subprocess.check_output(client("small", seconds)))
    return found


def send_small(url: str, seconds: float) -> None:
    """Send small requests one after another, and print their times."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=300)
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        connection.request("POST", "/highlights", json.dumps(SMALL), JSON)
        answer = connection.getresponse()
        answer.read()
        times.append(time.perf_counter() - began)
        assert answer.status == httpx.codes.OK, answer.status
        time.sleep(PAUSE)  # a client that leaves the cores to others
    print(json.dumps(times))


def send_large(url: str, kind: str, seconds: float) -> None:
    """Send large requests from many threads, which give way to every other, and end them with the time."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    path, request = WORST[kind]
    body, end = json.dumps(request).encode(), time.monotonic() + seconds

    def send() -> None:
        while (left := end - time.monotonic()) > 0:
            headers = JSON | {"content-length": str(len(body)), "request-timeout-ms": str(1 + int(1000 * left))}
            pieces = (body[start : start + PIECE] for start in range(0, len(body), PIECE))
            with httpx.stream("POST", url + path, content=pieces, headers=headers, timeout=60) as answer:
                for _ in answer.iter_raw():
                    pass
            if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
                time.sleep(0.1)  # a client that retries after a while

    threads = [threading.Thread(target=send) for _ in range(SENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def publish(times: dict[str, dict[str, list[float]]], arguments: argparse.Namespace) -> None:
    """Print the table and keep the record."""
    around = record.circumstances()
    usual = median(times[""][SIDES[-1]])
    percentiles = {
        kind: {side: [1000 * quantiles(each, n=100)[rank - 1] for rank in (50, 90, 99)] for side, each in sides.items()}
        for kind, sides in times.items()
    }
    slowest = max(kinds[SIDES[-1]][1] for kind, kinds in percentiles.items() if kind)
    goal = Goal("slowest tenth of small requests in a flood, times the usual", slowest / (1000 * usual), most=10)
    rows = [
        f"| {kind or 'nothing else'} | " + " | ".join(f"{value:.2f}" for side in SIDES for value in sides[side]) + " |"
        for kind, sides in percentiles.items()
    ]
    lines = [
        *record.heading(CLAIM, around),
        f"Milliseconds of a small request: median, 90th and 99th percentile of {arguments.rounds} turns of "
        f"{arguments.seconds:.0f} s, with computing threads of the same and of a lower priority.",
        "",
        "| 8 clients send | nice 0 | p90 | p99 | nice 10 | p90 | p99 |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *rows,
        "",
        goal.line(),
    ]
    raw = around | {"milliseconds": percentiles, "goals": [asdict(goal)]}
    record.publish(CLAIM, raw, "\n".join(lines) + "\n", keeps=not arguments.no_record)


if __name__ == "__main__":
    main()
