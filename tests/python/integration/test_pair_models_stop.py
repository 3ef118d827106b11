"""A deadline, a cancelled task and a closed connection stop rerankers and pruners within a few batches."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pullquote import AsyncClient, AsyncHighlighter, Highlighter
from pullquote._models.choice import embedded_model
from pullquote.errors import DeadlineExceededError
from support.server_process import running_server, until
from support.tiny_models import save_coverage_reranker
from support.tiny_pruners import save_coverage_pruner

pytestmark = pytest.mark.slow

# Minutes of work, of which no row is that of another.
TEXTS = [f"The moon number {number} is not made of bread. " * 30 for number in range(5_000)]
TOKENS = 5_000 * 30 * 8
# Seconds that a call may go on: a batch on each thread, and 50 ms until a wait looks at the deadline.
BOUND = 2.0

KINDS = ["reranker", "pruner"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    save_coverage_reranker(folder / "reranker", embedded_model())
    save_coverage_pruner(folder / "pruner", embedded_model())
    return {kind: folder / kind for kind in KINDS}


def read(owner: Any, texts: list[str], **options: Any) -> Any:
    """All texts, by the pair model that the highlighter or its client has."""
    if owner.pruner is None:
        return owner.rerank("bread moon", texts, **options)
    return owner.process("bread moon", texts, **options)


def opened(models: dict[str, Path], kind: str) -> Highlighter:
    return Highlighter(devices="cpu", dtype="float32", cache_bytes=0, **{kind: models[kind]})  # type: ignore[arg-type]


def tokens(owner: Any) -> int:
    return sum(state.tokens for state in owner.device_states)


@pytest.mark.parametrize("kind", KINDS)
def test_deadline_stops_pair_model(models: dict[str, Path], kind: str) -> None:
    with opened(models, kind) as highlighter:
        for timeout in (0.05, 1.0):
            began = time.monotonic()
            with pytest.raises(DeadlineExceededError):
                read(highlighter, TEXTS, timeout=timeout)
            assert time.monotonic() - began < timeout + BOUND
        assert_idle(highlighter, lambda: read(highlighter, ["bread"]))


@pytest.mark.parametrize("kind", KINDS)
def test_cancelled_task_stops_pair_model(models: dict[str, Path], kind: str) -> None:
    async def main(highlighter: Highlighter) -> None:
        awaited = AsyncHighlighter.sharing(highlighter)
        call = asyncio.ensure_future(read(awaited, TEXTS))
        await until(lambda: tokens(highlighter) > 0)
        await cancelled(call)

    with opened(models, kind) as highlighter:
        asyncio.run(main(highlighter))
        assert_idle(highlighter, lambda: read(highlighter, ["bread"]))


@pytest.mark.parametrize("kind", KINDS)
def test_disconnected_client_stops_pair_model(models: dict[str, Path], kind: str) -> None:
    async def main(url: str, begun: Callable[[], bool]) -> None:
        async with AsyncClient(url) as client:
            question = client.rerank if kind == "reranker" else client.process
            call = asyncio.ensure_future(question("bread moon", TEXTS[:1000]))
            await until(begun)
            await cancelled(call)

    with running_server("--dtype", "float32", f"--{kind}", str(models[kind])) as server:

        def computed() -> float:
            lines = server.client.get("/metrics").text.splitlines()
            return sum(float(line.split()[1]) for line in lines if line.startswith("pullquote_device_tokens_total"))

        asyncio.run(main(server.url, lambda: computed() > 0))
        time.sleep(BOUND)
        before = computed()
        time.sleep(0.5)
        assert 0 < before == computed() < TOKENS / 10


async def cancelled(call: Awaitable[Any]) -> None:
    began = time.monotonic()
    call.cancel()  # type: ignore[attr-defined]
    with pytest.raises(asyncio.CancelledError):
        await call
    assert time.monotonic() - began < BOUND


def assert_idle(highlighter: Highlighter, small: Callable[[], Any]) -> None:
    """After another call is answered, and batches in flight have ended, devices compute nothing of an earlier one."""
    small()
    time.sleep(0.5)
    done = tokens(highlighter)
    assert done < TOKENS
    time.sleep(0.3)
    assert tokens(highlighter) == done
