"""64 threads that mix all calls: every answer is right or a typed error, nothing stays running, memory is flat.

Takes ten seconds; `make stress` sets ``PULLQUOTE_STRESS_SECONDS`` and ``PULLQUOTE_STRESS_SEED``.
"""

import asyncio
import gc
import os
import random
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullquote import AsyncHighlighter, Highlighter, errors
from pullquote.engine import Engine
from support.threads import own_threads

SECONDS = float(os.environ.get("PULLQUOTE_STRESS_SECONDS", "10"))
SEED = int(os.environ.get("PULLQUOTE_STRESS_SEED", "8"))
THREADS = 64
# The errors that each action may end with.
EXPECTED: dict[str, tuple[type[BaseException], ...]] = {
    "call": (),
    "timeout": (errors.DeadlineExceededError,),
    "bad": (errors.InvalidArgumentError, errors.InvalidTypeError, errors.InvalidTextError),
    "poison": (errors.EncoderError,),
    "cancel": (asyncio.CancelledError, TimeoutError),
    "step": (errors.LimitExceededError, errors.DeadlineExceededError),
    "drop": (errors.ClosedError,),
}


def encode(texts: list[str]) -> Any:
    if any("poison" in text for text in texts):
        raise ValueError("poisoned")
    return np.array([[len(text), text.count("e"), text.count("a"), 1.0] for text in texts], np.float32)


def page(rng: random.Random) -> str:
    return " ".join(
        f"Sentence {rng.randrange(1000)} is here. The cat {n} sleeps." for n in range(rng.choice([0, 1, 5, 40, 200]))
    )


class Load:
    """What the threads share, and their outcomes."""

    def __init__(self) -> None:
        self.shared = Highlighter(encoder=encode, cache_bytes=1 << 20)
        self.uncached = Highlighter(encoder=encode, cache_bytes=0)
        # Computes expected answers, with one caller at a time.
        self.calm = Highlighter(encoder=encode, threads=1, cache_bytes=0)
        self.awaited = AsyncHighlighter.sharing(self.shared, max_concurrent=8)
        self.ended: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.until = time.monotonic() + SECONDS

    def thread(self, number: int) -> None:
        rng = random.Random(SEED * 1000 + number)
        kinds: dict[str, Callable[[random.Random], None]] = {
            "call": self.call,
            "timeout": self.timeout,
            "bad": self.bad,
            "poison": self.poison,
            "cancel": self.cancel,
            "step": self.step,
            "drop": self.drop,
        }
        while time.monotonic() < self.until:
            kind = rng.choices(list(kinds), [8, 2, 2, 2, 2, 1, 1])[0]
            try:
                kinds[kind](rng)
                self.ended[f"{kind}: answered"] += 1
            except EXPECTED[kind] as error:
                self.ended[f"{kind}: {type(error).__name__}"] += 1
            except BaseException as error:
                self.wrong.append(f"{kind}: {error!r}")

    def call(self, rng: random.Random) -> None:
        texts = [page(rng) for _ in range(rng.choice([1, 1, 3]))]
        highlighter = rng.choice([self.shared, self.shared, self.uncached])
        found = highlighter.highlights("cat 3", texts)
        assert all(found.texts[h.page][h.start : h.end] == h.text for list_ in found for h in list_)
        if rng.random() < 0.1:
            assert found.spans.tolist() == self.calm.highlights("cat 3", texts).spans.tolist()

    def timeout(self, rng: random.Random) -> None:
        self.shared.highlights("cat", [page(rng) * 20], timeout=rng.choice([1e-5, 1e-3, 0.05]))

    def bad(self, rng: random.Random) -> None:
        wrong: Any = rng.choice([[], [1], ["\ud800"], "text", [None]])
        self.shared.highlights("cat", wrong)

    def poison(self, rng: random.Random) -> None:
        rng.choice([self.shared, self.uncached]).highlights("cat", [page(rng), "This is poison."])

    def cancel(self, rng: random.Random) -> None:
        async def main() -> None:
            tasks = [asyncio.create_task(self.awaited.highlights("cat", [page(rng)])) for _ in range(10)]
            await asyncio.sleep(rng.choice([0, 0.001, 0.02]))
            for task in tasks[::2]:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            for error in ended:
                assert not isinstance(error, Exception), error
            async with asyncio.timeout(rng.choice([0.001, 10])):
                await self.awaited.highlights("cat", [page(rng)])

        asyncio.run(main())

    def step(self, rng: random.Random) -> None:
        with Engine(encoder=encode, threads=rng.choice(["caller", 1]), cache_bytes=0) as engine:
            for n in range(10):
                limits: dict[str, Any] = rng.choice(
                    [{}, {"limit_tokens": 500}, {"limit_windows": 5}, {"timeout": 0.01}]
                )
                engine.add_request(str(n), "cat", [page(rng)], **limits)
            engine.abort_request([str(n) for n in range(0, 10, rng.choice([2, 5]))])
            while engine.has_unfinished_requests():
                for output in engine.step():
                    if output.error is not None and not isinstance(output.error, EXPECTED["step"]):
                        raise output.error

    def drop(self, rng: random.Random) -> None:
        made = Highlighter(encoder=encode)
        closing = threading.Timer(rng.choice([0, 0.001, 0.01]), made.close)
        closing.start()
        try:
            for _ in range(20):
                made.highlights("cat", [page(rng)])
        finally:
            closing.join()


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.slow
def test_mixed_load_with_failures_leaves_nothing_behind() -> None:
    gc.collect()
    before = Counter(own_threads())
    load = Load()
    threads = [threading.Thread(target=load.thread, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    time.sleep(SECONDS / 3)
    early = resident()
    for thread in threads:
        thread.join(SECONDS + 60)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    grown = resident() - early
    assert load.wrong == [], load.wrong[:5]
    assert {name.split(":")[0] for name in load.ended} == set(EXPECTED)
    # A later call is not delayed.
    began = time.perf_counter()
    assert len(load.shared.highlights("cat", ["The cat."])[0]) == 1
    assert time.perf_counter() - began < 30
    for made in (load.shared, load.uncached, load.calm):
        made.close()
    # The text pool ends with the last highlighter.
    del load, made, threads, thread
    gc.collect()
    deadline = time.monotonic() + 60
    # Threads of earlier tests may end meanwhile.
    while (more := Counter(own_threads()) - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not more
    assert grown < 64_000_000, f"{grown:,} bytes more"
