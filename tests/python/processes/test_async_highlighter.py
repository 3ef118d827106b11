"""`AsyncHighlighter`: the answers of a `Highlighter`, few threads, and cancellation that stops the work."""

import asyncio
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import numpy as np
import pytest
import uvloop

import pullquote
from pullquote import AsyncHighlighter, Highlighter, errors
from support.gated_encoder import GatedEncoder
from support.server_process import until
from support.threads import thread_names

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]
MOON = "Cats sleep a lot. The moon is 384,400 km away. Bread is baked."


def run_uvloop(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


@pytest.fixture
def awaited(highlighter: Highlighter) -> AsyncHighlighter:
    return AsyncHighlighter.sharing(highlighter)


@pytest.fixture(params=[asyncio.run, run_uvloop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run[Any]:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def gated() -> Iterator[tuple[GatedEncoder, Highlighter]]:
    encoder = GatedEncoder()
    with Highlighter(encoder=encoder, max_batch_size=8) as made:
        encoder.shut()
        yield encoder, made
        encoder.gate.set()


def test_async_highlighter_has_highlighter_signatures() -> None:
    for name, method in inspect.getmembers(Highlighter):
        # A table takes minutes; a loop runs it in a thread.
        if name.startswith("_") or name in {"highlights_arrow", "stream"}:
            continue
        other = getattr(AsyncHighlighter, name)
        if callable(method):
            assert inspect.signature(other).parameters == inspect.signature(method).parameters, name
    own = dict(inspect.signature(AsyncHighlighter).parameters)
    assert own.pop("max_concurrent").kind is inspect.Parameter.KEYWORD_ONLY
    assert own == dict(inspect.signature(Highlighter).parameters)


def test_async_highlights_match_highlighter(
    highlighter: Highlighter, awaited: AsyncHighlighter, pages: dict[str, str], run: Run[Any]
) -> None:
    texts = list(pages.values())[:3]
    asked: list[dict[str, Any]] = [
        {"query": "Who died?", "texts": texts},
        {"query": ["Who died?", "Warum?"], "texts": texts[:4], "fuse": True, "max_total_chars": 400},
        {"query": "health", "texts": texts[:3], "top_k": 2, "order": "position", "explain": True, "context": 1},
        {"query": "health", "texts": texts[:2], "unit": "word", "highlight_length": 20, "step_size": 10, "timeout": 60},
    ]

    async def main() -> list[pullquote.Highlights]:
        return await asyncio.gather(*[awaited.highlights(**request) for request in asked])

    for request, found in zip(asked, run(main()), strict=True):
        expected = highlighter.highlights(**request)
        assert [[h.text for h in page] for page in found] == [[h.text for h in page] for page in expected]
        assert np.allclose(found.scores, expected.scores, atol=2e-5)


def test_async_embed_and_parse_pieces_match_highlighter(highlighter: Highlighter, awaited: AsyncHighlighter) -> None:
    async def main() -> tuple[Any, Any]:
        return await asyncio.gather(
            awaited.embed([MOON, "two"], role="query"), awaited.parse_pieces(MOON, 4, 2, "token")
        )

    vectors, pieces = asyncio.run(main())
    assert np.allclose(vectors, highlighter.embed([MOON, "two"], role="query"), atol=1e-5)
    assert pieces.tolist() == highlighter.parse_pieces(MOON, 4, 2, "token").tolist()


def test_async_invalid_call_raises_highlighter_error(awaited: AsyncHighlighter, run: Run[Any]) -> None:
    wrong: list[tuple[type[Exception], dict[str, Any]]] = [
        (errors.InvalidArgumentError, {"query": " ", "texts": [MOON]}),
        (errors.InvalidArgumentError, {"query": "cat", "texts": []}),
        (errors.InvalidTypeError, {"query": "cat", "texts": MOON}),
        (errors.InvalidTypeError, {"query": "cat", "texts": [1]}),
        (errors.InvalidTypeError, {"query": "cat", "texts": [MOON], "topk": 1}),
        (errors.InvalidTextError, {"query": "cat", "texts": ["\ud800"]}),
        (errors.InvalidArgumentError, {"query": "cat", "texts": [MOON], "timeout": 0}),
        (errors.DeadlineExceededError, {"query": "cat", "texts": [MOON * 2000], "timeout": 1e-4}),
    ]

    async def main() -> list[Any]:
        calls = [awaited.highlights(**request) for _, request in wrong]
        return await asyncio.gather(*calls, return_exceptions=True)

    for (kind, request), raised in zip(wrong, run(main()), strict=True):
        assert type(raised) is kind, (request, raised)


@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_thousands_of_tasks_need_few_threads(
    gated: tuple[GatedEncoder, Highlighter], run: Run[Any], count: int
) -> None:
    encoder, made = gated
    awaited = AsyncHighlighter.sharing(made)
    before = set(thread_names().items())

    async def main() -> tuple[list[pullquote.Highlights], set[tuple[int, str]]]:
        tasks = [asyncio.create_task(awaited.highlights("cat", [f"{MOON} {n}."])) for n in range(count)]
        await until(encoder.begun.is_set)
        during = set(thread_names().items()) - before
        encoder.gate.set()
        for number, task in enumerate(tasks):
            await task
            if number % 100 == 0:
                during = max(during, set(thread_names().items()) - before, key=len)
        return [task.result() for task in tasks], during

    found, during = run(main())
    assert [one.texts[0] for one in found] == [f"{MOON} {n}." for n in range(count)]
    cores = len(os.sched_getaffinity(0))
    assert sum(name.startswith("pullquote-task") for _, name in during) <= cores
    # Those, the scheduler's and the function's.
    assert len(during) <= cores + 2, during


def test_cancelled_task_stops_encoding(gated: tuple[GatedEncoder, Highlighter], run: Run[Any]) -> None:
    encoder, made = gated
    awaited = AsyncHighlighter.sharing(made)

    async def main() -> None:
        task = asyncio.create_task(awaited.highlights("cat", [ENDLESS], effort="full"))
        await until(encoder.begun.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await assert_nothing_is_left(awaited, encoder)

    run(main())


# Thousands of batches.
ENDLESS = " ".join(f"Sentence {n} is here." for n in range(20_000))


async def assert_nothing_is_left(awaited: AsyncHighlighter, encoder: GatedEncoder) -> None:
    """After another call is answered, the encoder gets no texts of an earlier one."""
    encoder.gate.set()
    await awaited.embed(["one"])
    done = encoder.texts
    assert done < 10_000
    for n in range(3):
        await awaited.embed([f"{n}"])
    assert encoder.texts == done + 3


def test_asyncio_timeout_stops_encoding(gated: tuple[GatedEncoder, Highlighter], run: Run[Any]) -> None:
    encoder, made = gated
    awaited = AsyncHighlighter.sharing(made)

    async def call_until_timeout() -> None:
        async with asyncio.timeout(None) as timeout:
            call = asyncio.ensure_future(awaited.highlights("cat", [ENDLESS], effort="full"))
            await until(encoder.begun.is_set)
            timeout.reschedule(asyncio.get_running_loop().time())
            await call

    async def main() -> None:
        with pytest.raises(TimeoutError) as raised:
            await call_until_timeout()
        assert type(raised.value) is TimeoutError
        await assert_nothing_is_left(awaited, encoder)

    run(main())


def test_max_concurrent_queue_respects_timeout(gated: tuple[GatedEncoder, Highlighter]) -> None:
    encoder, made = gated
    awaited = AsyncHighlighter.sharing(made, max_concurrent=2)

    async def main() -> None:
        first = [asyncio.create_task(awaited.highlights("cat", [f"{MOON} {n}."])) for n in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(errors.DeadlineExceededError):
            await awaited.highlights("cat", [MOON], timeout=0.05)
        assert not any(task.done() for task in first)
        encoder.gate.set()
        await asyncio.gather(*first)
        await awaited.highlights("cat", [MOON])

    asyncio.run(main())


def test_event_loop_runs_during_large_page(awaited: AsyncHighlighter, whole_pages: dict[str, str]) -> None:
    text = "\n\n".join(whole_pages.values())

    async def main() -> int:
        task = asyncio.create_task(awaited.highlights("Who?", [text], effort="fast"))
        turns = 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        await task
        return turns

    # Hundreds; a call that kept the GIL would allow one or two.
    assert asyncio.run(main()) > 20


def test_several_event_loops(awaited: AsyncHighlighter) -> None:
    async def main() -> str:
        found = await asyncio.gather(*[awaited.highlights("How far is the moon?", [MOON]) for _ in range(100)])
        return found[-1][0][0].text

    assert {asyncio.run(main()) for _ in range(3)} == {"The moon is 384,400 km away."}
    answers: list[str] = []
    workers = [threading.Thread(target=lambda: answers.append(asyncio.run(main()))) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert answers == ["The moon is 384,400 km away."] * 4
    assert len(awaited._calls._loops) <= 5


def test_close_ends_async_calls(run: Run[Any]) -> None:
    encoder = GatedEncoder()
    awaited = AsyncHighlighter(encoder=encoder)
    encoder.shut()
    page = " ".join(f"Sentence {n} is here." for n in range(2000))

    async def main() -> list[Any]:
        tasks = [asyncio.create_task(awaited.highlights("cat", [page], effort="full")) for _ in range(100)]
        await until(encoder.begun.is_set)
        await awaited.close()
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert {type(raised) for raised in run(main())} == {errors.ClosedError}
    encoder.gate.set()


def test_await_in_notebook_cell(awaited: AsyncHighlighter) -> None:
    """A notebook runs each cell in a running loop."""
    from IPython.core.interactiveshell import InteractiveShell

    shell: Any = InteractiveShell()
    shell.user_ns.update(awaited=awaited, MOON=MOON)

    async def notebook() -> Any:
        cell = "(await awaited.highlights('How far is the moon?', [MOON]))[0][0].text"
        result = await shell.run_cell_async(cell, transformed_cell=shell.transform_cell(cell))
        return result.result

    assert asyncio.run(notebook()) == "The moon is 384,400 km away."


def test_interpreter_exits_during_async_calls() -> None:
    code = """
import asyncio, threading
import numpy as np
import pullquote
begun = threading.Event()
def encode(texts):
    if len(texts) > 1:
        begun.set()
    return np.ones((len(texts), 4), np.float32)
awaited = pullquote.AsyncHighlighter(encoder=encode)
page = " ".join(f"Sentence {n} is here." for n in range(20000))
async def main():
    while True:
        await asyncio.gather(*[awaited.highlights("cat", [page]) for _ in range(50)])
threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()
begun.wait()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Fatal" not in done.stderr


@pytest.mark.slow
def test_dropped_async_highlighter_ends_quietly() -> None:
    # Its threads may take the GIL to wake a loop that has closed. Four processes at once vary the moment.
    code = """
import asyncio
import numpy as np
import pullquote
def encode(texts):
    return np.ones((len(texts), 2), np.float32)
async def ask(awaited):
    await awaited.embed(["The moon."])
for _ in range(300):
    awaited = pullquote.AsyncHighlighter(encoder=encode)
    asyncio.run(ask(awaited))
    del awaited
"""
    command = [sys.executable, "-c", code]
    programs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    try:
        for program in programs:
            _, said = program.communicate(timeout=240)
            assert (program.returncode, said) == (0, "")
    finally:
        for program in programs:
            program.kill()
            program.wait()
