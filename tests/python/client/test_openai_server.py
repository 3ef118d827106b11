"""`Client` with an OpenAI-compatible server of FastAPI, pydantic and uvicorn."""

import asyncio
import base64
import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any, Literal

import fastapi
import numpy as np
import pydantic
import pytest
import uvicorn
from fastapi.responses import JSONResponse

from pullquote import AsyncClient, Client, errors
from support.fake_http_server import vectors
from support.messages import raises

TEXTS = [f"text {number}" for number in range(100)]
KEY = "sk-right"


class EmbeddingsBody(pydantic.BaseModel):
    """Refuses unknown fields, as OpenAI's server does."""

    model_config = pydantic.ConfigDict(extra="forbid")
    input: str | list[str]
    model: str
    encoding_format: Literal["float", "base64"] = "float"


class OpenAi:
    """An embeddings server; it answers with the statuses of `failures` first."""

    def __init__(self, base64_is_known: bool) -> None:
        self.asked: list[EmbeddingsBody] = []
        self.failures: list[int] = []
        app = fastapi.FastAPI()

        @app.post("/v1/embeddings")
        async def embeddings(asked: EmbeddingsBody, request: fastapi.Request) -> Any:
            if request.headers.get("authorization") != f"Bearer {KEY}":
                error = {
                    "message": "Incorrect API key provided",
                    "type": "invalid_request_error",
                    "code": "invalid_api_key",
                }
                return JSONResponse({"error": error}, 401)
            if self.failures:
                status = self.failures.pop()
                return JSONResponse({"error": {"message": "later", "type": "overloaded"}}, status, {"retry-after": "0"})
            self.asked.append(asked)
            texts = [asked.input] if isinstance(asked.input, str) else asked.input
            packed = base64_is_known and asked.encoding_format == "base64"
            rows: list[Any] = [
                base64.b64encode(row.tobytes()).decode() if packed else row.tolist() for row in vectors(texts)
            ]
            data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
            usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
            return {"object": "list", "data": data, "model": asked.model, "usage": usage}

        self._server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="off"))
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        until = time.monotonic() + 30
        while not self._server.started:
            assert time.monotonic() < until, "uvicorn did not start"
            time.sleep(0.005)
        self.url = f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)


@pytest.fixture(params=["base64", "float lists"])
def server(request: pytest.FixtureRequest) -> Iterator[OpenAi]:
    running = OpenAi(request.param == "base64")
    with contextlib.closing(running):
        yield running


@pytest.mark.parametrize("suffix", ["", "/v1"])
def test_embed_from_openai_server(server: OpenAi, suffix: str) -> None:
    with Client(server.url + suffix, api_key=KEY, model="m", rows_per_request=16) as client:
        assert np.abs(client.embed(TEXTS) - vectors(TEXTS)).max() < 1e-6
        assert np.abs(client.embed(["one"]) - vectors(["one"])).max() < 1e-6
    assert {asked.model for asked in server.asked} == {"m"}
    assert {asked.encoding_format for asked in server.asked} == {"base64"}

    async def go() -> Any:
        async with AsyncClient(server.url + suffix, api_key=KEY, model="m", rows_per_request=16) as client:
            return await client.embed(TEXTS)

    assert np.abs(asyncio.run(go()) - vectors(TEXTS)).max() < 1e-6


def test_openai_server_errors_keep_their_message(server: OpenAi) -> None:
    with (
        Client(server.url, api_key="wrong", model="m") as stranger,
        raises(errors.UnauthorizedError, 401, "Incorrect API key provided"),
    ):
        stranger.embed(["a"])
    with Client(server.url + "/v1", api_key=KEY, model="m") as client:
        with raises(errors.InvalidArgumentError, "role", "query"):
            client.embed(["a"], role="query")
        # The server has no such route and no such types.
        with raises(errors.NotFoundError, 404, "Not Found"):
            client.highlights("a", ["b"])
        with raises(errors.InvalidArgumentError, 422):
            client.embed(["a"], embedding_dtype="int8")
    with Client(server.url, api_key=KEY) as nameless, raises(errors.InvalidArgumentError, 422):
        nameless.embed(["a"])


def test_openai_server_429_and_503_are_retried(server: OpenAi) -> None:
    with Client(server.url, api_key=KEY, model="m") as client:
        server.failures[:] = [429, 503]
        assert np.abs(client.embed(["a"]) - vectors(["a"])).max() < 1e-6
        server.failures[:] = [500]
        with raises(errors.EncoderError, 500, "later"):
            client.embed(["a"])
