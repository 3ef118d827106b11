"""The IO processor for vLLM, and the state that it keeps of requests, whose end vLLM does not report.

The names that it imports from vLLM are stand-ins, as in `integration/test_vllm_endpoint.py`.
"""

import asyncio
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, Generic, TypeVar

import pytest
import torch

from pullquote import Highlighter, errors
from pullquote._models.choice import embedded_model
from support.fake_id_encoder import IdEncoder, vector
from support.messages import raises

MOON = "Cats sleep a lot. The moon is 384,400 km away. Bread is baked."
BODY: dict[str, Any] = {"query": "How far is the moon?", "documents": [MOON], "top_k": 1}

Input = TypeVar("Input")
Output = TypeVar("Output")


class VLLMValidationError(Exception):
    def __init__(self, message: str, *, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


class IOProcessor(Generic[Input, Output]):
    def __init__(self, vllm_config: Any, renderer: Any) -> None:
        pass


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def module(name: str, **names: Any) -> None:
        made = ModuleType(name)
        vars(made).update(names)
        monkeypatch.setitem(sys.modules, name, made)

    for name in ("vllm", "vllm.plugins", "vllm.plugins.io_processors"):
        module(name)
    module("vllm.exceptions", VLLMValidationError=VLLMValidationError)
    module("vllm.plugins.io_processors.interface", IOProcessor=IOProcessor)
    module("vllm.pooling_params", PoolingParams=lambda task=None: SimpleNamespace(task=task))
    from pullquote.vllm._io_processor import HighlightsIOProcessor

    def made(**settings: Any) -> Any:
        model = SimpleNamespace(model=str(embedded_model()), tokenizer=None, revision=None, max_model_len=256)
        return HighlightsIOProcessor(
            SimpleNamespace(model_config=model, additional_config={"pullquote": settings}), SimpleNamespace()
        )

    yield made
    # Other tests must not import the module with the stand-ins.
    del sys.modules["pullquote.vllm._io_processor"]


def encoded(prompts: Any) -> list[Any]:
    rows = (torch.tensor(vector(prompt["prompt_token_ids"])) for prompt in prompts)
    return [SimpleNamespace(outputs=SimpleNamespace(data=row)) for row in rows]


def test_io_processor_matches_library(make: Any) -> None:
    processor = make()
    with Highlighter(embedded_model(), encoder=IdEncoder()) as highlighter:
        (expected,) = highlighter.highlights(BODY["query"], [MOON], top_k=1, effort="full")
    for name in (None, "pooling-1"):
        outputs = encoded(processor.pre_process(prompt=processor.parse_data(BODY), request_id=name))
        found = processor.post_process(outputs, request_id=name)
        assert [h["text"] for h in found["results"][0]["highlights"]] == [h.text for h in expected]
    assert len(processor.plans) == 0
    assert (
        processor.merge_pooling_params().task
        == processor.merge_pooling_params(SimpleNamespace(task=None)).task
        == "embed"
    )


def test_empty_page_has_a_row(make: Any) -> None:
    processor = make()
    prompts = processor.pre_process(prompt=processor.parse_data({"query": "moon", "documents": ["", " "]}))
    assert len(prompts) == 1
    assert [page["highlights"] for page in processor.post_process(encoded(prompts))["results"]] == [[], []]


def test_cancelled_task_frees_its_request(make: Any) -> None:
    processor = make()

    async def request(hangs: bool) -> None:
        processor.pre_process(prompt=processor.parse_data(BODY), request_id="pooling-1")
        if hangs:
            await asyncio.Event().wait()

    async def served() -> None:
        left = asyncio.ensure_future(request(hangs=True))
        await asyncio.sleep(0)
        assert len(processor.plans) == 1
        with raises(VLLMValidationError, "pooling-1"):
            await request(hangs=False)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        assert len(processor.plans) == 0
        # The request id is free again.
        await asyncio.gather(asyncio.ensure_future(request(hangs=False)))
        assert len(processor.plans) == 0

    asyncio.run(served())


def test_finished_request_does_not_free_next_of_same_id(make: Any) -> None:
    processor = make()

    async def served() -> None:
        ended, later = asyncio.Event(), list[asyncio.Future[None]]()

        async def first() -> None:
            prompts = processor.pre_process(prompt=processor.parse_data(BODY), request_id="pooling-1")
            processor.post_process(encoded(prompts), request_id="pooling-1")
            # Another request with the same id arrives before this task ends.
            later.append(asyncio.ensure_future(second()))
            await asyncio.sleep(0)

        async def second() -> None:
            prompts = processor.pre_process(prompt=processor.parse_data(BODY), request_id="pooling-1")
            await ended.wait()
            assert processor.post_process(encoded(prompts), request_id="pooling-1")["results"]

        await asyncio.ensure_future(first())
        ended.set()
        await later[0]

    asyncio.run(served())


def test_inline_requests_evicts_oldest(make: Any) -> None:
    processor = make(inline_requests=2)
    for number in range(3):
        prompts = processor.pre_process(prompt=processor.parse_data(BODY), request_id=f"pooling-{number}")
    assert len(processor.plans) == 2
    with raises(errors.EncoderError, "pooling-0"):
        processor.post_process(encoded(prompts), request_id="pooling-0")
    assert processor.post_process(encoded(prompts), request_id="pooling-2")["results"]


@pytest.mark.parametrize(
    ("body", "parameter", "names"),
    [
        ({"query": "moon"}, "data.documents", ["invalid_body", "documents"]),
        ([], "data", ["invalid_body"]),
        (BODY | {"timeout": 3}, "data.timeout", ["timeout"]),
        (BODY | {"effort": "auto"}, "data.effort", ["effort", "auto", "full"]),
        (BODY | {"query": " "}, "data.query", ["invalid_body", "query"]),
        (BODY | {"top_k": 0}, "data.top_k", ["invalid_body", "top_k"]),
        (BODY | {"top_k": "many"}, "data.top_k", ["invalid_body", "top_k"]),
        (BODY | {"documents": ["x" * 200_000]}, "data", ["limit_exceeded", "texts"]),
        (BODY | {"documents": ["A b. " * 10_000]}, "data", ["limit_exceeded", "2000 windows"]),
    ],
)
def test_invalid_request_is_vllm_validation_error(make: Any, body: Any, parameter: str, names: list[object]) -> None:
    processor = make()
    with raises(VLLMValidationError, *names) as refused:
        processor.pre_process(prompt=processor.parse_data(body))
    assert refused.value.parameter == parameter
    assert len(processor.plans) == 0


def test_tokenizer_must_be_that_of_vllm_model(monkeypatch: pytest.MonkeyPatch) -> None:
    from pullquote.vllm._tokenizer import tokenizer_directory

    def model(name: str, tokenizer: str | None) -> Any:
        return SimpleNamespace(model=name, tokenizer=tokenizer, revision=None)

    own = str(embedded_model())
    assert tokenizer_directory(model(own, own)) == tokenizer_directory(model(own, None)) == embedded_model()
    with raises(errors.InvalidArgumentError, "tokenizer", "other"):
        tokenizer_directory(model(own, "other"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with raises(errors.ModelNotFoundError, "nobody/has-this"):
        tokenizer_directory(model("nobody/has-this", None))
