"""Many callers at once: each gets its own answer, the GIL is released, memory is flat, and a fork gets ForkedError."""

import _thread
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullquote
from pullquote import Highlighter, errors
from support.gated_encoder import GatedEncoder
from support.server_process import wait_for
from support.threads import SCRIPT_ENVIRONMENT


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def requests(pages: dict[str, str], count: int) -> list[dict[str, Any]]:
    """Requests of one or several pages, with all units and orders, short and long."""
    rng = random.Random(11)
    texts = list(pages.values())

    def cut() -> str:
        text = rng.choice(texts)
        start = rng.randrange(len(text))
        return text[start : start + rng.choice([0, 5, 80, 250, 600])]

    def request() -> dict[str, Any]:
        unit = rng.choice(["sentence", "sentence", "word", "token"])
        length = rng.choice([1, 2, 3] if unit == "sentence" else [8, 20])
        return {
            "query": rng.choice(["Who died?", "Warum?", "百年戦争", "Effect cleanup", "health"]),
            "texts": [cut() for _ in range(rng.choice([1, 1, 1, 2, 3]))],
            "unit": unit,
            "highlight_length": length,
            "step_size": (length + 1) // 2,
            "top_k": rng.choice([1, 3, 100]),
            "order": rng.choice(["score", "position"]),
        }

    return [request() for _ in range(count)]


@pytest.mark.slow
def test_mixed_requests_from_32_threads_match_sequential_answers(
    highlighter: Highlighter, pages: dict[str, str]
) -> None:
    asked = requests(pages, 250)
    alone = [highlighter.highlights(**request) for request in asked]
    with ThreadPoolExecutor(32) as threads:
        together = list(threads.map(lambda request: highlighter.highlights(**request), asked))
        # Each of the 32 threads has its buffers now, and keeps them.
        before = resident_bytes()
        list(threads.map(lambda request: highlighter.highlights(**request), asked[:100]))
        assert resident_bytes() - before < 50_000_000
    for request, expected, found in zip(asked, alone, together, strict=True):
        if request["order"] == "position":
            # The last bits of scores differ with the batch, and may decide between two equal passages.
            assert np.allclose(np.sort(found.scores), np.sort(expected.scores), atol=2e-5)
        else:
            assert np.allclose(found.scores, expected.scores, atol=2e-5)
        for text, highlights in zip(request["texts"], found, strict=True):
            assert all(text[h.start : h.end] == h.text for h in highlights)


def test_gil_is_released_during_highlights(highlighter: Highlighter, pages: dict[str, str]) -> None:
    # Pages of this test alone, of which nothing is cached.
    texts = [f"{text}\n\nThe end." for text in pages.values()]
    counted = 0
    during = []
    done = threading.Event()

    def call() -> None:
        before = counted
        # Every window of every page is encoded: the call takes long enough for the other thread to wake up.
        highlighter.highlights("Who?", texts, effort="full")
        during.append(counted - before)
        done.set()

    # No thread is made to give the GIL up, so the other thread runs only where the call releases it.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        caller = threading.Thread(target=call)
        caller.start()
        while not done.wait(0.001):
            counted += 1
        caller.join()
    finally:
        sys.setswitchinterval(interval)
    assert during[0] > 0


def test_two_calls_overlap() -> None:
    encoder = GatedEncoder()
    with Highlighter(encoder=encoder, cache_bytes=0) as shared, ThreadPoolExecutor(2) as threads:
        # The first call measures the scale of cosines.
        shared.highlights("cat", ["The cat."])
        encoder.shut()
        before = shared.stages["tokenize"].count
        calls = [threads.submit(shared.highlights, "cat", [f"The cat. Page {number}."]) for number in range(2)]
        # Each call tokenizes its query, and then waits for the encoder.
        wait_for(lambda: shared.stages["tokenize"].count == before + 2)
        assert not any(call.done() for call in calls)
        encoder.gate.set()
        assert all(call.result(60)[0] for call in calls)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Python's handler, because a shell ignores SIGINT in background jobs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_call_and_highlighter_stays_usable() -> None:
    encoder = GatedEncoder()

    def interrupt() -> None:
        encoder.begun.wait(60)
        _thread.interrupt_main(signal.SIGINT)

    with Highlighter(encoder=encoder) as highlighter:
        encoder.shut()
        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        # The encoder never returns.
        with pytest.raises(KeyboardInterrupt):
            highlighter.highlights("Who?", ["Somebody was here."])
        interrupting.join()
        encoder.gate.set()
        assert highlighter.highlights("cat", ["The cat."])[0][0].text == "The cat."


def test_timeout_drops_work() -> None:
    encoder = GatedEncoder()
    with Highlighter(encoder=encoder, max_batch_size=8) as highlighter:
        encoder.shut()
        before = encoder.texts
        with pytest.raises(errors.DeadlineExceededError):
            highlighter.highlights("Who?", ["Somebody was here. " * 1000], effort="full", timeout=0.1)
        encoder.gate.set()
        assert highlighter.highlights("cat", ["The cat."])[0][0].text == "The cat."
        # Those of one batch in flight, and of the second call.
        assert encoder.texts - before < 30


def test_results_are_not_copied(highlighter: Highlighter, pages: dict[str, str]) -> None:
    found = highlighter.highlights("Who?", list(pages.values()), top_k=5)
    for array in (highlighter.embed(["one", "two"]), found.spans, found.scores, found.pages):
        assert type(array.base).__name__ == "PySliceContainer"


@pytest.mark.slow
def test_peak_memory_of_large_embed() -> None:
    """In a subprocess, because the peak is of the whole process."""
    code = """
import resource, sys
import pullquote
with pullquote.Highlighter(devices="cpu", dtype="float32") as highlighter:
    highlighter.embed(["warm"] * 2000)
    peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    before = peak()
    vectors = highlighter.embed(["a"] * 10_000)
    print(vectors.nbytes, peak() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    size, grown = (int(number) for number in done.stdout.split())
    assert size == 10_000 * 384 * 4
    # The result, and per text some 150 bytes of ids and bookkeeping; a second copy would be 100 % more.
    assert grown < 1.5 * size, f"{grown / size:.2f} results"


@pytest.mark.slow
def test_torch_threads_are_unchanged() -> None:
    code = """
import os, torch
from support.threads import own_threads
before = torch.get_num_threads()
import pullquote
tasks = lambda: len(os.listdir("/proc/self/task"))
native = tasks()
import pullquote_torch
assert tasks() == native, "importing started a thread"
with pullquote.Highlighter(devices="cpu", threads=1) as highlighter:
    highlighter.highlights("Who?", ["Somebody was here."] * 50)
    print(own_threads())
print(torch.get_num_threads() == before)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=SCRIPT_ENVIRONMENT
    )
    names, unchanged = done.stdout.strip().splitlines()
    # Linux keeps 15 characters of a name.
    assert names == "['pullquote-cpu.0', 'pullquote-sched']", names
    assert unchanged == "True"


def child(queue: Any) -> None:
    highlighter = CHILD["highlighter"]
    try:
        highlighter.highlights("cat", ["The cat."])
    except errors.ForkedError as error:
        queue.put(type(error).__name__)
    fresh = pullquote.highlights("cat", ["The cat."])
    queue.put(fresh[0][0].text)


CHILD: dict[str, Any] = {}


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_highlighter_in_fork_raises_forked_error(highlighter: Highlighter) -> None:
    highlighter.highlights("cat", ["The cat."])
    CHILD["highlighter"] = highlighter
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    assert queue.get(timeout=60) == "ForkedError"
    assert queue.get(timeout=60) == "The cat."
    process.join(60)
    assert process.exitcode == 0
