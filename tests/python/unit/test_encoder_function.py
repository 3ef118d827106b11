"""`encoder=` with a function: its input, its results, its failures, and batching."""

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

import pullquote
from pullquote.errors import ClosedError, DeadlineExceededError, EncoderError, InvalidArgumentError, InvalidTypeError
from support.messages import names_all, raises
from support.server_process import ServerProcess, running_server, wait_for

WORDS = ["cat", "moon", "bread", "trial", "ship"]
PAGE = "Cats sleep a lot. The moon is far away. Bread is baked. A trial was held. The ship sank — naïve 🦊 crew."


def count_words(texts: list[str]) -> NDArray[np.float32]:
    """The counts of five words in each text, plus 0.1."""
    rows = [[text.lower().count(word) + 0.1 for word in WORDS] for text in texts]
    return np.array(rows, dtype=np.float32)


class Encoder:
    """Counts words, and keeps its batches."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        self.batches.append(texts)
        return count_words(texts)


def test_encoder_function_finds_passage() -> None:
    with pullquote.Highlighter(encoder=count_words) as highlighter:
        assert (highlighter.model_name, highlighter.dtype, highlighter.devices) == (
            "count_words",
            "float32",
            ["count_words"],
        )
        assert highlighter.dimension == len(WORDS)
        found = highlighter.highlights("a ship", [PAGE], highlight_length=1, lexical_weight=0.0, top_k=1)
    (best,) = found[0]
    assert PAGE[best.start : best.end] == best.text == "The ship sank — naïve 🦊 crew."
    assert best.cosine == pytest.approx(1.0)


def test_encoder_function_gets_exact_windows() -> None:
    encoder = Encoder()
    with pullquote.Highlighter(encoder=encoder, cache_bytes=0) as highlighter:
        highlighter.highlights("moon", [PAGE], highlight_length=2, effort="full")
        vectors = highlighter.embed(["<start>", "Ġ", "", "naïve 🦊\x00\u2028", " a  b "])
    asked = set(itertools.chain.from_iterable(encoder.batches))
    with pullquote.Highlighter(encoder=count_words) as highlighter:
        windows = [PAGE[start:end] for start, end in highlighter.parse_pieces(PAGE, 2, 1)]
    assert {"moon", *windows} <= asked
    assert {"<start>", "Ġ", "", "naïve 🦊\x00\u2028", " a  b "} <= asked
    assert vectors.shape == (5, len(WORDS))


@pytest.mark.slow
def test_sentence_transformer_as_encoder_matches_embedded_model(pages: dict[str, str]) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    from pullquote._models.choice import embedded_model

    model = sentence_transformers.SentenceTransformer(
        str(embedded_model()), device="cpu", model_kwargs={"dtype": "float32"}
    )
    page = next(iter(pages.values()))
    asked: dict[str, Any] = {"effort": "full", "lexical_weight": 0.0, "expand": False}
    with pullquote.Highlighter(encoder=model) as theirs, pullquote.Highlighter(dtype="float32") as ours:
        by_theirs = theirs.highlights("Who was put on trial?", [page], **asked)
        by_ours = ours.highlights("Who was put on trial?", [page], **asked)
    assert by_theirs.spans.tolist() == by_ours.spans.tolist()
    np.testing.assert_allclose(by_theirs.cosines, by_ours.cosines, atol=1e-5)


@pytest.mark.parametrize(
    "returned",
    [
        lambda texts: count_words(texts)[1:],
        lambda texts: count_words(texts)[:, :2],
        lambda texts: count_words(texts)[0],
        lambda _: "vectors",
        lambda _: None,
        lambda texts: np.full((len(texts), len(WORDS)), np.nan, np.float32),
    ],
    ids=["rows", "dimension", "one row", "words", "nothing", "NaN"],
)
def test_encoder_function_with_invalid_result_is_encoder_error(
    returned: Callable[[list[str]], Any],
) -> None:
    wrong = threading.Event()

    def encoder(texts: list[str]) -> Any:
        return returned(texts) if wrong.is_set() else count_words(texts)

    with pullquote.Highlighter(encoder=encoder, cache_bytes=0) as highlighter:
        wrong.set()
        with raises(EncoderError, "encoder"):
            highlighter.highlights("moon", [PAGE])
        wrong.clear()
        assert highlighter.highlights("moon", [PAGE])[0]
    with pytest.raises((EncoderError, InvalidTypeError)):
        pullquote.Highlighter(encoder=lambda texts: count_words(texts)[0])


def test_encoder_function_may_return_lists() -> None:
    with pullquote.Highlighter(encoder=lambda texts: [[1, len(text)] for text in texts]) as highlighter:
        assert highlighter.embed(["ab", "c"]).tolist() == [[1.0, 2.0], [1.0, 1.0]]


def test_encoder_function_exception_fails_only_its_call() -> None:
    started = threading.Event()
    started.set()

    def encoder(texts: list[str]) -> NDArray[np.float32]:
        if any("poison" in text for text in texts):
            message = "this text is poison"
            raise ValueError(message)
        # So that others share its batches.
        started.wait(60)
        return count_words(texts)

    failed: list[int] = []
    right = list[bool]()

    def ask(number: int) -> None:
        if number % 5 == 0:
            with raises(EncoderError, "ValueError: this text is poison"):
                highlighter.embed([f"poison {number}"])
            failed.append(number)
        else:
            vectors = highlighter.embed([f"cat moon {number}" * (number % 7)])
            right.append(np.array_equal(vectors, count_words([f"cat moon {number}" * (number % 7)])))

    with pullquote.Highlighter(encoder=encoder, cache_bytes=0) as highlighter:
        started.clear()
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(50)]
        for thread in threads:
            thread.start()
        started.set()
        for thread in threads:
            thread.join()
    assert len(failed) == 10
    assert len(right) == 40
    assert all(right)


def test_max_batch_size_and_max_batch_tokens_bound_batches() -> None:
    encoder = Encoder()
    with pullquote.Highlighter(encoder=encoder, max_batch_size=3, cache_bytes=0) as highlighter:
        highlighter.embed([f"cat {number}" for number in range(20)])
    assert max(map(len, encoder.batches)) == 3
    encoder = Encoder()
    with pullquote.Highlighter(encoder=encoder, max_batch_tokens=50, cache_bytes=0) as highlighter:
        highlighter.embed(["x" * 20] * 9 + ["y" * 70])
    # One token for each byte and text start; a longer text is alone in its batch.
    assert all(len(batch) == 1 or sum(len(text) + 1 for text in batch) <= 50 for batch in encoder.batches)
    assert max(map(len, encoder.batches)) == 2


def test_batch_timeout_waits_for_full_batch() -> None:
    encoder = Encoder()
    with pullquote.Highlighter(encoder=encoder, max_batch_size=5, batch_timeout=600.0, cache_bytes=0) as highlighter:
        # The fifth text fills the batch; a call that times out does not count.
        threads = [threading.Thread(target=highlighter.embed, args=([f"cat {number}"],)) for number in range(5)]
        for thread in threads[:3]:
            thread.start()
        with pytest.raises(DeadlineExceededError):
            highlighter.embed(["late"], timeout=0.05)
        for thread in threads[3:]:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    assert sorted(map(len, encoder.batches[1:])) == [5]  # the first is the probe
    with pullquote.Highlighter(encoder=Encoder(), batch_timeout=0.02) as highlighter:
        assert highlighter.embed(["alone"]).shape == (1, len(WORDS))


def test_encoder_function_that_hangs_respects_timeout_and_close() -> None:
    hangs, go_on = threading.Event(), threading.Event()

    def encoder(texts: list[str]) -> NDArray[np.float32]:
        if hangs.is_set():
            go_on.wait()
        return count_words(texts)

    highlighter = pullquote.Highlighter(encoder=encoder, cache_bytes=0)
    hangs.set()
    with pytest.raises(DeadlineExceededError):
        highlighter.highlights("moon", [PAGE], timeout=0.1)
    highlighter.close()
    go_on.set()
    with pytest.raises(ClosedError):
        highlighter.embed(["moon"])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"encoder": 3}, InvalidTypeError),
        ({"encoder": Encoder}, InvalidTypeError),
        ({"encoder": count_words, "dtype": "int8"}, InvalidArgumentError),
        ({"encoder": count_words, "model": "x"}, InvalidArgumentError),
        ({"encoder": count_words, "max_batch_size": 0}, InvalidArgumentError),
        ({"encoder": count_words, "max_batch_tokens": 1.5}, InvalidTypeError),
        ({"encoder": count_words, "batch_timeout": -1}, InvalidArgumentError),
        ({"encoder": count_words, "batch_timeout": float("nan")}, InvalidArgumentError),
    ],
)
def test_invalid_encoder_arguments_are_errors(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        pullquote.Highlighter(**arguments)


MODULE = """
import threading
import numpy as np
asked = 0
def encode(texts):
    if any("hang!" in text for text in texts):
        threading.Event().wait()
    if any("raise!" in text for text in texts):
        raise RuntimeError("on purpose")
    return np.array([[len(text), text.count("a"), 1.0] for text in texts], dtype=np.float64)
class deep:
    inner = staticmethod(encode)
"""


@pytest.fixture
def own_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerProcess]:
    (tmp_path / "own_model.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    with running_server("--encoder", "own_model:deep.inner", device=None) as running:
        yield running


def test_serve_encoder_function(own_server: ServerProcess) -> None:
    assert own_server.started["model"] == "encode"
    answer = own_server.client.post("/embed", json={"inputs": ["banana", "x"], "normalize": False})
    assert answer.json() == [[6.0, 3.0, 1.0], [1.0, 0.0, 1.0]]
    info = own_server.client.get("/info").json()
    assert (info["model_id"], info["max_batch_requests"], info["max_batch_tokens"]) == ("encode", 64, 65536)
    failed = own_server.client.post("/embed", json={"inputs": ["raise!"]})
    assert failed.status_code == 500
    # Only the log has the reason.
    assert names_all(failed.json()["error"], "encoder", failed.headers["x-request-id"])
    assert "on purpose" not in failed.text
    wait_for(lambda: f"request_id={failed.headers['x-request-id']}" in own_server.log)
    assert "raised RuntimeError: on purpose" in own_server.log
    assert "Traceback" in own_server.log
    assert "own_model.py" in own_server.log


@pytest.mark.slow
def test_hanging_encoder_function_is_not_healthy(own_server: ServerProcess) -> None:
    with httpx.Client(base_url=own_server.url, timeout=0.2) as client, pytest.raises(httpx.TimeoutException):
        client.post("/embed", json={"inputs": ["hang!"]})
    # Its probe takes five seconds.
    wait_for(lambda: own_server.client.get("/health", timeout=20).status_code != 200)


def test_cli_encoder_that_cannot_be_imported_is_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pullquote._cli import main

    (tmp_path / "broken_model.py").write_text("import no_such_thing_at_all\n")
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.txt"
    page.write_text(PAGE)
    for name in ("nothing_here:encode", "json:no_such_function", "json", ":x"):
        assert main(["highlight", "-q", "moon", "--encoder", name, str(page)]) == 2
    with pytest.raises(ModuleNotFoundError):
        main(["highlight", "-q", "moon", "--encoder", "broken_model:encode", str(page)])


def test_serve_batch_timeout_over_health_probe_is_error(capsys: pytest.CaptureFixture[str]) -> None:
    from pullquote._cli import main

    assert main(["serve", "--port", "0", "--batch-timeout", "2.5"]) == 2
    assert names_all(capsys.readouterr().err, "--batch-timeout", "2.5")


def test_cli_highlight_with_encoder_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pullquote._cli import main

    (tmp_path / "other_model.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.txt"
    page.write_text(PAGE)
    assert main(["highlight", "--json", "-q", "moon", "--encoder", "other_model:encode", str(page)]) == 0
    assert json.loads(capsys.readouterr().out)["highlights"]
