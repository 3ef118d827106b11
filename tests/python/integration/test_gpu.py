"""On a GPU: right answers, asynchronous submission, stable memory, and short memory (`make gpu-test`).

Skipped without a GPU. `rust/torch/tests/cuda.rs` tests the same code on a CPU.
"""

import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pullquote import Highlighter

torch = pytest.importorskip("torch")

with warnings.catch_warnings():
    # torch warns of a driver that is too old for it; collecting this module must not fail there.
    warnings.simplefilter("ignore")
    HAS_CUDA = torch.cuda.is_available()

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_CUDA, reason="no CUDA device on this machine"),
]

TEXTS = [f"{'The moon is far from here. ' * (n % 40)}Sentence {n}." for n in range(2000)]


@pytest.fixture(scope="module", autouse=True)
def torch_knows_of_cuda() -> None:
    """Until torch's Python part has initialised CUDA, it reports no memory and empties no cache, whatever pullquote does."""
    torch.cuda.init()


@pytest.fixture(scope="module")
def expected() -> Iterator[Any]:
    with Highlighter(devices="cpu", dtype="float32") as highlighter:
        yield highlighter.embed(TEXTS)


@pytest.mark.parametrize(("dtype", "least"), [("float32", 0.99999), ("float16", 0.9995), ("bfloat16", 0.995)])
@pytest.mark.parametrize("devices", [["cuda:0"], ["cuda:0"] * 3])
def test_cuda_vectors_match_cpu(dtype: str, least: float, devices: list[str], expected: Any) -> None:
    with Highlighter(devices=devices, dtype=dtype) as highlighter:
        found = highlighter.embed(TEXTS)
        assert (found * expected).sum(axis=1).min() >= least
        assert all(state.batches > 0 and state.failures == 0 for state in highlighter.device_states)


def test_submit_does_not_wait_for_kernels() -> None:
    with Highlighter(devices="cuda:0", dtype="float16", cache_bytes=0) as highlighter:
        highlighter.embed(TEXTS)
        before, began = highlighter.stages, time.perf_counter()
        for _ in range(5):
            highlighter.embed(TEXTS)
        elapsed, after = time.perf_counter() - began, highlighter.stages
        # If submitting waited for kernels, it would take as long as computing.
        submitting = sum(after[stage].seconds - before[stage].seconds for stage in ("copy_in", "launch"))
        assert 0 < submitting < 0.5 * elapsed


def test_varlen_attention_without_padding() -> None:
    from torch.profiler import ProfilerActivity, profile

    with Highlighter(devices="cuda:0", dtype="float16", cache_bytes=0) as highlighter:
        highlighter.embed(TEXTS[:64])
        with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiled:
            highlighter.embed(TEXTS)
    kernels = {event.name for event in profiled.events() if str(event.device_type).endswith("CUDA")}
    # Padded rows need a mask, and flash attention's kernels take none.
    assert any("flash_fwd" in name for name in kernels), kernels


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_cuda_graphs_change_no_vector(dtype: str) -> None:
    with (
        Highlighter(devices="cuda:0", dtype=dtype, cache_bytes=0, cuda_graphs="auto") as graphs,
        Highlighter(devices="cuda:0", dtype=dtype, cache_bytes=0, cuda_graphs=False) as eager,
    ):
        pages = [" ".join(TEXTS[start : start + 20]) for start in range(0, 400, 20)]
        for count in (1, 3, 40, 2000) * 4:
            texts = TEXTS[-count:]
            assert (graphs.embed(texts) * eager.embed(texts)).sum(axis=1).min() >= (
                0.9999 if dtype == "float16" else 0.999
            )
        for _ in range(4):
            found, expected = (
                each.highlights("How far is the moon?", pages, effort="full") for each in (graphs, eager)
            )
            assert np.abs(found.scores - expected.scores).max() < 0.01
        state = graphs.device_states[0]
        assert state.graph_error is None
        assert state.graph_batches > 0
        assert eager.device_states[0].graph_batches == 0


def test_cuda_graphs_leave_the_host_alone(expected: Any) -> None:
    """While graphs are captured, the host synchronizes, empties torch's cache and draws random numbers on another stream."""
    failures, captured = [], threading.Event()

    def work() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            while not captured.is_set():
                try:
                    torch.randn(1_000, device="cuda:0").sum().item()
                    torch.cuda.synchronize()
                    torch.cuda.empty_cache()
                except RuntimeError as error:
                    failures.append(error)

    host = threading.Thread(target=work)
    with Highlighter(devices="cuda:0", dtype="float16", cache_bytes=0, cuda_graphs="auto") as highlighter:
        host.start()
        try:
            for count in (1, 5, 20, 60, 150, 400, 900, 2000) * 4:
                found = highlighter.embed(TEXTS[:count])
                assert (found * expected[:count]).sum(axis=1).min() >= 0.9995
        finally:
            captured.set()
            host.join()
        state = highlighter.device_states[0]
        assert (failures, state.graph_error) == ([], None)
        assert state.graph_batches > 0


@pytest.mark.parametrize("effort", ["auto", "full"])
def test_scores_on_cuda_match_vectors(effort: Any) -> None:
    pages = [" ".join(TEXTS[start : start + 20]) for start in range(0, 400, 20)]
    with (
        Highlighter(devices="cuda:0", dtype="float32", cache_bytes=0) as scoring,
        Highlighter(devices="cuda:0", dtype="float32") as keeping,
    ):
        for query in ("How far is the moon?", "Sentence 77"):
            found = scoring.highlights(query, pages, effort=effort, top_k=5)
            expected = keeping.highlights(query, pages, effort=effort, top_k=5)
            assert np.abs(found.scores - expected.scores).max() < 1e-4
            assert (found.spans == expected.spans).mean() > 0.95


def test_profile_measures_stages() -> None:
    with Highlighter(devices="cuda:0", dtype="float16", cache_bytes=0, profile=True) as highlighter:
        highlighter.embed(TEXTS)
        stages = highlighter.stages
        assert all(stages[name].seconds > 0 for name in ("copy_in", "launch", "compute", "copy_out"))


def test_reserved_cuda_memory_is_stable() -> None:
    rng = np.random.default_rng(7)
    with Highlighter(devices="cuda:0", dtype="float16", cache_bytes=0) as highlighter:
        reserved = []
        for block in range(12):
            for _ in range(25):
                count, words = int(rng.integers(1, 400)), int(rng.integers(1, 400))
                # Different texts: equal ones are encoded once.
                highlighter.embed([f"{number} " + "moon " * int(rng.integers(1, words + 1)) for number in range(count)])
            if block in {3, 11}:
                reserved.append(torch.cuda.memory_reserved(0))
        assert 0 < reserved[1] <= 1.05 * reserved[0]


def test_cuda_out_of_memory_retries(expected: Any) -> None:
    with Highlighter(devices="cuda:0", dtype="float32", cache_bytes=0) as highlighter:
        highlighter.embed(TEXTS[:1])
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(0)
        # Another allocation takes nearly all memory.
        taken = torch.empty(max(free - 200 * 1024 * 1024, 0), dtype=torch.uint8, device="cuda:0")
        found = highlighter.embed(TEXTS)
        assert (found * expected).sum(axis=1).min() >= 0.99999
        assert highlighter.device_states[0].out_of_memory > 0
        del taken
