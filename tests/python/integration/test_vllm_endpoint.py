"""The endpoint for vLLM in a FastAPI application, with an engine that encodes as vLLM's client does.

vLLM is not installed, because it pins another torch: the three names that the endpoint imports are stand-ins.
`integration/test_vllm_interfaces.py` checks that vLLM has them, and `make vllm-test` runs a real one.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import pytest
import torch
import uvicorn
from fastapi import FastAPI

from pullquote import AsyncClient, Highlighter
from pullquote._models.choice import embedded_model
from pullquote.errors import InvalidArgumentError
from support.fake_id_encoder import IdEncoder, vector
from support.messages import raises
from support.server_process import until
from support.tiny_models import save_coverage_reranker

MOON = "Cats sleep a lot. The moon is 384,400 km away. Bread is baked."
LONG = " ".join(f"Sentence {n} is about {'the moon' if n % 7 == 0 else 'bread'}." for n in range(1500))


class GenerationError(Exception):
    pass


class Engine:
    """Encodes as vLLM's engine client does: an asynchronous generator for each row, which a cancellation aborts."""

    def __init__(self, **settings: Any) -> None:
        model = SimpleNamespace(model=str(embedded_model()), tokenizer=None, revision=None, max_model_len=256)
        self.vllm_config = SimpleNamespace(model_config=model, additional_config={"pullquote": settings})
        self.names: list[str] = []
        self.priorities: set[int] = set()
        self.running = self.most = self.aborted = 0
        self.hangs = False
        self.fails = False

    async def encode(self, prompt: Any, params: Any, request_id: str, *, priority: int = 0) -> AsyncIterator[Any]:
        assert params.task == "embed"
        assert len(prompt["prompt_token_ids"]) <= 256
        self.names.append(request_id)
        self.priorities.add(priority)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await (asyncio.Event().wait() if self.hangs else asyncio.sleep(0))
            error = SimpleNamespace(message="no memory", retryable=False) if self.fails and self.running > 3 else None
            data = torch.tensor(
                vector(prompt["prompt_token_ids"]), dtype=torch.bfloat16 if len(self.names) == 1 else None
            )
            yield SimpleNamespace(outputs=SimpleNamespace(data=data), error=error)
        except asyncio.CancelledError:
            self.aborted += 1
            raise
        finally:
            self.running -= 1


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def module(name: str, **names: Any) -> None:
        made = ModuleType(name)
        vars(made).update(names)
        monkeypatch.setitem(sys.modules, name, made)

    module("vllm")
    module("vllm.exceptions", GenerationError=GenerationError, RetryableRequestError=GenerationError)
    module("vllm.inputs", tokens_input=lambda ids: {"type": "token", "prompt_token_ids": ids})
    module("vllm.pooling_params", PoolingParams=lambda task: SimpleNamespace(task=task))
    import pullquote.vllm._endpoint as imported

    yield imported
    # Other tests must not import the module with the stand-ins.
    del sys.modules["pullquote.vllm._endpoint"]


def run(endpoint: Any, engine: Engine, test: Callable[[httpx.AsyncClient, Any, FastAPI], Awaitable[None]]) -> None:
    """The plugin as vLLM loads it: routes first, state when the engine runs."""

    async def running() -> None:
        plugin, app = endpoint.HighlightsEndpoint(), FastAPI()
        plugin.attach_router(app)
        await plugin.init_state(engine, app.state, SimpleNamespace())
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here", timeout=60) as client:
            await test(client, app.state.pullquote, app)
        service = app.state.pullquote
        assert (service.present, service.held, engine.running) == (0, 0, 0)
        service.close()

    asyncio.run(running())


@pytest.mark.parametrize("effort", ["auto", "full"])
def test_endpoint_matches_library(endpoint: Any, effort: Any) -> None:
    engine = Engine(rows_in_flight=64)
    asked: dict[str, Any] = {"effort": effort, "max_chars": 300}
    with Highlighter(embedded_model(), encoder=IdEncoder()) as highlighter:
        expected = [highlighter.highlights(f"bread {n}", [LONG, MOON], **asked) for n in range(6)]

    async def test(client: httpx.AsyncClient, _service: Any, _app: FastAPI) -> None:
        bodies = [{"query": f"bread {n}", "documents": [LONG, MOON], "priority": n, **asked} for n in range(6)]
        answers = await asyncio.gather(*(client.post("/v1/highlights", json=body) for body in bodies))
        for number, answer in enumerate(answers):
            assert answer.status_code == 200, answer.text
            for page, highlights in zip(answer.json()["results"], expected[number], strict=True):
                assert [h["text"] for h in page["highlights"]] == [h.text for h in highlights]
                assert [h["score"] for h in page["highlights"]] == pytest.approx(
                    [h.score for h in highlights], abs=1e-6
                )

    run(endpoint, engine, test)
    assert len(set(engine.names)) == len(engine.names)
    assert engine.most <= 6 * 64
    assert engine.priorities == set(range(6))


def test_reranker_scores_what_vllm_encoded(endpoint: Any, tmp_path: Path) -> None:
    save_coverage_reranker(tmp_path / "reranker", embedded_model())
    page = "Bread is baked. Old stories say that the moon is made of cheese. Nobody has seen it."
    with Highlighter(embedded_model(), encoder=IdEncoder(), reranker=tmp_path / "reranker") as highlighter:
        (expected,) = highlighter.highlights("cheese moon", [page])
        (plain,) = highlighter.highlights("cheese moon", [page], rerank_top=0)

    async def test(client: httpx.AsyncClient, _service: Any, _app: FastAPI) -> None:
        answer = await client.post("/v1/highlights", json={"query": "cheese moon", "documents": [page]})
        (found,) = answer.json()["results"]
        assert [h["score"] for h in found["highlights"]] == pytest.approx([h.score for h in expected], abs=1e-6)
        assert found["highlights"][0]["score"] != pytest.approx(plain[0].score, abs=1e-3)

    run(endpoint, Engine(reranker=str(tmp_path / "reranker")), test)
    with raises(InvalidArgumentError, "reranker", 1):
        run(endpoint, Engine(reranker=1), test)


def test_async_client_with_endpoint(endpoint: Any) -> None:
    """Over a socket, with the options that change what the client sends."""
    pages = [LONG, f"<p>{MOON}</p>"]
    asked: list[Any] = [{}, {"explain": True, "titles": ["one", "two"]}, {"format": "html", "timeout": 60.0}]
    with Highlighter(embedded_model(), encoder=IdEncoder()) as highlighter:
        expected = [highlighter.highlights("moon", pages, **options) for options in asked]

    async def test(_client: httpx.AsyncClient, _service: Any, app: FastAPI) -> None:
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="off"))
        serving = asyncio.ensure_future(server.serve())
        await until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with AsyncClient(f"http://127.0.0.1:{port}/v1") as client:
            for options, ours in zip(asked, expected, strict=True):
                theirs = await client.highlights("moon", pages, **options)
                assert [[h.text for h in page] for page in theirs] == [[h.text for h in page] for page in ours]
            with raises(InvalidArgumentError, "return_vectors"):
                await client.highlights("moon", pages, return_vectors=True)
        server.should_exit = True
        await serving

    run(endpoint, Engine(), test)


def test_hang_up_aborts_only_its_rows(endpoint: Any) -> None:
    engine = Engine()

    async def test(client: httpx.AsyncClient, service: Any, app: FastAPI) -> None:
        engine.hangs = True
        sent: list[Any] = []
        gone = asyncio.Event()

        async def receive() -> Any:
            if not receive_body:
                await gone.wait()
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": receive_body.pop()}

        async def send(message: Any) -> None:
            sent.append(message)

        receive_body = [json.dumps({"query": "bread", "documents": [LONG], "effort": "full"}).encode()]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/highlights",
            "headers": [(b"content-type", b"application/json")],
            "query_string": b"",
        }
        serving = asyncio.ensure_future(app(scope, receive, send))
        await until(lambda: engine.running > 0)
        assert service.present == 1
        begun = engine.running
        gone.set()
        await serving
        assert (engine.running, engine.aborted, service.present) == (0, begun, 0)
        engine.hangs = False
        assert (await client.post("/v1/highlights", json={"query": "moon", "documents": [MOON]})).status_code == 200

    run(endpoint, engine, test)


def test_endpoint_limits(endpoint: Any) -> None:
    engine = Engine(max_concurrent=1, max_queue=0, max_body_bytes=100_000, max_windows=50, timeout=0.5)
    body = {"query": "moon", "documents": [MOON]}

    async def test(client: httpx.AsyncClient, _service: Any, _app: FastAPI) -> None:
        async def told(**sent: Any) -> tuple[int, str]:
            answer = await client.post("/v1/highlights", **sent)
            assert answer.headers["x-error-kind"] == answer.json()["error"]["kind"]
            return answer.status_code, answer.json()["error"]["kind"]

        assert await told(json=body | {"documents": ["x" * 100_000]}) == (413, "body_too_large")
        assert await told(json=body | {"documents": [LONG], "effort": "full"}) == (413, "limit_exceeded")
        assert await told(json=body | {"timeout": 1e-9}) == (504, "deadline_exceeded")
        late = await client.post("/v1/highlights", json=body | {"timeout": 1e-9})
        assert "0.5 seconds" not in late.text
        assert await told(json=body | {"query": " "}) == (422, "invalid_body")
        assert await told(json=body | {"top_k": "many"}) == (422, "invalid_body")
        assert await told(json=body | {"offsets": "utf32"}) == (422, "invalid_body")
        assert await told(content=b"{", headers={"content-type": "application/json"}) == (400, "malformed_body")
        assert await told(content=b"{}", headers={"content-type": "text/plain"}) == (415, "unsupported_media_type")
        engine.hangs = True
        first = asyncio.ensure_future(told(json=body))
        await until(lambda: engine.running > 0)
        assert await told(json=body) == (429, "overloaded")
        assert await first == (504, "deadline_exceeded")

    run(endpoint, engine, test)


def test_engine_errors_are_vllm_errors(endpoint: Any) -> None:
    """vLLM's exception handlers deal with a dead engine."""
    engine = Engine()

    async def test(client: httpx.AsyncClient, _service: Any, _app: FastAPI) -> None:
        engine.fails = True
        with raises(GenerationError, "no memory"):
            await client.post("/v1/highlights", json={"query": "bread", "documents": [LONG], "effort": "full"})

    run(endpoint, engine, test)


def test_endpoint_without_engine_is_503(endpoint: Any) -> None:
    async def asked() -> httpx.Response:
        plugin, app = endpoint.HighlightsEndpoint(), FastAPI()
        plugin.attach_router(app)
        await plugin.init_state(None, app.state, SimpleNamespace())
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
            return await client.post("/v1/highlights", json={"query": "moon", "documents": [MOON]})

    answer = asyncio.run(asked())
    assert (answer.status_code, answer.json()["error"]["kind"]) == (503, "no_encoder")
