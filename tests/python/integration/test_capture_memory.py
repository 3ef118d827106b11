"""Memory for CUDA graphs: torch's pools are entered, left and released in pairs, whatever fails. Without a GPU, torch's own
functions for pools are replaced; `test_gpu.py` captures graphs on one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support.messages import raises

torch = pytest.importorskip("torch")
graphs = pytest.importorskip("pullquote_torch._graphs")

pytestmark = pytest.mark.slow

POOL_FUNCTIONS = ("_cuda_beginAllocateCurrentThreadToPool", "_cuda_endAllocateToPool", "_cuda_releasePool")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is called of torch, in order; the stream can be made to fail by appending to `failing`."""
    made: list[Any] = []
    for name in POOL_FUNCTIONS:
        short = name.removeprefix("_cuda_").removesuffix("ToPool").removesuffix("Pool")
        monkeypatch.setattr(torch._C, name, lambda device, pool, short=short: made.append((short, device, pool)))
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda address, device: (address, device))

    @contextmanager
    def stream(of: tuple[int, int]) -> Iterator[None]:
        made.append(("stream", *of))
        if of[0] == 13:
            message = "no such stream"
            raise RuntimeError(message)
        yield
        made.append(("default stream",))

    monkeypatch.setattr(torch.cuda, "stream", stream)
    return made


def test_captures_allocate_from_their_own_pool(calls: list[Any]) -> None:
    memory, other = graphs.CaptureMemory(2, 77), graphs.CaptureMemory(2, 78)
    for _ in range(3):
        with memory.capturing():
            calls.append("work")
    pool = calls[0][2]
    once = [
        ("beginAllocateCurrentThread", 2, pool),
        ("stream", 77, 2),
        "work",
        ("default stream",),
        ("endAllocate", 2, pool),
    ]
    assert calls == once * 3
    with other.capturing():
        pass
    assert calls[-1][2] != pool
    calls.clear()
    memory.release()
    memory.release()
    assert calls == [("release", 2, pool)] * 3


def test_pool_is_left_after_errors(calls: list[Any]) -> None:
    memory = graphs.CaptureMemory(0, 13)
    with pytest.raises(RuntimeError, match="no such stream"), memory.capturing():
        pytest.fail("the stream cannot be used")
    assert [call[0] for call in calls] == ["beginAllocateCurrentThread", "stream", "endAllocate"]


def test_other_allocators_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")
    with raises(RuntimeError, "PYTORCH_NO_CUDA_MEMORY_CACHING"):
        graphs.CaptureMemory(0, 1)
    monkeypatch.delenv("PYTORCH_NO_CUDA_MEMORY_CACHING")
    monkeypatch.setattr(graphs, "get_allocator_backend", lambda: "cudaMallocAsync")
    with raises(RuntimeError, "PYTORCH_CUDA_ALLOC_CONF"):
        graphs.CaptureMemory(0, 1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU, the calls would change torch's pools")
@pytest.mark.parametrize("name", POOL_FUNCTIONS)
def test_torch_has_functions_for_pools(name: str) -> None:
    # Other arguments would be a `TypeError`.
    with raises(RuntimeError, "device"):
        getattr(torch._C, name)(0, torch.cuda.graph_pool_handle())


def test_warning_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    graphs.warn("cuda:0: CUDA graphs are off")
    assert [(record.name, record.levelname, record.message) for record in caplog.records] == [
        ("pullquote", "WARNING", "cuda:0: CUDA graphs are off")
    ]
