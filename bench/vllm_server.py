"""A running ``vllm serve`` with the plugins, and its requests, for `bench/inside_vllm.py`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np

PYTHON = Path(__file__).resolve().parents[1] / ".make" / "vllm" / "bin" / "python"
# vLLM's environment: little memory, no network, and both plugins.
ENVIRONMENT = os.environ | {
    "VLLM_PLUGINS": "pullquote",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "HF_HUB_OFFLINE": "1",
    "PYTHONWARNINGS": "ignore",
}
MODEL = "minilm"
HERE = "/v1/highlights"
POOLING = "/pooling"
JSON = {"content-type": "application/json"}


class Vllm:
    """A running ``vllm serve``; `log` is its output so far."""

    def __init__(self, folder: Path, port: int) -> None:
        """Start it, and wait until it is healthy."""
        self._log = folder / "vllm.log"
        self.url = f"http://127.0.0.1:{port}"
        command = [str(PYTHON), "-m", "vllm.entrypoints.cli.main", "serve", str(folder / MODEL)]
        command += ["--served-model-name", MODEL, "--runner", "pooling", "--io-processor-plugin", "pullquote"]
        command += ["--enforce-eager", "--dtype", "float32", "--host", "127.0.0.1", "--port", str(port)]
        command += ["--disable-uvicorn-access-log"]
        began = time.monotonic()
        with self._log.open("a") as log:
            self.process = subprocess.Popen(
                command, env=ENVIRONMENT, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self.client = httpx.Client(base_url=self.url, timeout=300)
        while not self._is_healthy():
            if self.process.poll() is not None or time.monotonic() - began > 400:
                self.stop()
                message = f"vLLM did not start:\n{self.log[-6000:]}"
                raise RuntimeError(message)
            time.sleep(0.5)
        self.started = time.monotonic() - began

    @property
    def log(self) -> str:
        """Its output so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def _is_healthy(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return self.client.get("/health", timeout=5).status_code == 200
        return False

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = self.client.get("/metrics").text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{re.escape(name)}[ {{]", line))

    def memory(self) -> int:
        """Resident megabytes of the API server."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") // 2**20

    def stop(self) -> int:
        """End it as an operator does; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(60)
        finally:
            # Its own processes normally end with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.client.close()
        return code


def ask(vllm: Vllm, path: str, body: Any) -> httpx.Response:
    """Send a request to either route."""
    sent = body if path == HERE else {"model": MODEL, "data": body}
    # Lone surrogates are no UTF-8, but JSON has a way to write them.
    return vllm.client.post(path, content=json.dumps(sent).encode(), headers=JSON)


def answered(vllm: Vllm, path: str, body: Any) -> dict[str, Any]:
    """The answer, without the route's envelope."""
    response = ask(vllm, path, body)
    if response.status_code != 200:
        message = f"{path}: {response.status_code} {response.text[:500]}\n{vllm.log[-3000:]}"
        raise AssertionError(message)
    told: dict[str, Any] = response.json()
    return told if path == HERE else told["data"]


@contextlib.contextmanager
def looking_at_health(vllm: Vllm) -> Iterator[list[float]]:
    """Request health repeatedly meanwhile; yields the list of each answer's milliseconds."""
    took: list[float] = []
    over = threading.Event()

    def look() -> None:
        with httpx.Client(base_url=vllm.url, timeout=60) as client:
            while not over.wait(0.01):
                began = time.perf_counter()
                client.get("/health")
                took.append((time.perf_counter() - began) * 1000)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield took
    finally:
        over.set()
        thread.join()


def quantiles(took: list[float]) -> dict[str, float]:
    """Median, 99th percentile and the longest."""
    return {"median": median(took), "p99": float(np.quantile(took, 0.99)), "longest": max(took), "looks": len(took)}


def hang_up(vllm: Vllm, path: str, body: Any, after: float) -> None:
    """Send a request, and disconnect before the answer."""
    sent = json.dumps(body if path == HERE else {"model": MODEL, "data": body}).encode()
    host, port = vllm.url.removeprefix("http://").split(":")
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {len(sent)}\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(head.encode() + sent)
        time.sleep(after)


def until_idle(vllm: Vllm) -> float:
    """Seconds until vLLM and the plugins have no earlier requests left."""
    began = time.monotonic()
    while time.monotonic() - began < 60:
        # vLLM updates the metric at the end of a step, so one must run.
        answered(vllm, HERE, {"query": f"moon {time.monotonic()}", "documents": ["The moon."]})
        left = [
            vllm.metric(name)
            for name in (
                "vllm:num_requests_running",
                "vllm:num_requests_waiting",
                "pullquote_requests_in_flight",
                "pullquote_requests_planned",
            )
        ]
        if not any(left):
            return time.monotonic() - began
        time.sleep(0.05)
    return float("inf")


def free_port() -> int:
    """Find a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
