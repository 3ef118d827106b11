"""Devices that fail or lack memory: callers get their answers, and `device_states` shows the failures.

The devices are CPUs with injected faults (`support/faulty_encoder_abi.py`).
"""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullquote import AsyncHighlighter, Highlighter, errors
from pullquote._cli import main
from pullquote._models.choice import embedded_model
from pullquote.engine import DeviceState, Engine
from support.faulty_encoder_abi import Fault, FaultyEncoder
from support.messages import names_all, raises
from support.server_process import metric, running_server

TEXTS = [f"{'The moon is far. ' * (n % 9)}Sentence {n}." for n in range(96)]
pytestmark = pytest.mark.slow

TWO = ["cpu:0", "cpu:1"]


@pytest.fixture(scope="module")
def expected() -> Iterator[Any]:
    with Highlighter(dtype="float32") as highlighter:
        yield highlighter.embed(TEXTS)


def over(own: FaultyEncoder, **options: Any) -> Highlighter:
    return Highlighter(embedded_model(), encoder=own, cache_bytes=0, **options)


def states(highlighter: Any) -> dict[str, DeviceState]:
    return {state.name: state for state in highlighter.device_states}


@pytest.mark.parametrize(
    "fault", [Fault(errors.EncoderError.code, "broken"), Fault(errors.DeviceError.code, "gone", at_collect=True)]
)
def test_failing_device_is_skipped_and_recovers(fault: Fault, expected: Any) -> None:
    broken = {1}
    own = FaultyEncoder(TWO, lambda device, *_: fault if device in broken else None)
    with over(own) as highlighter:
        assert np.allclose(highlighter.embed(TEXTS), expected, atol=1e-5)
        state = states(highlighter)["cpu:1"]
        assert not state.is_working
        assert state.failures > 0
        assert state.batches == 0
        assert state.last_error == fault.message
        assert states(highlighter)["cpu:0"].is_working
        broken.clear()
        deadline = time.monotonic() + 60
        while not states(highlighter)["cpu:1"].is_working:
            assert time.monotonic() < deadline
            highlighter.embed(TEXTS[:4])
        assert np.allclose(highlighter.embed(TEXTS), expected, atol=1e-5)
        assert states(highlighter)["cpu:1"].batches > 0
        assert highlighter.stages["compute"].count > 0
        assert highlighter.stages["compute"].seconds > 0


def test_device_timeout_moves_batches_to_other_devices(expected: Any) -> None:
    own = FaultyEncoder(TWO)
    own.hanging.add(0)
    # Long enough for the other device on a slow machine.
    with over(own, device_timeout=2) as highlighter:
        assert np.allclose(highlighter.embed(TEXTS), expected, atol=1e-5)
        state = states(highlighter)["cpu:0"]
        assert not state.is_working
        assert state.outstanding_tokens > 0
        assert names_all(state.last_error or "", "cpu:0", "2s")
        assert np.allclose(highlighter.embed(TEXTS), expected, atol=1e-5)
        own.hanging.clear()
        deadline = time.monotonic() + 60
        while not states(highlighter)["cpu:0"].is_working:
            assert time.monotonic() < deadline
            highlighter.embed(TEXTS[:4])
        assert np.allclose(highlighter.embed(TEXTS), expected, atol=1e-5)
        assert states(highlighter)["cpu:0"].batches > 0
    for wrong, error in (
        (0, errors.InvalidArgumentError),
        (float("inf"), errors.InvalidArgumentError),
        ("2", errors.InvalidTypeError),
    ):
        with raises(error, "device_timeout", wrong):
            Highlighter(encoder=lambda texts: [[1.0] for _ in texts], device_timeout=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [True, "on", None, 0])
def test_invalid_cuda_graphs_are_named(wrong: Any) -> None:
    error = errors.InvalidArgumentError if wrong else errors.InvalidTypeError
    with raises(error, "cuda_graphs", wrong, '"auto"'):
        Highlighter(cuda_graphs=wrong)


def test_cuda_graphs_change_nothing_on_cpus(expected: Any) -> None:
    with Highlighter(devices="cpu", dtype="float32", cuda_graphs="auto") as highlighter:
        assert np.allclose(highlighter.embed(TEXTS), expected, atol=1e-5)
        assert [(state.graph_batches, state.graph_error) for state in highlighter.device_states] == [(0, None)]


def test_all_devices_failing_is_device_error_until_recovery(expected: Any) -> None:
    broken = {0, 1}
    gone = Fault(errors.DeviceError.code, "gone")
    own = FaultyEncoder(TWO, lambda device, *_: gone if device in broken else None)
    with over(own) as highlighter:
        for _ in range(3):
            with raises(errors.DeviceError, "gone"):
                highlighter.embed(TEXTS)
        assert not any(state.is_working for state in highlighter.device_states)
        broken.clear()
        assert np.allclose(highlighter.embed(TEXTS), expected, atol=1e-5)


@pytest.mark.parametrize("at_collect", [False, True])
def test_out_of_memory_retries_smaller_batches(at_collect: bool, expected: Any) -> None:
    memory = [200, 90]

    def fault(device: int, _: int, tokens: int) -> Fault | None:
        full = Fault(errors.OutOfMemoryError.code, f"{tokens} tokens", at_collect)
        return full if tokens > memory[device] else None

    with over(FaultyEncoder(TWO, fault)) as highlighter:
        found: list[Any] = []
        calls = [threading.Thread(target=lambda: found.append(highlighter.embed(TEXTS))) for _ in range(4)]
        for call in calls:
            call.start()
        for call in calls:
            call.join()
        assert len(found) == 4
        assert all(np.allclose(vectors, expected, atol=1e-5) for vectors in found)
        for device, name in enumerate(TWO):
            state = states(highlighter)[name]
            assert state.is_working
            assert 0 < state.out_of_memory < 40
            assert state.batch_tokens <= memory[device]


def test_out_of_memory_of_one_text_fails_alone() -> None:
    full = Fault(errors.OutOfMemoryError.code, "full")
    own = FaultyEncoder(TWO, lambda _, __, tokens: full if tokens > 40 else None)
    with over(own) as highlighter:
        with raises(errors.OutOfMemoryError, "full"):
            highlighter.embed(["word " * 100, "short"])
        assert highlighter.embed(["short"]).shape == (1, 384)


def test_encoder_function_out_of_memory_shrinks_batches() -> None:
    class OutOfMemoryError(RuntimeError):
        """The name of torch's class."""

    sizes: list[int] = []

    def encode(texts: list[str]) -> Any:
        sizes.append(len(texts))
        if len(texts) > 4:
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        return np.array([[len(text), 1.0] for text in texts], np.float32)

    with Highlighter(encoder=encode, cache_bytes=0) as highlighter:
        vectors = highlighter.embed(TEXTS)
        assert vectors[:, 0].tolist() == [len(text) for text in TEXTS]
        assert highlighter.device_states[0].out_of_memory > 0
        # The smaller size is kept.
        before = len([size for size in sizes if size > 4])
        highlighter.embed(TEXTS[:50])
        assert len([size for size in sizes if size > 4]) <= before + 3


def test_depth_bounds_batches_in_flight() -> None:
    own = FaultyEncoder(["cpu"])
    with over(own, depth=3) as highlighter:
        highlighter.embed(TEXTS)
        assert own.deepest == 3
        assert highlighter.device_states[0].depth == 3
    for wrong, kind in (
        (0, errors.InvalidArgumentError),
        (1.5, errors.InvalidTypeError),
        ("2", errors.InvalidTypeError),
    ):
        with raises(kind, "depth", wrong):
            Highlighter(encoder=lambda texts: [[1.0] for _ in texts], depth=wrong)  # type: ignore[arg-type]


def test_engine_skips_failing_device() -> None:
    broken = Fault(errors.EncoderError.code, "broken")
    own = FaultyEncoder(TWO, lambda device, *_: broken if device == 1 else None)
    with Engine(embedded_model(), encoder=own) as engine:
        engine.add_request("a", "moon", TEXTS)
        outputs = []
        while engine.has_unfinished_requests():
            outputs += engine.step()
        assert outputs[0].error is None
        assert not states(engine)["cpu:1"].is_working


def test_stages_count_all_batches() -> None:
    with Highlighter(devices=TWO, cache_bytes=0, profile=True) as highlighter:
        calls = [threading.Thread(target=highlighter.highlights, args=("moon", TEXTS)) for _ in range(4)]
        for call in calls:
            call.start()
        for call in calls:
            call.join()
        batches = sum(state.batches for state in highlighter.device_states)
        stages = highlighter.stages
    for name in ("copy_in", "launch", "device_queue", "compute", "copy_out"):
        assert stages[name].count == batches > 0
    assert all(stages[name].count > 0 for name in ("cut", "tokenize", "wait", "choose", "queue"))


def test_cli_cuda_graphs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.txt"
    page.write_text("Cats sleep a lot. The moon is 384,400 km away.")
    assert main(["highlight", "-q", "moon", str(page), "--device", "cpu", "--cuda-graphs"]) == 0
    assert "384,400" in capsys.readouterr().out
    assert main(["highlight", "-q", "moon", str(page), "--cuda-graphs", "--server", "http://127.0.0.1:1"]) == 2
    assert names_all(capsys.readouterr().err, "--cuda-graphs", "--server")


def test_serve_reports_devices_and_stages() -> None:
    options = ["--device", "cpu:0", "--device", "cpu:1", "--depth", "3", "--device-timeout", "20"]
    with running_server(*options, device=None) as server:
        answer = server.client.post("/highlights", json={"query": "moon", "documents": TEXTS})
        assert answer.status_code == 200
        health = server.client.get("/health").json()
        assert health["healthy"] is True
        assert health["devices"] == [{"name": name, "working": True, "failures": 0} for name in TWO]
        assert metric(server, 'pullquote_device_working{device="cpu:1"}') == 1
        assert metric(server, 'pullquote_stage_seconds_total{stage="compute"}') > 0
        assert metric(server, 'pullquote_device_batches_total{device="cpu:0"}') > 0
        assert metric(server, 'pullquote_device_out_of_memory_total{device="cpu:0"}') == 0
        server.client.close()
        server.signal()
        assert server.wait() == 0


def test_async_highlighter_device_states() -> None:
    made = AsyncHighlighter(encoder=lambda texts: [[1.0] for _ in texts], depth=1)
    assert [state.depth for state in made.device_states] == [1]
