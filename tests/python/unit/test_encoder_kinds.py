"""`encoder=` with token ids, a coroutine or a capsule; failures are errors of their requests."""

import asyncio
import threading
import weakref
from functools import partial
from typing import Any

import numpy as np
import pytest

from pullquote import Highlighter, errors
from pullquote._models.choice import embedded_model, find_torch_encoder
from pullquote.engine import Engine
from support.faulty_encoder_abi import Fault, FaultyEncoder
from support.messages import raises
from support.server_process import wait_for

MOON = "Cats sleep a lot. The moon is 384,400 km away. Bread is baked."


def vectors(texts: list[str]) -> Any:
    return np.array([[len(text), text.count("e"), 1.0] for text in texts], np.float32)


class Ids:
    """Vectors of the ids alone, which it keeps."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    def encode_ids(self, ids: Any, lengths: Any) -> Any:
        assert ids.dtype == np.int32
        assert lengths.dtype == np.uint32
        rows = np.split(ids, np.cumsum(lengths)[:-1])
        self.seen += [row.tolist() for row in rows]
        return np.array([[row.sum(), len(row), row[0] + 1.0] for row in rows], np.float32)


class Awaited:
    def __init__(self) -> None:
        self.loops: set[Any] = set()

    async def encode(self, texts: list[str]) -> Any:
        self.loops.add(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return vectors(texts)


class Offers:
    def __init__(self, threads: int = 1) -> None:
        self.capsule = find_torch_encoder().load(str(embedded_model()), ["cpu"], "float32", threads)

    def __pullquote_encoder__(self) -> object:
        return self.capsule


def test_encode_ids_gets_model_tokenizer_ids() -> None:
    own = Ids()
    with Highlighter(embedded_model(), encoder=own) as highlighter:
        found = highlighter.embed(["The moon.", "Cats sleep a lot."])
        assert highlighter.highlights("moon", [MOON]).work.tokens > 0
    # [CLS] the moon . [SEP] by Hugging Face's tokenizer.
    assert [101, 1996, 4231, 1012, 102] in own.seen
    assert found[0].tolist() == [sum([101, 1996, 4231, 1012, 102]), 5, 102]


def ask_awaited(own: Awaited) -> None:
    with Highlighter(encoder=own) as awaited, Highlighter(encoder=vectors) as plain:
        expected = plain.highlights("moon", [MOON] * 3)
        for _ in range(3):
            assert awaited.highlights("moon", [MOON] * 3).spans.tolist() == expected.spans.tolist()

        async def main() -> Any:
            # From an event loop's thread too.
            return awaited.highlights("moon", [MOON] * 3)

        assert asyncio.run(main()).spans.tolist() == expected.spans.tolist()


def test_async_encode_matches_sync_and_stops_its_loop() -> None:
    own = Awaited()
    ask_awaited(own)
    assert len(own.loops) == 1
    # Its event loop ends with it.
    del own
    wait_for(lambda: all(thread.name != "pullquote-await" for thread in threading.enumerate()))


def test_closed_highlighter_drops_its_encoder() -> None:
    def is_dropped(encoder: weakref.ref[Ids]) -> bool:
        return encoder() is None

    # Several times, because the order of threads varies: the function's thread drops it without another call of ours.
    for _ in range(20):
        own = Ids()
        seen = weakref.ref(own)
        with Highlighter(embedded_model(), encoder=own) as highlighter:
            highlighter.embed([MOON])
        del own, highlighter
        wait_for(partial(is_dropped, seen))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "threads"), [("offered", 1), ("capsule", 1), ("capsule", 0)])
def test_encoder_capsule_with_model_tokenizer(kind: str, threads: int, highlighter: Highlighter) -> None:
    own = Offers(threads)
    encoder: Any = own if kind == "offered" else own.capsule
    with Highlighter(embedded_model(), encoder=encoder) as other:
        assert np.allclose(other.embed([MOON]), highlighter.embed([MOON]), atol=1e-5)
        assert other.highlights("moon", [MOON])[0][0].text == highlighter.highlights("moon", [MOON])[0][0].text
    with raises(errors.InvalidTypeError, "encoder"):
        Highlighter(embedded_model(), encoder=encoder)


@pytest.mark.slow
def test_table_of_another_size(highlighter: Highlighter) -> None:
    own = FaultyEncoder(["cpu"])
    size = own.table.size
    own.table.size = size - 8
    with pytest.raises(errors.InvalidTypeError) as raised:
        Highlighter(embedded_model(), encoder=own)
    assert f"{size - 8} bytes" in str(raised.value)
    assert f"needs {size}" in str(raised.value)
    # A newer maker's table is larger, and this one was not taken.
    own.table.size = size + 8
    with Highlighter(embedded_model(), encoder=own) as other:
        assert np.allclose(other.embed([MOON]), highlighter.embed([MOON]), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        (Fault(errors.DeviceError.code, "gone"), errors.DeviceError, "gone"),
        (Fault(9999, "of a later version"), errors.EncoderError, "of a later version"),
        (Fault(errors.DeviceError.code, None), errors.DeviceError, str(errors.DeviceError.code)),
    ],
)
@pytest.mark.parametrize("at_collect", [False, True])
def test_table_error_codes(fault: Fault, kind: type[Exception], message: str, at_collect: bool) -> None:
    own = FaultyEncoder(["cpu"], lambda *_: fault._replace(at_collect=at_collect))
    with Highlighter(embedded_model(), encoder=own) as highlighter, pytest.raises(kind, match=message):
        highlighter.embed([MOON])


def test_encode_ids_needs_model_and_encode_refuses_it() -> None:
    with raises(errors.InvalidArgumentError, "tokenizer"):
        Highlighter(encoder=Ids())
    with raises(errors.InvalidArgumentError, "model", "encoder"):
        Highlighter(embedded_model(), encoder=vectors)


def test_weights_of_custom_encoder_are_unknown() -> None:
    for arguments in ({"encoder": vectors}, {"model": embedded_model(), "encoder": Ids()}):
        with Highlighter(**arguments) as highlighter:
            assert highlighter.model_id is None


class Wrong(Ids):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = ""
        self.then = way
        self.gate = threading.Event()

    def encode_ids(self, ids: Any, lengths: Any) -> Any:
        rows = super().encode_ids(ids, lengths)
        match self.way:
            case "raises":
                raise KeyError("no such model")
            case "shape":
                return rows[:, :2]
            case "rows":
                return rows[:0]
            case "nan":
                return rows * np.nan
            case "words":
                return "vectors"
            case "hangs":
                self.gate.wait()
        return rows


@pytest.mark.parametrize("way", ["raises", "shape", "rows", "nan", "words", "hangs"])
@pytest.mark.parametrize("stepped", [False, True])
def test_encode_ids_failure_fails_its_request(way: str, stepped: bool) -> None:
    own = Wrong(way)
    kind, timeout = (errors.DeadlineExceededError, 0.1) if way == "hangs" else (errors.EncoderError, 60)
    if stepped:
        with Engine(embedded_model(), encoder=own) as engine:
            own.way = way
            engine.add_request("a", "moon", [MOON], timeout=timeout)
            ended = []
            while engine.has_unfinished_requests():
                ended += engine.step()
            own.gate.set()
            assert type(ended[0].error) is kind
    else:
        with Highlighter(embedded_model(), encoder=own) as highlighter:
            own.way = way
            with pytest.raises(kind):
                highlighter.highlights("moon", [MOON], timeout=timeout)
            own.way = ""
            own.gate.set()
            assert len(highlighter.highlights("moon", [MOON])[0]) > 0


def test_async_encode_exception_is_encoder_error() -> None:
    async def encode(texts: list[str]) -> Any:
        if any("poison" in text for text in texts):
            raise ValueError("poisoned")
        return vectors(texts)

    with Highlighter(encoder=encode) as highlighter:
        with raises(errors.EncoderError, "ValueError: poisoned"):
            highlighter.embed(["poison"])
        assert highlighter.embed(["fine"]).shape == (1, 3)
