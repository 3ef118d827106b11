"""Requests leak no memory, whatever their options and outcome.

The requests are small, in a process of their own, so that a leak shows; `bench/memory.py` sends larger ones.
"""

import ctypes
import multiprocessing
import random
from multiprocessing.queues import Queue
from pathlib import Path

import pytest

from pullquote import Highlighter, errors
from pullquote._request.options import Options

REQUESTS = 600
# Leaked bytes for each request.
MOST_BYTES = 3_000


@pytest.mark.slow
def test_requests_leak_no_memory(pages: dict[str, str]) -> None:
    context = multiprocessing.get_context("spawn")
    queue: Queue[list[int]] = context.Queue()
    process = context.Process(target=child, args=(queue, list(pages.values())))
    process.start()
    before, after = queue.get(timeout=300)
    process.join(60)
    assert process.exitcode == 0
    assert after - before < REQUESTS * MOST_BYTES


def child(queue: "Queue[list[int]]", texts: list[str]) -> None:
    rng = random.Random(3)
    # One worker, warmed up in all shapes, and a cache that is full after a few requests.
    with Highlighter(devices="cpu", threads=1, cache_bytes=100_000) as highlighter:
        for tokens in range(16, 513, 16):
            highlighter.embed(["cat " * (tokens // 2 - 2)] * 2)
        for _ in range(REQUESTS // 2):
            ask(highlighter, rng, texts)
        before = resident_bytes()
        for _ in range(REQUESTS):
            ask(highlighter, rng, texts)
        queue.put([before, resident_bytes()])


def ask(highlighter: Highlighter, rng: random.Random, texts: list[str]) -> None:
    """Of ten requests, one is invalid and one times out."""
    source = rng.choice(texts)
    start = rng.randrange(len(source) - 300)
    page = source[start : start + rng.choice([50, 100, 300])]
    kind = rng.randrange(10)
    try:
        if kind == 0:
            highlighter.highlights(" ", [page])
        elif kind == 1:
            highlighter.highlights("Who died?", [page], timeout=1e-4)
        elif kind == 2:
            highlighter.embed([page[:100], page[100:200]])
        else:
            asked: list[Options] = [
                {"max_chars": 200},
                {"explain": True},
                {"format": "html"},
                {"format": "markdown"},
                {},
            ]
            highlighter.highlights("Who died?", [page, page[:100]], **rng.choice(asked))
    except (errors.InvalidArgumentError, errors.DeadlineExceededError):
        pass


def resident_bytes() -> int:
    """Anonymous resident memory, after the allocator returned its free pages."""
    ctypes.CDLL(None).malloc_trim(0)
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))
