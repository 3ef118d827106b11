"""``pullquote serve`` as a process, with its address, a client and its log."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest


class StartError(Exception):
    """The server ended before it listened; the message is its log."""

    def __init__(self, exit_code: int, log: str) -> None:
        super().__init__(log)
        self.exit_code = exit_code


class ServerProcess:
    """A running server; `log` is its standard error so far."""

    def __init__(self, *options: str, device: str | None = "cpu", prefix: Sequence[str] = ()) -> None:
        """`prefix` is the command that runs the server's."""
        self._log = tempfile.NamedTemporaryFile(suffix=".log")  # noqa: SIM115 - closed with the server
        on = [] if device is None else ["--device", device]
        command = [*prefix, sys.executable, "-m", "pullquote", "serve", "--json", "--port", "0", *on, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            error = StartError(self.process.wait(), self.log)
            self.process.stdout.close()
            self._log.close()
            raise error
        self.started: dict[str, Any] = json.loads(line)
        self.url: str = self.started["url"]
        self.client = httpx.Client(base_url=self.url, timeout=60)

    @property
    def log(self) -> str:
        return Path(self._log.name).read_text(encoding="utf-8")

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.url.removeprefix("http://").split(":")
        return host, int(port)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=60)

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """The exit code."""
        # The server lingers for two seconds where a client keeps its connection.
        self.client.close()
        return self.process.wait(60)

    def close(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        self._log.close()


@contextlib.contextmanager
def running_server(*options: str, device: str | None = "cpu", prefix: Sequence[str] = ()) -> Iterator[ServerProcess]:
    """Start a server for a test that stops it or needs its own settings; others share the fixture `server`."""
    server = ServerProcess(*options, device=device, prefix=prefix)
    try:
        yield server
    finally:
        server.close()


@contextlib.contextmanager
def letter_server(*options: str, prefix: Sequence[str] = ()) -> Iterator[ServerProcess]:
    """Start a server with the fake letter encoder, in a tenth of the time that the real model takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
        letters = "--encoder", "support.fake_letter_encoder:letters"
        with running_server(*letters, *options, device=None, prefix=prefix) as server:
            yield server


def read_until_closed(connection: socket.socket) -> bytes:
    """All bytes until the server closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def resident_bytes(process: int) -> int:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Poll a condition; fail after `seconds`."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "the condition did not become true in time"
        time.sleep(0.005)


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """`wait_for` in an event loop, which goes on."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)


def metric(server: ServerProcess, name: str) -> float:
    """The value of a metric, named with its labels as `/metrics` prints them; 0 if it is absent."""
    for line in server.client.get("/metrics").text.splitlines():
        if line.startswith(name + " "):
            return float(line.rsplit(" ", 1)[1])
    return 0.0


def wait_for_running(server: ServerProcess, count: int = 1) -> None:
    """Wait until the server runs `count` requests."""
    wait_for(lambda: metric(server, "pullquote_requests_running") >= count)
