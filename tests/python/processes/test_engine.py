"""`Engine`: the answers of a `Highlighter` in steps that a host drives, on the threads that it allows."""

import inspect
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pullquote
from pullquote import Highlighter, errors
from pullquote.engine import Engine, RequestOutput
from support.messages import raises
from support.threads import SCRIPT_ENVIRONMENT

MOON = "Cats sleep a lot. The moon is 384,400 km away. Bread is baked."
LONG = " ".join(f"Sentence {n} is here." for n in range(2000))


def encode(texts: list[str]) -> Any:
    return np.array([[len(text), text.count("e"), 1.0] for text in texts], np.float32)


def run(engine: Engine) -> dict[str, RequestOutput]:
    ended = {}
    while engine.has_unfinished_requests():
        ended.update({output.request_id: output for output in engine.step()})
    return ended


@pytest.fixture(params=[1, "caller"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with Engine(encoder=encode, threads=request.param) as made:
        yield made


def test_engine_has_highlighter_constructor() -> None:
    assert inspect.signature(Engine).parameters == inspect.signature(Highlighter).parameters


@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, "caller"])
def test_engine_outputs_match_highlighter(highlighter: Highlighter, pages: dict[str, str], threads: Any) -> None:
    texts = list(pages.values())[:2]
    asked: dict[str, dict[str, Any]] = {
        "all": {"query": "Who died?", "texts": texts},
        "fused": {"query": ["Who died?", "Warum?"], "texts": texts[:4], "fuse": True, "max_total_chars": 400},
        "words": {"query": "health", "texts": texts[:2], "unit": "word", "highlight_length": 20, "step_size": 10},
    }
    with Engine(devices="cpu", dtype="float32", threads=threads) as engine:
        for name, request in asked.items():
            options = {key: value for key, value in request.items() if key not in {"query", "texts"}}
            engine.add_request(name, request["query"], request["texts"], options)
        assert engine.get_num_unfinished_requests() == 3
        ended = run(engine)
    for name, request in asked.items():
        found, expected = ended[name].outputs, highlighter.highlights(**request)
        assert found is not None
        assert [[h.text for h in page] for page in found] == [[h.text for h in page] for page in expected]
        assert np.allclose(found.scores, expected.scores, atol=2e-5)
        assert ended[name].progress.tokens == found.work.tokens


def test_cite_of_engine_matches_highlighter(engine: Engine) -> None:
    answer = "The moon is 384,400 km away [1]. It is made of cheese [1]."
    pages, options = {"moon": MOON, "long": LONG}, {"numbers": [0]}
    with Highlighter(encoder=encode) as highlighter:
        expected = highlighter.cite(answer, pages, **options)  # type: ignore[arg-type]
    engine.add_cite("cite", answer, pages, **options)  # type: ignore[arg-type]
    engine.add_request("highlights", "moon", [MOON])
    engine.add_cite("late", answer, pages, timeout=1e-6)
    with raises(errors.InvalidArgumentError, "'cite'"):
        engine.add_cite("cite", answer, pages)
    with raises(errors.InvalidArgumentError, "numbers", -1):
        engine.add_cite("other", answer, pages, numbers=[-1])
    engine.add_cite("unwanted", answer, pages)
    engine.abort_request("unwanted")
    ended = run(engine)
    assert ended.keys() == {"cite", "highlights", "late"}
    assert (ended["cite"].cited, ended["cite"].outputs, ended["cite"].error) == (expected, None, None)
    assert ended["cite"].progress.tokens > 0
    assert (ended["highlights"].cited, ended["highlights"].error) == (None, None)
    assert (ended["late"].cited, type(ended["late"].error)) == (None, errors.DeadlineExceededError)


def test_step_of_idle_engine_returns_at_once(engine: Engine) -> None:
    began = time.perf_counter()
    assert all(engine.step() == [] for _ in range(1000))
    # Steps that wait would take 50 ms each.
    assert time.perf_counter() - began < 25.0
    assert not engine.has_unfinished_requests()


def test_step_cpu_time_is_bounded(engine: Engine) -> None:
    for n in range(50):
        engine.add_request(str(n), "sentence 7", [f"{LONG} {n}"], {"effort": "full"})
    longest = 0.0
    for _ in range(50):
        began = time.thread_time()
        engine.step()
        longest = max(longest, time.thread_time() - began)
    # One round of text and one batch. All of the work takes ten times as long.
    assert longest < 0.5
    assert engine.get_num_unfinished_requests() > 0


def test_hanging_encoder_blocks_no_step() -> None:
    hang = threading.Event()

    def hangs(texts: list[str]) -> Any:
        if any("hang" in text for text in texts):
            hang.wait(120)
        return encode(texts)

    with Engine(encoder=hangs) as engine:
        engine.add_request("a", "hang", [MOON], timeout=0.2)
        began = time.perf_counter()
        ended = run(engine)
        assert time.perf_counter() - began < 60
        assert isinstance(ended["a"].error, errors.DeadlineExceededError)
        hang.set()


def test_limit_windows_and_limit_tokens_end_one_request(engine: Engine) -> None:
    engine.add_request("windows", "cat", [LONG], limit_windows=100)
    engine.add_request("tokens", "cat", [LONG], {"effort": "full"}, limit_tokens=500)
    engine.add_request("time", "cat", [LONG], timeout=1e-6)
    engine.add_request("fine", "cat", [MOON], limit_windows=10, limit_tokens=1000, timeout=60)
    ended = run(engine)
    assert isinstance(ended["windows"].error, errors.LimitExceededError)
    assert ended["windows"].progress.windows > 100
    assert isinstance(ended["tokens"].error, errors.LimitExceededError)
    assert 0 < ended["tokens"].progress.tokens <= 500
    assert isinstance(ended["time"].error, errors.DeadlineExceededError)
    assert ended["fine"].error is None
    assert all(output.finished for output in ended.values())


def test_abort_request_drops_output(engine: Engine) -> None:
    for name in "abc":
        engine.add_request(name, "sentence 7", [LONG])
    engine.step()
    engine.abort_request(["a", "nobody"])
    engine.abort_request("b")
    assert set(run(engine)) <= {"c"}
    assert engine._requests == {}


def test_add_request_validates_arguments(engine: Engine) -> None:
    engine.add_request("a", "cat", [MOON])
    with raises(errors.InvalidArgumentError, "a"):
        engine.add_request("a", "cat", [MOON])
    wrong: list[tuple[type[Exception], tuple[Any, ...]]] = [
        (errors.InvalidArgumentError, (" ", [MOON])),
        (errors.InvalidTypeError, ("cat", MOON)),
        (errors.InvalidTypeError, ("cat", [MOON], {"topk": 3})),
        (errors.InvalidArgumentError, ("cat", [MOON], {"top_k": 0})),
        (errors.InvalidArgumentError, ("cat", [MOON], None, 0, -1.0)),
    ]
    for kind, asked in wrong:
        with pytest.raises(kind):
            engine.add_request("b", *asked)
    assert set(run(engine)) == {"a"}
    engine.add_request("a", "cat", [MOON])
    assert set(run(engine)) == {"a"}


def test_priority_orders_engine_requests(engine: Engine) -> None:
    for name, priority in (("later", 3), ("usual", 0), ("urgent", -2)):
        engine.add_request(name, "sentence 7", [f"{LONG} {name}"], priority=priority)
    ended: list[str] = []
    while engine.has_unfinished_requests():
        ended += [output.request_id for output in engine.step()]
    assert ended[0] == "urgent"


def test_encoder_exception_fails_only_its_request() -> None:
    def fails(texts: list[str]) -> Any:
        if any("venom" in text for text in texts):
            raise ValueError("poisoned")
        return encode(texts)

    for threads in (1, "caller"):
        with Engine(encoder=fails, threads=threads) as engine:
            engine.add_request("bad", "venom", [MOON])
            engine.add_request("good", "cat", [MOON])
            ended = run(engine)
            assert isinstance(ended["bad"].error, errors.EncoderError)
            assert "poisoned" in str(ended["bad"].error)
            assert ended["good"].outputs is not None


def test_close_ends_unfinished_requests(engine: Engine) -> None:
    engine.add_request("a", "cat", [LONG])
    engine.step()
    engine.close()
    assert isinstance(run(engine)["a"].error, errors.ClosedError)
    with pytest.raises(errors.ClosedError):
        engine.add_request("b", "cat", [MOON])


def test_add_request_from_threads_during_step(engine: Engine) -> None:
    def add(first: int) -> None:
        for n in range(100):
            engine.add_request(f"{first} {n}", "cat", [f"{MOON} {n}."])

    adders = [threading.Thread(target=add, args=(first,)) for first in range(4)]
    for adder in adders:
        adder.start()
    ended: list[str] = []
    while len(ended) < 400:
        ended += [output.request_id for output in engine.step()]
    for adder in adders:
        adder.join()
    assert len(set(ended)) == 400


NAMES = """
import os
from support.threads import own_threads, thread_names
"""


def run_code(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", NAMES + code],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=SCRIPT_ENVIRONMENT | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_threads_caller_starts_no_threads() -> None:
    code = """
import torch, pullquote.engine, pullquote_torch
page = "The moon is far away. Cats sleep. " * 4000
torch.get_num_threads(); before = thread_names(); own = torch.get_num_threads()
own_function = {"encoder": lambda texts: [[1.0, len(t)] for t in texts]}
for encoder in ({"devices": "cpu"}, {"devices": "cpu", "encoder": "torch"}, own_function):
    with pullquote.engine.Engine(threads="caller", **encoder) as e:
        e.add_request("a", "moon", [page[:5000]])
        e.add_request("b", "moon", [page], {"effort": "fast"})
        while e.has_unfinished_requests():
            assert all(output.error is None for output in e.step())
        assert thread_names() == before, thread_names()
assert torch.get_num_threads() == own
print("ok")
"""
    assert run_code(code) == "ok\n"


@pytest.mark.slow
def test_threads_caller_restores_torch_settings() -> None:
    import torch

    def settings() -> tuple[Any, ...]:
        kept = torch.ones(1, requires_grad=True) * 2
        return (torch.get_num_threads(), torch.is_grad_enabled(), torch.is_inference_mode_enabled(), kept.requires_grad)

    own = torch.get_num_threads()
    modes: list[Any] = [torch.enable_grad(), torch.no_grad(), torch.inference_mode()]
    with Engine(devices="cpu", encoder="torch", threads="caller") as engine:
        for number, mode in enumerate(modes):
            with mode:
                torch.set_num_threads(2)
                before = settings()
                engine.add_request(str(number), "moon", [MOON])
                assert run(engine)[str(number)].error is None
                assert settings() == before
    torch.set_num_threads(own)


@pytest.mark.slow
def test_small_calls_use_caller_threads_for_text() -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
import pullquote.engine, pullquote_torch
pages = [f"The moon is far away. Cats sleep. This is page {n}." for n in range(200)]
with pullquote.Highlighter(devices="cpu", threads=2) as h, ThreadPoolExecutor(32) as pool:
    found = list(pool.map(lambda page: h.highlights("page", [page], top_k=1)[0][0].text, pages))
    assert found == [f"This is page {n}." for n in range(200)], found
    print(own_threads())
"""
    assert run_code(code) == "['pullquote-cpu.0', 'pullquote-cpu.1', 'pullquote-sched']\n"


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["OMP_NUM_THREADS", "affinity", "threads"])
def test_thread_count_respects_limits(limit: str) -> None:
    code = f"""
import sys
if {limit!r} == "affinity":
    os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])
import torch, pullquote.engine, pullquote_torch
page = "The moon is far away. Cats sleep. " * 4000
before = len(thread_names())
with pullquote.Highlighter(devices="cpu", threads={1 if limit == "threads" else None}) as h:
    h.highlights("moon", [page], effort="fast")
    print(own_threads(), len(thread_names()) - before)
"""
    found = run_code(code, **({"OMP_NUM_THREADS": "1"} if limit == "OMP_NUM_THREADS" else {}))
    # The scheduler and one worker; no threads of rayon, OpenMP or torch.
    assert found == "['pullquote-cpu.0', 'pullquote-sched'] 2\n"


@pytest.mark.slow
def test_cores_option_sets_affinity_of_all_threads() -> None:
    core = max(os.sched_getaffinity(0))
    code = f"""
import pullquote.engine, asyncio
mine = os.sched_getaffinity(0)
page = "The moon is far away. Cats sleep. " * 4000
h = pullquote.Highlighter(devices="cpu", cores=[{core}], threads=2)
h.highlights("moon", [page], effort="fast")
asyncio.run(pullquote.AsyncHighlighter.sharing(h).highlights("moon", ["The moon."]))
seen = set()
for thread, name in thread_names().items():
    if name.startswith("pullquote"):
        seen.add(name[:13]); assert os.sched_getaffinity(thread) == {{{core}}}, name
assert os.sched_getaffinity(0) == mine
print(sorted(seen))
"""
    assert run_code(code) == "['pullquote-cpu', 'pullquote-sch', 'pullquote-tas', 'pullquote-tex']\n"


def test_invalid_threads_and_cores_are_errors() -> None:
    refused: list[dict[str, Any]] = [
        {"threads": 0},
        {"threads": "all"},
        {"cores": []},
        {"cores": [-1]},
        {"cores": ["a"]},
        {"cores": [9999]},
    ]
    for wrong in refused:
        with pytest.raises(errors.InvalidArgumentError):
            Highlighter(encoder=encode, **wrong)


@pytest.mark.parametrize("made", [Highlighter, pullquote.AsyncHighlighter])
def test_threads_caller_is_for_engine(made: Any) -> None:
    with raises(errors.InvalidArgumentError, "threads", '"caller"', "pullquote.engine.Engine"):
        made(encoder=encode, threads="caller")


def test_docstring_example_runs() -> None:
    import doctest

    import pullquote.engine

    assert doctest.testmod(pullquote.engine).failed == 0
