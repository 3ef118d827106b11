"""An HTTP server in a thread of this process, which answers as a test wants: vectors, faults, late or never, TLS."""

import asyncio
import contextlib
import json
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIMENSION = 16


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: Any

    @property
    def texts(self) -> list[str]:
        texts: list[str] = self.body.get("inputs") or self.body.get("input")
        return texts


@dataclass
class Answer:
    """An answer; a `held` one is sent after `FakeServer.release`."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    held: bool = False


def vectors(texts: list[str]) -> NDArray[np.float32]:
    """Random vectors, seeded by their text."""
    rows = [np.random.default_rng(abs(hash(text)) % 2**32).standard_normal(DIMENSION) for text in texts]
    return np.array(rows, dtype=np.float32)


def raw_vectors(request: Request) -> Answer:
    """The correct answer, as float32 bytes."""
    texts = request.texts
    headers = {
        "content-type": "application/octet-stream",
        "x-embedding-shape": f"{len(texts)},{DIMENSION}",
        "x-embedding-dtype": "float32",
        "x-embedding-byte-order": "little",
    }
    return Answer(headers=headers, body=vectors(texts).astype("<f4").tobytes())


class FakeServer:
    """A running server; `open` counts connections, `busy` is the largest number of requests at the same time."""

    def __init__(self, answer: Callable[[Request], Answer], secured: ssl.SSLContext | None) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.open = 0
        self.busy = 0
        self._now = 0
        self._released = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        started = threading.Event()

        async def start() -> None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=secured)
            self.port: int = self._server.sockets[0].getsockname()[1]
            started.set()

        def run() -> None:
            self._starting = self._loop.create_task(start())
            self._loop.run_forever()

        self._thread = threading.Thread(target=run)
        self._thread.start()
        started.wait(10)
        self.url = f"{'https' if secured else 'http'}://127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.open += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                named = (line.split(":", 1) for line in head[1:] if line)
                headers = {name.lower(): value.strip() for name, value in named}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                request = Request(head[0].split(" ")[1], headers, json.loads(body) if body else None)
                self.requests.append(request)
                self._now += 1
                self.busy = max(self.busy, self._now)
                answer = self.answer(request)
                # Let other requests arrive before this answer.
                await asyncio.sleep(0)
                if answer.held and await self._is_hung_up(reader):
                    return
                lines = [f"HTTP/1.1 {answer.status} Status"]
                length = {"content-length": str(len(answer.body))}
                lines += [f"{name}: {value}" for name, value in (length | answer.headers).items()]
                self._now -= 1
                writer.write("\r\n".join([*lines, "", ""]).encode() + answer.body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            self.open -= 1
            self._tasks.discard(task)
            writer.transport.abort()

    async def _is_hung_up(self, reader: asyncio.StreamReader) -> bool:
        """Wait until the answers are released, which is `False`, or the client hangs up."""
        ends = [asyncio.ensure_future(reader.read(1)), asyncio.ensure_future(self._released.wait())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        # Until its task has ended, the reader belongs to it.
        await asyncio.gather(*ends, return_exceptions=True)
        return not self._released.is_set()

    def release(self) -> None:
        """Send the held answers."""
        self._loop.call_soon_threadsafe(self._released.set)

    def close(self) -> None:
        async def stop() -> None:
            self._server.close()
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # Transports close in a later iteration of the loop.
            for _ in range(3):
                await asyncio.sleep(0)
            self._loop.stop()

        asyncio.run_coroutine_threadsafe(stop(), self._loop)
        self._thread.join(10)
        self._loop.close()


@contextlib.contextmanager
def fake_server(
    answer: Callable[[Request], Answer] = raw_vectors, secured: ssl.SSLContext | None = None
) -> Iterator[FakeServer]:
    running = FakeServer(answer, secured)
    try:
        yield running
    finally:
        running.close()


def float_bytes(values: NDArray[np.float32]) -> bytes:
    """A vector as little-endian float32."""
    return struct.pack(f"<{len(values)}f", *values)
