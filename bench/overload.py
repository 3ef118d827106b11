"""Claim: a server under twenty times its capacity answers the accepted requests in time, and refuses others cheaply.

The model does ten batches of eight texts a second and uses no core, so what the server uses is for requests. Patient clients,
as many as the server accepts, send requests with pauses; meanwhile `wrk` sends requests on hundreds of connections as fast as
it is refused, far more than twenty times the capacity. The cost of a refusal is the server's processor time over all requests
of that time, and, at a hundred refusals a second, the `x-total-time` of its answers.

    sudo apt-get install wrk
    .venv/bin/python bench/overload.py
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record
from bench.goals import Goal
from bench.options import add_no_record, claim_parser
from bench.serving import TEXT, Server, function, ours

CLAIM = "overload"
BATCH, BATCH_SECONDS = 8, 0.1
CONCURRENT, QUEUE = 16, 32
CONNECTIONS = 20 * (CONCURRENT + QUEUE)
CAPACITY = BATCH / BATCH_SECONDS  # answers a second
# An accepted request waits for all earlier ones, with two batches in flight, on two cores that two other processes fill:
# five times the arithmetic is allowed.
LONGEST = 5 * (CONCURRENT + QUEUE + 2 * BATCH) / CAPACITY


def main() -> None:
    """Measure, print, keep."""
    parser = claim_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of overload (default: %(default)s)")
    add_no_record(parser)
    arguments = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("bench/overload.py needs wrk, the load generator: sudo apt-get install wrk")
    around = record.circumstances()
    bounds = ["--max-concurrent", str(CONCURRENT), "--max-queue", str(QUEUE), "--max-batch-size", str(BATCH)]
    with ours("--encoder", function("hundred_milliseconds"), *bounds) as server:
        measured = flood(server, arguments.seconds)
        measured["quiet_refusals"] = refusals(server, min(10.0, arguments.seconds))
    raw = around | measured
    goals = judge(measured)
    raw["goals"] = [asdict(goal) for goal in goals]
    times = measured["accepted"]
    lines = [
        *record.heading(CLAIM, around),
        f"A server with a capacity of {CAPACITY:.0f} requests a second gets "
        f"{measured['offered'] / arguments.seconds:,.0f} a second over {CONNECTIONS} connections, for {arguments.seconds:.0f} s.",
        "",
        f"- accepted: {len(times)} requests of patient users, answered after {median(times):.2f} s, at most "
        f"{max(times):.2f} s, none lost",
        f"- {measured['offered'] - measured['refused'] + len(times):,} were answered in all, of the "
        f"{CAPACITY * arguments.seconds:,.0f} possible on idle cores",
        f"- refused: {measured['refused']:,}; processor time of the server a request {1e6 * measured['cpu_seconds']:.0f} µs",
        f"- a refusal by itself takes the server {1000 * median(measured['quiet_refusals']):.3f} ms, 99th percentile "
        f"{1000 * p99(measured['quiet_refusals']):.3f} ms",
        f"- resident memory {min(measured['resident']) / 1e6:.0f} to {max(measured['resident']) / 1e6:.0f} MB",
        "",
        *(goal.line() for goal in goals),
    ]
    record.publish(CLAIM, raw, "\n".join(lines) + "\n", keeps=not arguments.no_record)


def judge(measured: dict[str, Any]) -> list[Goal]:
    """Compare with the goals."""
    resident = measured["resident"]
    return [
        Goal("requests a second over what can be done", measured["offered"] / measured["seconds"] / CAPACITY, least=20),
        Goal("seconds until an accepted request is answered, the longest", max(measured["accepted"]), most=LONGEST),
        Goal("milliseconds of processor time a refusal", 1000 * measured["cpu_seconds"], most=1, form=".3f"),
        Goal("milliseconds of a refusal, 99th percentile", 1000 * p99(measured["quiet_refusals"]), most=1, form=".3f"),
        Goal("memory in the last quarter over that in the first", quarters(resident), most=1.1, form=".3f"),
    ]


def flood(server: Server, seconds: float) -> dict[str, Any]:
    """Overload the server, with patient clients at the same time."""
    over = threading.Event()
    resident: list[int] = []
    before = server.cpu_seconds()
    with ThreadPoolExecutor(CONCURRENT + QUEUE) as users:
        patient = [users.submit(ask_patiently, server.url, over) for _ in range(CONCURRENT)]
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
            body = json.dumps({"inputs": TEXT})
            script.write(
                f"wrk.method = 'POST'\nwrk.headers['content-type'] = 'application/json'\nwrk.body = [[{body}]]\n"
            )
            script.flush()
            command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds:.0f}s", "--timeout", "60s", "-s", script.name]
            flooding = subprocess.Popen([*command, server.url + "/embed"], stdout=subprocess.PIPE, text=True)
            began = time.perf_counter()
            while flooding.poll() is None:
                time.sleep(seconds / 100)  # between two readings of memory
                if time.perf_counter() - began > seconds / 10:
                    resident.append(resident_bytes(server.process.pid))
            told = flooding.communicate()[0]
        over.set()
        accepted = [taken for user in patient for taken in user.result()]
    used = server.cpu_seconds() - before
    count = number(told, r"(\d+) requests in")
    if "Socket errors" in told:
        message = f"some requests were lost: {told}"
        raise RuntimeError(message)
    refused = number(told, r"Non-2xx or 3xx responses: (\d+)")
    return {
        "seconds": seconds,
        "offered": count,
        "refused": refused,
        "accepted": accepted,
        "cpu_seconds": used / (count + len(accepted)),
        "resident": resident,
    }


def ask_patiently(url: str, over: threading.Event) -> list[float]:
    """Send requests until `over`, again after a refusal; returns the duration of each accepted one."""
    taken = []
    with httpx.Client(base_url=url, timeout=120) as client:
        while not over.is_set():
            began = time.perf_counter()
            answer = client.post("/embed", json={"inputs": TEXT})
            if answer.status_code == httpx.codes.OK:
                assert len(answer.json()) == 1
                taken.append(time.perf_counter() - began)
            else:
                assert answer.status_code == httpx.codes.TOO_MANY_REQUESTS, answer.text
                over.wait(0.05)  # a patient client retries after a while
    return taken


def refusals(server: Server, seconds: float) -> list[float]:
    """Fill the server, and send a hundred requests a second that it refuses; returns the server's own duration of each."""
    over = threading.Event()
    taken: list[float] = []
    # Enough concurrent clients to keep the queue full.
    with ThreadPoolExecutor(2 * (CONCURRENT + QUEUE)) as users, httpx.Client(base_url=server.url, timeout=60) as client:
        full = [users.submit(ask_patiently, server.url, over) for _ in range(2 * (CONCURRENT + QUEUE))]
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            answer = client.post("/embed", json={"inputs": TEXT})
            if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
                taken.append(float(answer.headers["x-total-time"]) / 1000)
            time.sleep(0.01)  # a hundred a second
        over.set()
        for user in full:
            user.result()
    return taken


def quarters(resident: list[int]) -> float:
    """Compare the last quarter of the readings of memory with the first."""
    quarter = len(resident) // 4
    return median(resident[-quarter:]) / median(resident[:quarter])


def p99(values: list[float]) -> float:
    """Return the 99th percentile."""
    return quantiles(values, n=100)[98]


def number(told: str, pattern: str) -> int:
    """Find a number in the output of wrk; 0 if it is absent."""
    found = re.search(pattern, told)
    return int(found[1]) if found else 0


def resident_bytes(process: int) -> int:
    """Read a process' resident memory from Linux."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmRSS")))


if __name__ == "__main__":
    main()
