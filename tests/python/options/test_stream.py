"""`stream` of highlighters and clients: pages one after another, each as a call of its own, read as they are needed."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from pullquote import AsyncClient, AsyncHighlighter, Client, Highlighter, Highlights, errors
from support.gated_encoder import GatedEncoder
from support.gated_server import encoded_texts, gated_server, open_gate
from support.messages import raises
from support.server_process import ServerProcess, metric, until, wait_for, wait_for_running

QUERY = "Who was it?"
Stream = Callable[..., list[Highlights]]


KINDS = ["Highlighter", "AsyncHighlighter", "Client", "AsyncClient"]


@pytest.fixture(params=KINDS)
def made(request: pytest.FixtureRequest, highlighter: Highlighter, server: ServerProcess) -> Iterator[Any]:
    """An object of each class."""
    if request.param == "AsyncClient":
        client = AsyncClient(server.url)
        yield client
        asyncio.run(client.close())
    elif request.param == "Client":
        with Client(server.url) as made:
            yield made
    else:
        yield highlighter if request.param == "Highlighter" else AsyncHighlighter.sharing(highlighter)


@pytest.fixture
def run(made: Any) -> Stream:
    """`list(stream(...))` of each class."""
    if isinstance(made, (Highlighter, Client)):
        return lambda *asked, **options: list(made.stream(*asked, **options))

    async def collect(*asked: Any, **options: Any) -> list[Highlights]:
        return [found async for found in made.stream(*asked, **options)]

    return lambda *asked, **options: asyncio.run(collect(*asked, **options))


@pytest.mark.parametrize("options", [{}, {"max_tokens": 300, "count_tokens": len}, {"context": 1, "min_score": 0.1}])
def test_stream_answers_each_page_as_a_call_of_its_own(
    highlighter: Highlighter, made: Any, run: Stream, pages: dict[str, str], options: dict[str, Any]
) -> None:
    query: Any = ["Who was it?", "When?"] if not options else QUERY
    if "count_tokens" in options and isinstance(made, (Client, AsyncClient)):
        with raises(errors.InvalidArgumentError, "count_tokens"):
            run(query, pages, **options)
        return
    found = run(query, pages, **options)
    assert [one.ids for one in found] == [[name] for name in pages]
    for one, page in zip(found, pages.values(), strict=True):
        alone = highlighter.highlights(query, [page], **options)
        assert one.spans.tolist() == alone.spans.tolist()
        assert one.scores == pytest.approx(alone.scores, abs=2e-5)
        assert one.texts == [page]


def test_stream_reads_pages_as_they_are_needed(highlighter: Highlighter) -> None:
    read = 0

    def pages() -> Iterator[tuple[int, str]]:
        nonlocal read
        for read in range(1, 1001):
            yield read, f"Page {read} is about bread. The moon is far."

    stream = highlighter.stream("bread", pages())
    assert read == 0
    assert [next(stream)[number][0].id for number in (1, 2, 3)] == [1, 2, 3]
    assert 3 <= read <= 70
    stream.close()  # type: ignore[attr-defined]  # a generator
    assert read <= 70

    async def first() -> Any:
        async def awaited() -> AsyncIterator[tuple[int, str]]:
            for page in pages():
                await asyncio.sleep(0)
                yield page

        async with aclosing(AsyncHighlighter.sharing(highlighter).stream("bread", awaited())) as stream:  # type: ignore[type-var]
            async for found in stream:
                return found[1][0].id
        return None

    assert asyncio.run(first()) == 1
    assert read <= 70


class Stopped(BaseException):
    """As Ctrl-C: raised at once."""


def test_ended_stream_stops_its_pages() -> None:
    encoder = GatedEncoder()
    texts = [f"Page {number}. It has a few words." for number in range(40)]

    def pages() -> Iterator[str]:
        yield from texts
        encoder.begun.wait()
        raise Stopped

    with Highlighter(encoder=encoder, max_batch_size=1) as made:
        made.highlights("words", ["The first call encodes more."])
        encoder.shut()
        before = encoder.texts
        with pytest.raises(Stopped):
            list(made.stream("words", pages(), effort="full"))
        encoder.gate.set()
        made.highlights("words", ["Rows of the stream would be before these."], effort="full")
        assert encoder.texts - before < 20


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_ended_stream_of_client_cancels_its_requests(tmp_path: Path, kind: type[Client | AsyncClient]) -> None:
    with gated_server(tmp_path, "--max-batch-size", "1") as server:
        client: Any = kind(server.url)

        def pages() -> Iterator[str]:
            yield "Bread is baked."
            wait_for(lambda: "Bread is baked." in encoded_texts(tmp_path))
            yield from ["blocker"] * 5
            if kind is Client:
                wait_for_running(server, 3)
                raise Stopped

        async def first() -> None:
            async with aclosing(client.stream("bread", pages())) as stream:
                assert (await anext(stream)).texts == ["Bread is baked."]
                second = asyncio.ensure_future(anext(stream))
                await asyncio.to_thread(wait_for_running, server, 3)
                second.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await second
            await until(lambda: metric(server, "pullquote_requests_running") == 0)
            await client.close()

        if kind is AsyncClient:
            asyncio.run(first())
        else:
            with pytest.raises(Stopped):
                list(client.stream("bread", pages()))
            wait_for(lambda: metric(server, "pullquote_requests_running") == 0)
            client.close()
        open_gate(tmp_path)


def test_stream_raises_errors_in_their_turn(run: Stream) -> None:
    def pages() -> Iterator[str]:
        yield "Bread is baked."
        yield "The moon is far."
        message = "the crawler failed"
        raise RuntimeError(message)

    with pytest.raises(RuntimeError, match="crawler"):
        run("bread", pages())
    with raises(errors.InvalidTypeError, "pages[1]", "int"):
        run("bread", ["Bread.", 5])
    with raises(errors.InvalidTextError, "surrogate"):
        run("bread", ["Bread.", "\ud800"])
    assert run("bread", []) == []


@pytest.mark.parametrize(
    ("options", "error", "names"),
    [
        ({"max_total_chars": 50}, errors.InvalidArgumentError, ["max_total_chars", "max_chars"]),
        ({"max_total_tokens": 50}, errors.InvalidArgumentError, ["max_total_tokens", "max_tokens"]),
        ({"max_total_highlights": 5}, errors.InvalidArgumentError, ["max_total_highlights", "top_k"]),
        ({"dedupe": "answer"}, errors.InvalidArgumentError, ["dedupe", "answer"]),
        ({"pairing": "each"}, errors.InvalidArgumentError, ["pairing", "each"]),
        ({"ids": ["a"]}, errors.InvalidArgumentError, ["ids", "pairs"]),
        ({"titles": ["a"]}, errors.InvalidArgumentError, ["titles", "pairs"]),
        ({"format": ["text"]}, errors.InvalidTypeError, ["format", "Document"]),
        ({"topk": 3}, errors.InvalidTypeError, ["topk", "top_k"]),
    ],
)
def test_stream_refuses_what_needs_all_pages(
    made: Any, options: dict[str, Any], error: type[Exception], names: list[object]
) -> None:
    with raises(error, *names):
        made.stream("bread", ["Bread."], **options)


@pytest.mark.parametrize("wrong", ["one page", b"bytes", 5, {"a set"}], ids=repr)
def test_stream_refuses_what_is_no_list_of_pages(made: Any, wrong: Any) -> None:
    with raises(errors.InvalidTypeError, "pages", type(wrong).__name__):
        made.stream("bread", wrong)


def test_streams_of_threads_share_a_highlighter(highlighter: Highlighter, pages: dict[str, str]) -> None:
    texts, found = list(pages.values())[:4], dict[int, list[Any]]()

    def work(number: int) -> None:
        found[number] = [one.spans.tolist() for one in highlighter.stream(QUERY, texts)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(spans == found[0] for spans in found.values())
    assert len(found[0]) == len(texts)
