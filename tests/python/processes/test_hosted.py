"""`Hosted` and `Planner`: the answers of a `Highlighter`, with vectors that a host computes."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from pullquote import Highlighter, Highlights, errors
from pullquote._models.choice import embedded_model
from pullquote.engine import Batch, Hosted, HostedCall, HostedCite, Planner
from support.fake_id_encoder import IdEncoder, vector
from support.messages import raises

MOON = "Cats sleep a lot. The moon is 384,400 km away. Bread is baked."
LONG = " ".join(f"Sentence {n} is about {'the moon' if n % 7 == 0 else 'bread'}." for n in range(2000))


@pytest.fixture(scope="module")
def hosted() -> Any:
    with Hosted(embedded_model(), 4, cache_bytes=0) as made:
        yield made


@pytest.fixture(scope="module")
def planner() -> Any:
    made = Planner(embedded_model())
    yield made
    made.close()


def same(found: Highlights, expected: Highlights) -> None:
    assert [[h.text for h in page] for page in found] == [[h.text for h in page] for page in expected]
    np.testing.assert_array_equal(found.scores, expected.scores)
    np.testing.assert_array_equal(found.windows_scored, expected.windows_scored)
    assert found.work.tokens == expected.work.tokens


ASKED: dict[str, dict[str, Any]] = {
    "one page": {"query": "How far is the moon?", "texts": [MOON]},
    "an empty page": {"query": "How far is the moon?", "texts": ["", " \n "]},
    "pairs": {"query": ["Who bakes?", "Where?"], "texts": [MOON, LONG], "max_chars": 200, "pairing": "each"},
    "titles": {"query": "bread", "texts": [MOON, LONG, "Bread."], "titles": ["The moon", None, "Bread"]},
    "counted": {"query": "bread", "texts": [LONG, MOON], "max_tokens": 60, "count_tokens": len},
    "fused": {"query": ["moon", "bread"], "texts": [LONG, MOON], "fuse": True, "explain": True, "context": 1},
    "by meaning": {"query": "bread", "texts": [LONG], "lexical_weight": 0.0, "unit": "word", "highlight_length": 9},
}


def run(call: HostedCall | HostedCite) -> Any:
    waiting = call.advance()
    while call.result is None:
        # The last one first, because a host may choose the order.
        batch = waiting.pop()
        waiting += call.advance([(batch.ticket, [vector(ids) for ids in batch.split()])])
    return call.result


@pytest.mark.parametrize("effort", ["full", "auto", "fast"])
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED.keys())
def test_hosted_call_matches_highlighter(hosted: Hosted, asked: dict[str, Any], effort: Any) -> None:
    with Highlighter(embedded_model(), encoder=IdEncoder(), cache_bytes=0) as highlighter:
        expected = highlighter.highlights(**asked, effort=effort)
    same(run(hosted.start(**asked, effort=effort)), expected)


def test_hosted_cite_matches_highlighter(hosted: Hosted) -> None:
    """A text with more sentences than the engine answers at once."""
    answer = " ".join(f"The moon is 384,{n} km away [1]." for n in range(330, 410)) + " Bread is baked [b]."
    pages = [MOON, LONG]
    options: dict[str, Any] = {"ids": ["a", "b"], "numbers": [1]}
    with Highlighter(embedded_model(), encoder=IdEncoder(), cache_bytes=0) as highlighter:
        expected = highlighter.cite(answer, pages, **options)
    call = hosted.cite(answer, pages, **options, depth=1)
    assert isinstance(call, HostedCite)
    assert run(call) == expected
    assert {sentence.support for sentence in expected.sentences} > {"full"}
    other = hosted.cite(answer, pages)
    batch = other.advance()[0]
    other.stop()
    with pytest.raises(errors.CancelledError):
        other.advance([(batch.ticket, [vector(ids) for ids in batch.split()])])
    with raises(errors.InvalidArgumentError, "numbers", -1):
        hosted.cite(answer, pages, numbers=[-1])


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED.keys())
def test_planner_matches_highlighter(planner: Planner, asked: dict[str, Any]) -> None:
    with Highlighter(embedded_model(), encoder=IdEncoder(), cache_bytes=0) as highlighter:
        expected = highlighter.highlights(**asked, effort="full")
    plan = planner.plan(**asked)
    assert len({tuple(row) for row in plan.rows}) == len(plan.rows) > 0
    same(plan.finish([vector(ids) for ids in plan.rows]), expected)


@pytest.mark.slow
def test_hosted_call_with_real_model_matches_highlighter(highlighter: Highlighter, pages: dict[str, str]) -> None:
    """Equal except for rounding, which depends on the batch."""
    texts = list(pages.values())[:3]
    asked: dict[str, Any] = {"query": "Who died?", "texts": texts, "effort": "full"}

    class Model:
        def encode_ids(self, ids: Any, lengths: Any) -> Any:
            return real.encode_ids(ids, lengths)

    from sentence_transformers import SentenceTransformer

    real = _Rows(SentenceTransformer(str(embedded_model()), device="cpu", model_kwargs={"dtype": "float32"}))
    with Hosted(embedded_model(), 384) as hosted:
        call = hosted.start(**asked, depth=1)
        rows = call.advance()
        while call.result is None:
            rows = call.advance([(batch.ticket, real.encode_ids(batch.ids, batch.lengths)) for batch in rows])
    expected = highlighter.highlights(**asked)
    assert [[h.text for h in page] for page in call.result] == [[h.text for h in page] for page in expected]
    np.testing.assert_allclose(call.result.scores, expected.scores, atol=2e-3)


class _Rows:
    """sentence-transformers' model with ids as input."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def encode_ids(self, ids: Any, lengths: Any) -> Any:
        import torch

        longest = int(lengths.max())
        padded = np.zeros((len(lengths), longest), np.int64)
        mask = np.zeros_like(padded)
        for place, row in enumerate(np.split(ids, np.cumsum(lengths)[:-1])):
            padded[place, : len(row)], mask[place, : len(row)] = row, 1
        with torch.inference_mode():
            features = {"input_ids": torch.from_numpy(padded), "attention_mask": torch.from_numpy(mask)}
            return self._model(features)["sentence_embedding"].numpy()


def test_hosted_cache_reuses_vectors() -> None:
    with Hosted(embedded_model(), 4) as hosted:
        first = run(hosted.start("moon", [LONG], effort="full"))
        again = run(hosted.start("moon", [LONG], effort="full"))
        assert first.work.encoded > 1000
        assert again.work.encoded == 0
        assert hosted.cache.hits == 1
        np.testing.assert_array_equal(first.scores, again.scores)


def test_hosted_batches_respect_max_tokens_and_max_batch_size() -> None:
    with Hosted(embedded_model(), 4, max_tokens=20, max_batch_size=7) as hosted:
        assert hosted.max_tokens == 20
        call = hosted.start("bread", [LONG], effort="full", depth=3)
        rows, seen = call.advance(), 0
        while call.result is None:
            assert len(rows) <= 3
            for batch in rows:
                assert len(batch.lengths) <= 7
                assert batch.lengths.max() <= 20
                assert batch.ids.dtype == np.int32
                seen += len(batch.lengths)
            rows = call.advance([(batch.ticket, [vector(ids) for ids in batch.split()]) for batch in rows])
        assert call.result.work.truncated > 0
        assert seen == call.result.work.encoded + 1


def test_advance_with_invalid_vectors_is_encoder_error(hosted: Hosted) -> None:
    call = hosted.start("moon", [MOON], depth=1)
    (batch,) = call.advance()
    for wrong in ([[1.0, 2.0]], [[1.0] * 4] * 2, [1.0] * 4, "no", [["a"] * 4]):
        with pytest.raises(errors.EncoderError):
            call.advance([(batch.ticket, wrong)])
    with raises(errors.InvalidArgumentError, 99):
        call.advance([(99, [[1.0] * 4])])
    call.advance([(batch.ticket, [[1.0] * 4])])
    with raises(errors.InvalidArgumentError, batch.ticket):
        call.advance([(batch.ticket, [[1.0] * 4])])


def test_invalid_hosted_arguments_are_errors(hosted: Hosted, planner: Planner) -> None:
    with raises(errors.InvalidArgumentError, "texts"):
        hosted.start("moon", [])
    with raises(errors.InvalidArgumentError, "query", 0):
        hosted.start(" ", [MOON])
    with raises(errors.InvalidArgumentError, "depth", 0):
        hosted.start("moon", [MOON], depth=0)
    with raises(errors.InvalidArgumentError, "effort", "auto", "full"):
        planner.plan("moon", [MOON], effort="auto")
    with raises(errors.LimitExceededError, "10 windows"):
        planner.plan("moon", [LONG], limit_windows=10)
    with raises(errors.EncoderError, "[2, dimension]", "[1, 4]"):
        planner.plan("moon", [MOON]).finish(np.ones((1, 4)))
    with raises(errors.EncoderError, "NaN"):
        (plan := planner.plan("moon", [MOON])).finish(np.full((len(plan.rows), 4), np.nan))
    for wrong in (0, None, 2.5):
        with raises(errors.InvalidArgumentError, "dimension", wrong):
            Hosted(embedded_model(), wrong)  # type: ignore[arg-type]


def test_stopped_and_closed_hosted_calls_raise() -> None:
    with Hosted(embedded_model(), 4) as hosted:
        stopped, open_ = hosted.start("moon", [LONG]), hosted.start("moon", [LONG])
        stopped.advance()
        open_.advance()
        stopped.stop()
        stopped.stop()
        with pytest.raises(errors.CancelledError):
            stopped.advance()
    with pytest.raises(errors.ClosedError):
        open_.advance()
    with pytest.raises(errors.ClosedError):
        hosted.start("moon", [MOON])


def test_async_hosted_calls_share_loop_and_executor(hosted: Hosted) -> None:
    running, are_two = 0, asyncio.Event()

    async def encode(rows: Batch) -> Any:
        nonlocal running
        running += 1
        if running > 1:
            are_two.set()
        await asyncio.wait_for(are_two.wait(), 60)
        running -= 1
        return [vector(ids) for ids in rows.split()]

    async def all_of_them() -> list[Highlights]:
        with ThreadPoolExecutor(2) as executor:
            calls = [hosted.start(f"bread {n}", [LONG, MOON]) for n in range(20)]
            return await asyncio.gather(*(call.run(encode, executor) for call in calls))

    for number, found in enumerate(asyncio.run(all_of_them())):
        same(found, run(hosted.start(f"bread {number}", [LONG, MOON])))
    assert are_two.is_set()


def test_cancelled_hosted_call_cancels_its_batches(hosted: Hosted) -> None:
    begun, ended = threading.Event(), []

    async def hang(rows: Batch) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(rows.ticket)

    async def cancelled() -> HostedCall:
        call = hosted.start("bread", [LONG])
        task = asyncio.ensure_future(call.run(hang))
        await asyncio.to_thread(begun.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return call

    call = asyncio.run(cancelled())
    assert ended
    with pytest.raises(errors.CancelledError):
        call.advance()


def test_hosted_encoder_exception_cancels_other_batches(hosted: Hosted) -> None:
    cancelled = []

    async def fail(rows: Batch) -> Any:
        if rows.ticket == 1:
            return [vector(ids) for ids in rows.split()]
        if rows.ticket == 3:
            message = "out of memory"
            raise RuntimeError(message)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(rows.ticket)
            raise

    with pytest.raises(RuntimeError, match="out of memory"):
        asyncio.run(hosted.start("bread", [LONG], effort="full").run(fail))
    assert cancelled == [2]
