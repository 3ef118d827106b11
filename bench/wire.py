"""Claim: the server sends vectors at the speed of a socket, and our client receives them at that speed.

Reproduces the published experiment: FastAPI that answers with numbers, by orjson and with raw bytes (`bench/wire_server.py`, a
worker for each core), against `pullquote serve` with JSON, base64 and raw bytes; read by aiohttp, httpx, `openai`,
baseten-performance-client and our own clients (`bench/wire_clients.py`, each a process of its own), into numpy always. The
model is a fixed matrix on both sides (`serving_models.fixed_matrix`), so that only the wire is measured: 32 and 256 vectors of
1,024 float32 a request, 10 and 40 requests in flight. Both servers give the model all texts of a request at once.

A call of our client is many requests, whose vectors arrive in one array. "aiohttp, one array" does the same with aiohttp.
Server and client share the machine's cores, so the table also has the rates for one second of a core, by the processor time
of both together.

All servers run all the time, and every pair of a server and a client runs once in each round. iperf3 measures the rate of a
bare loopback socket between two processes in the same rounds.

    sudo apt-get install iperf3
    .venv/bin/python bench/wire.py
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record
from bench.goals import Goal
from bench.machine_noise import Meter, cores
from bench.record import spread
from bench.serving import Server, free_port, function

CLAIM = "wire"
DIMENSION = 1024
SIZES, IN_FLIGHT = (32, 256), (10, 40)
ROW_BYTES = 4 * DIMENSION
PUBLISHED_GBIT = 1.9


@dataclass(frozen=True, slots=True)
class Side:
    """A server's route and the client that reads it."""

    server: str
    kind: str
    client: str

    @property
    def name(self) -> str:
        """The names of both."""
        return f"{self.server} {self.kind}, {self.client}"


@dataclass(frozen=True, slots=True)
class Load:
    """A client's result: requests a second, and the processor time of one, the server's and its own."""

    rate: float
    server_cpu: float
    client_cpu: float


JSON, ORJSON, RAW = (Side("FastAPI", kind, "aiohttp") for kind in ("json", "orjson", "raw"))
RAW_TO_OURS = Side("FastAPI", "raw", "pullquote.Client")
OURS_JSON, OURS_BASE64, OURS_RAW = (Side("pullquote", kind, "aiohttp") for kind in ("json", "base64", "raw"))
OURS_TO_ONE_ARRAY = Side("pullquote", "raw", "aiohttp, one array")
OURS_TO_HTTPX = Side("pullquote", "raw", "httpx")
OURS_TO_OPENAI = Side("pullquote", "base64", "openai")
OURS_TO_BASETEN = Side("pullquote", "base64", "baseten-performance-client")
OURS_TO_OURS = Side("pullquote", "raw", "pullquote.Client")
OURS_TO_ASYNC = Side("pullquote", "raw", "pullquote.AsyncClient")
SIDES = [
    JSON,
    ORJSON,
    RAW,
    RAW_TO_OURS,
    OURS_JSON,
    OURS_BASE64,
    OURS_TO_OPENAI,
    OURS_TO_BASETEN,
    OURS_RAW,
    OURS_TO_ONE_ARRAY,
    OURS_TO_HTTPX,
    OURS_TO_ASYNC,
    OURS_TO_OURS,
]


def fastapi() -> Server:
    """Start FastAPI with its workers."""
    port = free_port()
    workers = ["--workers", str(cores())]
    command = [sys.executable, "-m", "uvicorn", "bench.wire_server:app", "--port", str(port), "--log-level", "error"]
    return Server([*command, *workers], port, {}, path="/json/embed", body={"inputs": ["a"]})


def ours() -> Server:
    """Start our server."""
    port = free_port()
    command = [sys.executable, "-m", "pullquote", "serve", "--port", str(port), "--log-level", "error"]
    # FastAPI's route also gives the model all texts of a request.
    model = ["--served-model-name", "m", "--encoder", function("fixed_matrix"), "--max-batch-size", str(max(SIZES))]
    return Server([*command, *model], port, {}, path="/embed", body={"inputs": ["a"]})


def ask(side: Side, server: Server, rows: int, in_flight: int, seconds: float) -> Load:
    """Measure one client with one server."""
    url = f"{server.url}/{side.kind}" if side.server == "FastAPI" else server.url
    asked = [side.client, side.kind, url, str(rows), str(in_flight), str(seconds)]
    before = server.cpu_seconds()
    told = subprocess.run(
        [sys.executable, "-m", "bench.wire_clients", *asked],
        cwd=record.REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if told.returncode:
        message = f"{side.name} failed: {told.stderr}"
        raise RuntimeError(message)
    got = json.loads(told.stdout)
    used = server.cpu_seconds() - before
    # The server's time includes a third of a second of requests before the clock started.
    share = got["seconds"] / (got["seconds"] + 0.3)
    count = max(got["requests"], 1)
    return Load(got["requests"] / got["seconds"], used * share / count, got["cpu_seconds"] / count)


def loopback(seconds: float) -> float:
    """Bytes a second of a socket between two processes."""
    port = free_port()
    listening = subprocess.Popen(
        ["iperf3", "-s", "-1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 10
        command = ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-t", f"{seconds:.0f}", "-J"]
        while True:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            received = json.loads(done.stdout)["end"].get("sum_received") if done.returncode == 0 else None
            if received:
                return float(received["bits_per_second"]) / 8
            if time.monotonic() > until:
                message = f"iperf3 failed: {done.stdout}"
                raise RuntimeError(message)
            time.sleep(0.1)
    finally:
        listening.terminate()
        listening.wait()


def main() -> None:
    """Measure and keep the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each turn (default: %(default)s)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="vectors a request")
    parser.add_argument("--in-flight", type=int, nargs="+", default=IN_FLIGHT, help="requests at the same time")
    parser.add_argument("--sides", nargs="+", default=[""], help="only those whose names have one of these in them")
    parser.add_argument("--no-record", action="store_true", help="print only")
    arguments = parser.parse_args()
    if shutil.which("iperf3") is None:
        sys.exit("bench/wire.py needs iperf3, which says what a bare socket carries: sudo apt-get install iperf3")
    around = record.circumstances() | {"rounds": arguments.rounds, "seconds": arguments.seconds}
    raw: dict[str, object] = dict(around)
    lines = [
        *record.heading(CLAIM, around),
        f"Vectors of {DIMENSION} float32 into numpy; medians of {arguments.rounds} turns of {arguments.seconds:.0f} s (least to "
        f"most). FastAPI has {cores()} workers.",
        "",
    ]
    sides = [side for side in SIDES if any(part in side.name for part in arguments.sides)]
    goals: list[Goal] = []
    meter = Meter()
    with ExitStack() as stack:
        servers = {"FastAPI": fastapi(), "pullquote": ours()}
        for server in servers.values():
            stack.callback(server.close)
        for rows in arguments.sizes:
            for in_flight in arguments.in_flight:
                bare, loads = measure(servers, sides, rows, in_flight, arguments.rounds, arguments.seconds)
                raw[f"{rows} x {in_flight}"] = {"loopback": bare} | {
                    side.name: [asdict(load) for load in each] for side, each in loads.items()
                }
                lines += table(rows, in_flight, bare, loads)
                if (rows, in_flight) == (max(arguments.sizes), max(arguments.in_flight)):
                    goals = judged(rows, bare, loads)
    use = meter.stop()
    raw |= {"goals": [asdict(goal) for goal in goals], "core_use": asdict(use)}
    lines += [goal.line() for goal in goals]
    lines += ["", f"Others used {use.others:.1f} cores meanwhile."]
    record.publish(CLAIM, raw, "\n".join(lines) + "\n", keeps=not arguments.no_record)


def measure(
    servers: dict[str, Server], sides: list[Side], rows: int, in_flight: int, rounds: int, seconds: float
) -> tuple[list[float], dict[Side, list[Load]]]:
    """Measure every side in each round, beginning with another one each time."""
    loads: dict[Side, list[Load]] = {side: [] for side in sides}
    bare: list[float] = []
    for number in range(rounds):
        bare.append(loopback(max(1.0, seconds / 2)))
        first = number * len(sides) // max(rounds, 1)
        for side in sides[first:] + sides[:first]:
            load = ask(side, servers[side.server], rows, in_flight, seconds)
            loads[side].append(load)
            print(f"{rows} x {in_flight}: {side.name} {load.rate:,.1f} a second", file=sys.stderr)
    return bare, loads


def table(rows: int, in_flight: int, bare: list[float], loads: dict[Side, list[Load]]) -> list[str]:
    """Write the table of a size."""

    def row(side: Side, each: list[Load]) -> str:
        rates = [load.rate for load in each]
        columns = [
            spread(rates, ",.1f"),
            f"{median(rates) * rows * ROW_BYTES * 8 / 1e9:.2f}",
            spread(ratios(loads, side, JSON), ".1f") if JSON in loads else "",
            f"{1000 * median(load.server_cpu for load in each):,.2f}",
            f"{1000 * median(load.client_cpu for load in each):,.2f}",
            f"{median(rows * ROW_BYTES * 8 / 1e9 / (load.server_cpu + load.client_cpu) for load in each):.2f}",
        ]
        return f"| {side.server} {side.kind} | {side.client} | {' | '.join(columns)} |"

    return [
        f"{rows} vectors a request, {in_flight} in flight; a bare socket carries "
        f"{spread([rate * 8 / 1e9 for rate in bare], '.1f')} Gbit/s:",
        "",
        "| server | client | requests a second | Gbit/s of vectors | over FastAPI json | server CPU, ms | client CPU, ms | "
        "Gbit for a second of a core |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
        *(row(side, each) for side, each in loads.items()),
        "",
    ]


def ratios(loads: dict[Side, list[Load]], over: Side, under: Side) -> list[float]:
    """Compare two sides, round by round."""
    return [one.rate / two.rate for one, two in zip(loads[over], loads[under], strict=True)]


def judged(rows: int, bare: list[float], loads: dict[Side, list[Load]]) -> list[Goal]:
    """The lines of the goals of the sides that were measured."""
    wanted = [
        (OURS_TO_OURS, JSON, 100.0, "our raw vectors, read by our client, over FastAPI's JSON read by aiohttp"),
        (OURS_TO_OURS, RAW_TO_OURS, 9.0, "our raw vectors over FastAPI's, the same client"),
        (OURS_RAW, RAW, 1.0, "the same, both read by aiohttp"),
        (OURS_JSON, ORJSON, 3.0, "our JSON over orjson's, both read by aiohttp"),
        (OURS_TO_OURS, OURS_RAW, 2.0, "our client over aiohttp, the same raw route"),
        (OURS_TO_OURS, OURS_TO_ONE_ARRAY, 2.0, "the same, over aiohttp that fills one array as ours does"),
        (OURS_TO_OURS, OURS_TO_BASETEN, 3.0, "our client over baseten-performance-client on base64, into numpy"),
    ]
    measured = [each for each in wanted if each[0] in loads and each[1] in loads]
    goals = [Goal(what, median(ratios(loads, over, under)), least=least) for over, under, least, what in measured]
    if OURS_TO_OURS not in loads:
        return goals
    carried = [load.rate * rows * ROW_BYTES for load in loads[OURS_TO_OURS]]
    shares = [one / two for one, two in zip(carried, bare, strict=True)]
    goals.append(Goal("our raw vectors over what a bare socket carries", median(shares), least=0.5))
    goals.append(Goal("Gbit/s of our raw vectors", median(carried) * 8 / 1e9, least=PUBLISHED_GBIT, form=".1f"))
    return goals


if __name__ == "__main__":
    main()
