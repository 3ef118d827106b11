"""Claim: the same model function answers far more requests a second in `pullquote serve` than in FastAPI.

Reproduces the published comparison: 40 users send a text each, again after each answer; batches of at most 50 wait 100 ms
for more. FastAPI and uvicorn with an asyncio queue (`bench/fastapi_server.py`) against `pullquote serve --encoder`, with the
same Python function (`bench/serving_models.py`), the same batch size, and the same wait, or none, which is our default.

Both servers run all the time, and the load alternates between them. The load is `wrk`, one thread in C; its rate on `/live`
shows that it is not the limit. The function alone is measured in a separate process, in a loop over batches of one text for
each user.

Then our own encoder in its server: 32 texts a request, against the same texts through `Highlighter.embed`.

    sudo apt-get install wrk
    .venv/bin/python bench/serving.py
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import httpx

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pullquote
from bench import record
from bench.goals import Goal
from bench.record import spread

CLAIM = "serving"
USERS, BATCH_SIZE, BATCH_TIMEOUT = 40, 50, 0.1
TEXT = "Who was put on trial for the loss of the ship, and what did the court decide in the end?"
TEXTS_A_REQUEST = 32
# Factors of the turns' lengths: at first no user has an answer for the time of a batch, which must be small against a turn.
MODELS = {"one_millisecond": 1, "minilm": 3, "encoder_125m": 6}
WARM_UP = 3.0  # seconds, enough for a batch of the slowest model
FASTAPI, OURS_WAITING, OURS = "FastAPI, waiting 100 ms", "pullquote, waiting 100 ms", "pullquote"
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


@dataclass(frozen=True, slots=True)
class Load:
    """The result of a turn: answers a second, seconds of an answer, and the server's processor time for one."""

    rate: float
    median: float
    p99: float
    cpu_seconds: float


class Server:
    """A server's process and its address."""

    def __init__(
        self,
        command: list[str],
        port: int,
        environment: dict[str, str],
        *,
        path: str = "/embed",
        body: dict[str, object] | None = None,
    ) -> None:
        """Start it, and wait until it answers this body at this path."""
        self.url = f"http://127.0.0.1:{port}"
        self.question = (self.url + path, body or {"inputs": TEXT})
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the server
        self.process = subprocess.Popen(
            command, cwd=record.REPOSITORY, env=os.environ | environment, stdout=self.log, stderr=self.log
        )
        until = time.monotonic() + 120
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                self.log.seek(0)
                message = f"{command} did not start: {self.log.read().decode(errors='replace')}"
                raise RuntimeError(message)
            time.sleep(0.1)  # FastAPI's server does not signal that it is ready, so both are polled

    def _answers(self) -> bool:
        try:
            url, body = self.question
            return httpx.post(url, json=body, timeout=60).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def cpu_seconds(self) -> float:
        """Read the processor time of all its threads so far, and of its worker processes."""
        workers = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return sum(map(_cpu_seconds, [str(self.process.pid), *workers]))

    def close(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait()
        self.log.close()


def _cpu_seconds(process: str) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def fastapi(model: str) -> Iterator[Server]:
    """Start FastAPI with a model's function."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "bench.fastapi_server:app", "--port", str(port), "--log-level", "error"]
    settings = {"MODEL": function(model), "BATCH_SIZE": str(BATCH_SIZE), "BATCH_TIMEOUT": str(BATCH_TIMEOUT)}
    server = Server(command, port, settings)
    try:
        yield server
    finally:
        server.close()


@contextlib.contextmanager
def ours(*options: str) -> Iterator[Server]:
    """Start our server."""
    port = free_port()
    command = [sys.executable, "-m", "pullquote", "serve", "--port", str(port), "--log-level", "error", *options]
    server = Server(command, port, {})
    try:
        yield server
    finally:
        server.close()


def function(model: str) -> str:
    """The name of a model's function for both servers."""
    return f"bench.serving_models:{model}"


def free_port() -> int:
    """Find a free port."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def ask(server: Server, seconds: float, body: str | None, users: int = USERS, route: str = "/embed") -> Load:
    """Send requests as all users, each again after its answer."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        if body is not None:
            script.write(
                f"wrk.method = 'POST'\nwrk.headers['content-type'] = 'application/json'\nwrk.body = [[{body}]]\n"
            )
        script.flush()
        before = server.cpu_seconds()
        command = ["wrk", "-t1", f"-c{users}", f"-d{seconds:.0f}s", "--timeout", "30s", "--latency", "-s", script.name]
        told = subprocess.run([*command, server.url + route], check=True, capture_output=True, text=True).stdout
        used = server.cpu_seconds() - before
    (count,) = map(int, re.findall(r"(\d+) requests in", told))
    if "Non-2xx" in told or "Socket errors" in told or not count:
        message = f"some requests failed, or all are still waited for: {told}"
        raise RuntimeError(message)
    (rate,) = map(float, re.findall(r"Requests/sec:\s+([\d.]+)", told))
    times = {
        share: float(number) * UNITS[unit]
        for share, number, unit in re.findall(r"(50|99)%\s+([\d.]+)(us|ms|s|m)", told)
    }
    return Load(rate, times["50"], times["99"], used / count)


ALONE = """
import sys, time
from bench import serving_models
encode, texts = getattr(serving_models, sys.argv[1]), [sys.argv[2]] * int(sys.argv[3])
encode(texts)
began, done = time.perf_counter(), 0
while time.perf_counter() - began < float(sys.argv[4]):
    encode(texts)
    done += len(texts)
print(done / (time.perf_counter() - began))
"""


def alone(model: str, seconds: float) -> float:
    """Texts a second of the function alone."""
    command = [sys.executable, "-c", ALONE, model, TEXT, str(USERS), str(seconds)]
    told = subprocess.run(command, check=True, capture_output=True, text=True, cwd=record.REPOSITORY).stdout
    return float(told)


def compare(model: str, seconds: float, rounds: int) -> tuple[dict[str, list[Load]], list[float]]:
    """Measure all servers, alternating."""
    body = json.dumps({"inputs": TEXT})
    options = ["--encoder", function(model), "--max-batch-size", str(BATCH_SIZE)]
    loads: dict[str, list[Load]] = {FASTAPI: [], OURS_WAITING: [], OURS: []}
    by_itself: list[float] = []
    with (
        fastapi(model) as theirs,
        ours(*options, "--batch-timeout", str(BATCH_TIMEOUT)) as waiting,
        ours(*options) as own,
    ):
        sides = {FASTAPI: theirs, OURS_WAITING: waiting, OURS: own}
        for number in range(rounds):
            for name in list(sides)[number % 3 :] + list(sides)[: number % 3]:
                ask(sides[name], WARM_UP, body)
                loads[name].append(ask(sides[name], seconds, body))
                print(f"{model}: {name} {loads[name][-1].rate:.1f} a second", file=sys.stderr)
            by_itself.append(alone(model, seconds))
            print(f"{model}: alone {by_itself[-1]:.1f} a second", file=sys.stderr)
    return loads, by_itself


def native(seconds: float, rounds: int) -> tuple[list[float], list[float]]:
    """Texts a second through our server, and of the same encoder in process."""
    texts = [f"{number}. {TEXT} {TEXT}" for number in range(8 * TEXTS_A_REQUEST)]
    served: list[float] = []
    in_process: list[float] = []
    with ours() as server, pullquote.Highlighter() as highlighter:
        body = json.dumps({"inputs": texts[:TEXTS_A_REQUEST]})
        for _ in range(rounds):
            ask(server, 3, body, users=8)
            served.append(ask(server, seconds, body, users=8).rate * TEXTS_A_REQUEST)
            began, done = time.perf_counter(), 0
            while time.perf_counter() - began < seconds:
                done += len(highlighter.embed(texts))
            in_process.append(done / (time.perf_counter() - began))
            print(f"native: {served[-1]:.1f} served, {in_process[-1]:.1f} in process", file=sys.stderr)
    return served, in_process


def main() -> None:
    """Measure and keep the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of the shortest turns (default: %(default)s)")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--no-record", action="store_true", help="print only")
    arguments = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("bench/serving.py needs wrk, the load generator: sudo apt-get install wrk")
    around = record.circumstances() | {"rounds": arguments.rounds, "seconds": arguments.seconds, "users": USERS}
    lines = [
        *record.heading(CLAIM, around),
        f"{USERS} users, batches of at most {BATCH_SIZE}; medians of {arguments.rounds} turns of {arguments.seconds:.0f} s, "
        f"{' and '.join(f'{times} times that for {name}' for name, times in MODELS.items() if times > 1)} (least to most)",
        "",
    ]
    raw: dict[str, object] = dict(around)
    goals: list[Goal] = []
    with ours("--encoder", function("one_millisecond")) as server:
        limit = ask(server, arguments.seconds, None, route="/live").rate
    raw["live"] = limit
    lines += [f"wrk gets {limit:,.0f} answers a second from `/live`, which computes nothing.", ""]
    for model in arguments.models:
        loads, by_itself = compare(model, MODELS[model] * arguments.seconds, arguments.rounds)
        raw[model] = {name: [asdict(load) for load in each] for name, each in loads.items()} | {"alone": by_itself}
        lines += table(model, loads, by_itself)
        theirs = [load.rate for load in loads[FASTAPI]]
        mine = [load.rate for load in loads[OURS]]
        if model == "one_millisecond":
            ratio = median(one / two for one, two in zip(mine, theirs, strict=True))
            goals.append(Goal("answers a second over FastAPI's, a millisecond a batch", ratio, least=10, form=".1f"))
        else:
            ratio = median(one / two for one, two in zip(mine, by_itself, strict=True))
            goals.append(Goal(f"answers a second over what {model} does alone", ratio, least=0.95))
    served, in_process = native(arguments.seconds, arguments.rounds)
    raw |= {"native": {"served": served, "in_process": in_process}}
    ratios = [one / two for one, two in zip(served, in_process, strict=True)]
    lines += [
        f"Our own encoder, {TEXTS_A_REQUEST} texts a request, 8 users: {spread(served, ',.0f')} texts a second come to the "
        f"users, {spread(in_process, ',.0f')} in process; ratio {spread(ratios)}.",
        "",
    ]
    goals.append(Goal("our own encoder's texts a second, served over in process", median(ratios), least=0.95))
    raw["goals"] = [asdict(goal) for goal in goals]
    lines += [goal.line() for goal in goals]
    record.publish(CLAIM, raw, "\n".join(lines) + "\n", keeps=not arguments.no_record)


def table(model: str, loads: dict[str, list[Load]], by_itself: list[float]) -> list[str]:
    """Write the table of a model."""

    def row(name: str, each: list[Load]) -> str:
        columns = [
            spread([load.rate for load in each], ",.1f"),
            f"{1000 * median(load.median for load in each):,.1f}",
            f"{1000 * median(load.p99 for load in each):,.1f}",
            f"{1000 * median(load.cpu_seconds for load in each):,.2f}",
        ]
        return f"| {name} | {' | '.join(columns)} |"

    return [
        f"{model}, which alone does {spread(by_itself, ',.1f')} texts a second in batches of {USERS}:",
        "",
        "| server | answers a second | median, ms | 99th percentile, ms | CPU a request, ms |",
        "|---|---:|---:|---:|---:|",
        *(row(name, each) for name, each in loads.items()),
        "",
    ]


if __name__ == "__main__":
    main()
