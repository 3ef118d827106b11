"""`Client` with an OpenAI-compatible server of FastAPI, pydantic and uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pullquote import AsyncClient, Client, errors
from support.fake_http_server import vectors
from support.messages import raises

if TYPE_CHECKING:
    from support.fake_openai_server import OpenAi

TEXTS = [f"text {number}" for number in range(100)]
KEY = "sk-right"


@pytest.fixture(params=["base64", "float lists"])
def server(request: pytest.FixtureRequest) -> Iterator[OpenAi]:
    from support.fake_openai_server import OpenAi

    running = OpenAi(KEY, request.param == "base64")
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
