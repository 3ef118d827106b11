"""`AsyncClient`: a thousand concurrent calls on few threads, cancellation, and closing."""

import asyncio
import gc
import os
import sys
from collections.abc import Coroutine, Iterator
from typing import Any

import numpy as np
import pytest

from pullquote import AsyncClient, Highlighter, errors
from pullquote.client import PutDocuments
from support.client_comparison import TEXTS, assert_same
from support.fake_http_server import Answer, FakeServer, fake_server, raw_vectors, vectors
from support.messages import raises
from support.server_process import ServerProcess, until

LOOPS = ["asyncio"] if sys.platform == "win32" else ["asyncio", "uvloop"]


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "uvloop":
        uvloop = pytest.importorskip("uvloop")
        factory = uvloop.new_event_loop
    else:
        factory = asyncio.new_event_loop

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(work)

    yield run
    gc.collect()


def threads() -> int:
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208


def test_thousand_async_calls_need_few_threads(run: Any) -> None:
    async def go(server: FakeServer) -> None:
        async with AsyncClient(server.url, max_in_flight=64) as client:
            await client.embed(["warm"])
            before = threads()
            texts = [f"text {number}" for number in range(1000)]
            calls = [asyncio.ensure_future(client.embed([text])) for text in texts]
            await asyncio.sleep(0)
            most = before
            for call in asyncio.as_completed(calls):
                await call
                most = max(most, threads())
            found = [call.result() for call in calls]
            assert np.array_equal(np.concatenate(found), vectors(texts))
            # Two tokio threads and two that wake the loop, for all calls.
            assert most - before <= 4
            assert 1 < server.busy <= 64

    with fake_server() as server:
        run(go(server))


def test_cancelled_task_closes_only_its_connection(run: Any) -> None:
    async def go(server: FakeServer) -> None:
        async with AsyncClient(server.url) as client:
            calls = [asyncio.ensure_future(client.embed([f"{number}"])) for number in range(5)]
            await until(lambda: len(server.requests) == 5)
            calls[0].cancel()
            with pytest.raises(asyncio.CancelledError):
                await calls[0]
            await until(lambda: server.open == 4)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(calls[1], 0.1)
            await until(lambda: server.open == 3)
            server.answer = raw_vectors
            assert np.array_equal(await client.embed(["more"]), vectors(["more"]))
            for call in calls[2:]:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    with fake_server(lambda _: Answer(held=True)) as server:
        run(go(server))


def test_close_ends_async_client_calls(run: Any) -> None:
    async def go(server: FakeServer) -> None:
        client = AsyncClient(server.url)
        calls = [asyncio.ensure_future(client.embed(["a"])) for _ in range(3)]
        await until(lambda: len(server.requests) == 3)
        await client.close()
        for came in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(came, errors.ClosedError)
        with pytest.raises(errors.ClosedError):
            await client.embed(["a"])

    with fake_server(lambda _: Answer(held=True)) as server:
        run(go(server))


def test_async_client_matches_highlighter(run: Any, server: ServerProcess, highlighter: Highlighter) -> None:
    async def go() -> None:
        async with AsyncClient(server.url) as client:
            vectors, found, ranks, health = await asyncio.gather(
                client.embed(TEXTS),
                client.highlights("How is bread made?", TEXTS, explain=True, context=1),
                client.rerank("bread", TEXTS, top_n=1),
                client.health(),
            )
            assert np.abs(vectors - highlighter.embed(TEXTS)).max() < 1e-5
            assert_same(found, highlighter.highlights("How is bread made?", TEXTS, explain=True, context=1))
            assert (ranks[0].index, list(health.values())) == (0, [None])
            await client.put_document("async", "text")
            assert (await client.get_document("async")).text == "text"
            assert await client.put_documents({"async": "other"}) == PutDocuments(created=0, replaced=1)
            assert (await client.get_document("async")).text == "other"
            assert (await client.list_documents("async")).documents[0].id == "async"
            assert await client.delete_documents("asynchronous") == 0
            await client.delete_document("async")
            with pytest.raises(errors.NotFoundError):
                await client.delete_document("async")
            with raises(errors.InvalidArgumentError, "query", 0):
                await client.highlights("", TEXTS)
            with pytest.raises(errors.DeadlineExceededError):
                await client.embed(TEXTS, timeout=1e-9)
            with raises(TypeError, "topk"):
                await client.highlights("a", TEXTS, topk=3)  # type: ignore[call-arg]

    run(go())


def test_call_that_outlives_its_loop_ends_quietly(run: Any) -> None:
    """The call ends after its event loop has closed, without an error or a warning."""

    async def go(client: AsyncClient) -> None:
        asyncio.ensure_future(client.embed(["a"]))  # noqa: RUF006 - not awaited on purpose
        await until(lambda: len(server.requests) == 1)

    with fake_server(lambda request: raw_vectors(request) if request.texts == ["b"] else Answer(held=True)) as server:
        client = AsyncClient(server.url, retries=0)
        run(go(client))
        server.release()

        async def again() -> None:
            assert np.array_equal(await client.embed(["b"]), vectors(["b"]))
            await client.close()

        run(again())
