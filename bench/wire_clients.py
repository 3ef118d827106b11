"""The clients of `bench/wire.py`, each in a separate process: requests for vectors until the time is over, all into numpy.

python -m bench.wire_clients aiohttp raw http://127.0.0.1:8080 256 10 3
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

RAW = "application/octet-stream"
DIMENSION = 1024

# Clients that split one large call themselves get this number of requests for each in flight.
REQUESTS_A_CALL = 4

Vectors = NDArray[np.float32]
Ask = Callable[[], Awaitable[Vectors]]


def of_numbers(rows: Any) -> Vectors:
    """Read an answer in JSON's numbers."""
    return np.array(rows, np.float32)


def of_base64(data: list[dict[str, Any]]) -> Vectors:
    """Read an answer in OpenAI's format."""
    return np.stack([np.frombuffer(base64.b64decode(row["embedding"]), "<f4") for row in data])


async def until(asks: list[Ask], seconds: float, rows: int) -> tuple[int, float]:
    """Let each worker send requests repeatedly; returns the number of answers, and the seconds."""
    began, done = time.perf_counter(), 0

    async def work(ask: Ask) -> None:
        nonlocal done
        while time.perf_counter() - began < seconds:
            vectors = await ask()
            assert vectors.shape == (rows, DIMENSION)
            done += 1

    await asyncio.gather(*map(work, asks))
    return done, time.perf_counter() - began


async def with_aiohttp(kind: str, url: str, texts: list[str], in_flight: int, seconds: float) -> tuple[int, float]:
    """aiohttp, as in its documentation."""
    import aiohttp  # noqa: PLC0415 - each client is loaded only where it is measured

    headers = {"accept": RAW} if kind == "raw" else {}

    async def ask() -> Vectors:
        if kind == "base64":
            body = {"input": texts, "encoding_format": "base64"}
            async with session.post(f"{url}/v1/embeddings", json=body) as answer:
                return of_base64((await answer.json())["data"])
        async with session.post(f"{url}/embed", json={"inputs": texts}, headers=headers) as answer:
            assert answer.status == 200
            if kind == "raw":
                return np.frombuffer(await answer.read(), "<f4").reshape(-1, DIMENSION)
            return of_numbers(await answer.json())

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        return await until([ask] * in_flight, seconds, len(texts))


async def with_aiohttp_one_array(
    _: str, url: str, texts: list[str], in_flight: int, seconds: float
) -> tuple[int, float]:
    """As a call of our client, with aiohttp: many requests whose vectors arrive in one array."""
    import aiohttp  # noqa: PLC0415 - as above

    async def land(place: Vectors) -> None:
        async with session.post(f"{url}/embed", json={"inputs": texts}, headers={"accept": RAW}) as answer:
            assert answer.status == 200
            place[:] = np.frombuffer(await answer.read(), "<f4").reshape(-1, DIMENSION)

    async def worker(places: list[Vectors]) -> None:
        while places:
            await land(places.pop())

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        began, done = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            requests = in_flight * REQUESTS_A_CALL
            vectors = np.empty((requests * len(texts), DIMENSION), np.float32)
            places = list(vectors.reshape(requests, len(texts), DIMENSION))
            await asyncio.gather(*(worker(places) for _ in range(in_flight)))
            done += requests
        return done, time.perf_counter() - began


async def with_httpx(_: str, url: str, texts: list[str], in_flight: int, seconds: float) -> tuple[int, float]:
    """httpx, raw bytes."""
    import httpx  # noqa: PLC0415 - as above

    async def ask() -> Vectors:
        answer = await client.post(f"{url}/embed", json={"inputs": texts}, headers={"accept": RAW})
        return np.frombuffer(answer.raise_for_status().content, "<f4").reshape(-1, DIMENSION)

    limits = httpx.Limits(max_connections=in_flight)
    async with httpx.AsyncClient(limits=limits, timeout=60) as client:
        return await until([ask] * in_flight, seconds, len(texts))


async def with_openai(_: str, url: str, texts: list[str], in_flight: int, seconds: float) -> tuple[int, float]:
    """OpenAI's client, which asks for base64 by itself and hands out lists."""
    import openai  # noqa: PLC0415 - as above

    async def ask() -> Vectors:
        answer = await client.embeddings.create(input=texts, model="m")
        return of_numbers([row.embedding for row in answer.data])

    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        return await until([ask] * in_flight, seconds, len(texts))


def repeat(call: Callable[[list[str]], Vectors], texts: list[str], in_flight: int, seconds: float) -> tuple[int, float]:
    """Call a client that splits its calls, one call after the other."""
    asked = texts * (in_flight * REQUESTS_A_CALL)
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        assert call(asked).shape == (len(asked), DIMENSION)
        done += in_flight * REQUESTS_A_CALL
    return done, time.perf_counter() - began


async def with_baseten(kind: str, url: str, texts: list[str], in_flight: int, seconds: float) -> tuple[int, float]:
    """baseten-performance-client; of base64 it hands out text, which is decoded here."""
    from baseten_performance_client import PerformanceClient, RequestProcessingPreference  # noqa: PLC0415 - as above

    client = PerformanceClient(base_url=url, api_key="any")
    preference = RequestProcessingPreference(max_concurrent_requests=in_flight, batch_size=len(texts))

    def call(asked: list[str]) -> Vectors:
        answer = client.embed(input=asked, model="m", encoding_format=kind, preference=preference)
        if kind == "float":
            numbers: Vectors = answer.numpy()
            return numbers
        return np.stack([np.frombuffer(base64.b64decode(str(row.embedding)), "<f4") for row in answer.data])

    return await asyncio.to_thread(repeat, call, texts, in_flight, seconds)


async def with_ours(_: str, url: str, texts: list[str], in_flight: int, seconds: float) -> tuple[int, float]:
    """Our client, in one call."""
    with _pullquote().Client(url, max_in_flight=in_flight, rows_per_request=len(texts)) as client:
        return await asyncio.to_thread(repeat, client.embed, texts, in_flight, seconds)


async def with_ours_async(_: str, url: str, texts: list[str], in_flight: int, seconds: float) -> tuple[int, float]:
    """Our client in asyncio, with one request for each call."""
    async with _pullquote().AsyncClient(url, max_in_flight=in_flight, rows_per_request=len(texts)) as client:
        return await until([lambda: client.embed(texts)] * in_flight, seconds, len(texts))


def _pullquote() -> Any:
    import pullquote  # noqa: PLC0415 - as above

    return pullquote


CLIENTS = {
    "aiohttp": with_aiohttp,
    "aiohttp, one array": with_aiohttp_one_array,
    "httpx": with_httpx,
    "openai": with_openai,
    "baseten-performance-client": with_baseten,
    "pullquote.Client": with_ours,
    "pullquote.AsyncClient": with_ours_async,
}


def main() -> None:
    """Measure one client, and print the result."""
    name, kind, url, rows, in_flight, seconds = sys.argv[1:]
    texts = [f"text {number}" for number in range(int(rows))]
    client = CLIENTS[name]
    asyncio.run(client(kind, url, texts, int(in_flight), 0.3))
    before = os.times()
    done, took = asyncio.run(client(kind, url, texts, int(in_flight), float(seconds)))
    used = os.times()
    cpu = used.user + used.system - before.user - before.system
    print(json.dumps({"requests": done, "seconds": took, "cpu_seconds": cpu}))


if __name__ == "__main__":
    main()
