"""``threads="caller"`` with a real model: callers encode concurrently, and keep their own torch settings."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from pullquote import Highlighter, errors
from pullquote._models.choice import embedded_model
from pullquote.engine import Engine
from support.faulty_encoder_abi import Fault, FaultyEncoder
from support.messages import raises

pytestmark = pytest.mark.slow

TEXTS = [f"{'The moon is far. ' * (n % 9)}Sentence {n}." for n in range(60)]


def over(own: FaultyEncoder, **options: Any) -> Highlighter:
    return Highlighter(embedded_model(), encoder=own, cache_bytes=0, threads="caller", **options)


def at_once(count: int, call: Callable[[int], Any]) -> list[Any]:
    """The results of `count` threads that start together."""
    together = threading.Barrier(count)

    def begin(number: int) -> Any:
        together.wait(60)
        return call(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


@pytest.fixture(scope="module")
def expected() -> Any:
    with Highlighter(devices="cpu", dtype="float32", threads=2) as highlighter:
        return highlighter.embed(TEXTS)


def test_two_callers_encode_concurrently(expected: Any) -> None:
    # Both callers must be inside at once, or the barrier times out.
    both = threading.Barrier(2)
    seen: set[int] = set()

    def enters() -> None:
        if len(seen) < 2:
            both.wait(20)
            seen.add(threading.get_ident())

    own = FaultyEncoder(["cpu"], has_threads=False, enters=enters)
    with over(own, depth=2, max_batch_size=1) as highlighter:
        found = at_once(
            2, lambda number: (threading.get_ident(), highlighter.embed(TEXTS[number : number + 1], timeout=40))
        )
    assert seen == {thread for thread, _ in found}
    for number, (_, vectors) in enumerate(found):
        assert np.allclose(vectors, expected[number : number + 1], atol=1e-5)
    assert own.deepest == 2


@pytest.mark.parametrize("devices", [["cpu"], ["cpu:0", "cpu:1"]])
def test_threads_caller_matches_worker_threads(
    devices: list[str], expected: Any, highlighter: Highlighter, pages: dict[str, str]
) -> None:
    texts = [text[:6000] for text in pages.values()]
    with Highlighter(devices=devices, dtype="float32", threads="caller", cache_bytes=0) as alone:
        for vectors in at_once(3, lambda _: alone.embed(TEXTS)):
            assert np.allclose(vectors, expected, atol=1e-5)
        found = at_once(3, lambda number: alone.highlights("Who died?", texts[number : number + 2]))
    for number, result in enumerate(found):
        theirs = highlighter.highlights("Who died?", texts[number : number + 2])
        assert [[h.text for h in page] for page in result] == [[h.text for h in page] for page in theirs]


def test_threads_caller_restores_torch_settings() -> None:
    import torch

    def settings() -> tuple[Any, ...]:
        kept = torch.ones(1, requires_grad=True) * 2
        return (torch.get_num_threads(), torch.is_grad_enabled(), torch.is_inference_mode_enabled(), kept.requires_grad)

    with Highlighter(devices="cpu", threads="caller", cache_bytes=0) as highlighter:

        def call(number: int) -> None:
            # Three settings that a host's thread may have.
            modes: list[Any] = [torch.enable_grad(), torch.no_grad(), torch.inference_mode()]
            with modes[number % 3]:
                torch.set_num_threads(2)
                before = settings()
                assert before[1:3] == [(True, False), (False, False), (False, True)][number % 3]
                assert highlighter.embed(TEXTS).shape == (len(TEXTS), 384)
                assert settings() == before

        own = torch.get_num_threads()
        at_once(3, call)
        torch.set_num_threads(own)
        with Engine(devices="cpu", threads="caller") as engine:
            before = settings()
            engine.add_request("a", "moon", TEXTS[:5])
            while engine.has_unfinished_requests():
                engine.step()
            assert settings() == before


@pytest.mark.parametrize("kind", [errors.EncoderError, errors.DeviceError, errors.OutOfMemoryError])
def test_threads_caller_failures_fail_their_calls(kind: type[errors.PullquoteError], expected: Any) -> None:
    # Long rows fail: theirs is the error, and a batch of several finds no memory and is tried again row by row.
    def fault(_: int, rows: int, tokens: int) -> Fault | None:
        scripted = Fault(kind.code, "scripted", at_collect=True)
        return scripted if tokens > (120 if rows == 1 else 60) else None

    own = FaultyEncoder(["cpu"], fault, has_threads=False)
    short = TEXTS[:3]
    with over(own, max_batch_size=None if kind is errors.OutOfMemoryError else 1) as highlighter:

        def call(number: int) -> Any:
            if number % 2 == 0:
                return highlighter.embed(short)
            with raises(kind, "scripted"):
                highlighter.embed(["word " * 200])
            return expected[:3]

        for _ in range(5):
            for vectors in at_once(4, call):
                assert np.allclose(vectors, expected[:3], atol=1e-5)
        assert own.runs > 0


def test_scheduler_thread_runs_batches_without_workers(expected: Any) -> None:
    own = FaultyEncoder(["cpu"], has_threads=False)
    with Highlighter(embedded_model(), encoder=own, cache_bytes=0, threads=1) as highlighter:
        for vectors in at_once(3, lambda _: highlighter.embed(TEXTS)):
            assert np.allclose(vectors, expected, atol=1e-5)
    assert own.runs > 0


def test_close_while_callers_encode() -> None:
    inside = threading.Semaphore(0)
    closed = threading.Event()

    def enters() -> None:
        inside.release()
        assert closed.wait(60)

    own = FaultyEncoder(["cpu"], has_threads=False, enters=enters)
    highlighter = over(own, depth=2, max_batch_size=1)

    def call(number: int) -> Any:
        if number == 2:
            assert inside.acquire(timeout=60)
            assert inside.acquire(timeout=60)
            highlighter.close()
            closed.set()
            return None
        with pytest.raises(errors.ClosedError):
            highlighter.embed(TEXTS, timeout=60)
        return None

    at_once(3, call)
    with pytest.raises(errors.ClosedError):
        highlighter.embed(["moon"])
