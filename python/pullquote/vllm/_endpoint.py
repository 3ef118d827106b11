"""The endpoint: ``POST /v1/highlights`` in a running ``vllm serve``.

The text is read in a few threads, vLLM encodes, and its event loop does nothing in between but pass on. A request has a few
hundred rows in vLLM at a time, each a request of vLLM's own, which vLLM batches with whatever else it has to do.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import Request, Response
from vllm.exceptions import GenerationError, RetryableRequestError
from vllm.inputs import tokens_input
from vllm.pooling_params import PoolingParams

from pullquote.engine import Batch, Hosted, HostedCall
from pullquote.errors import DeadlineExceededError, NoEncoderError, OverloadedError, PullquoteError
from pullquote.vllm._metrics import PRESENT
from pullquote.vllm._settings import Settings
from pullquote.vllm._tokenizer import tokenizer_directory
from pullquote.vllm.bodies import Asked, Refused, answer, failure, parse

if TYPE_CHECKING:
    from argparse import Namespace

    from fastapi import FastAPI
    from numpy.typing import NDArray
    from starlette.datastructures import State
    from vllm.engine.protocol import EngineClient
    from vllm.tasks import SupportedTask

__all__ = ["HighlightsEndpoint", "Service"]

PATH = "/v1/highlights"
# A first row, to learn how long vectors are.
PROBE = [0]


class HighlightsEndpoint:
    """What vLLM loads where ``VLLM_PLUGINS`` names ``pullquote``, and the model can embed."""

    name = "pullquote"
    required_tasks: tuple[SupportedTask, ...] | None = ("embed",)

    def attach_router(self, app: FastAPI) -> None:
        """Add the route."""
        app.add_api_route(PATH, _highlights, methods=["POST"], response_model=None, tags=["pullquote"])

    async def init_state(self, engine_client: EngineClient | None, state: State, args: Namespace) -> None:  # noqa: ARG002 - vLLM's
        """Read the tokenizer of vLLM's model, and ask for a first vector."""
        if engine_client is not None:
            state.pullquote = await Service.begin(engine_client)


async def _highlights(request: Request) -> Response:
    """The passages of pages that answer a query."""
    service: Service | None = getattr(request.app.state, "pullquote", None)
    if service is None:
        return _response(*failure(NoEncoderError("this server has no model to encode with"), ""))
    return await service.respond(request)


class Service:
    """The requests of a server, and what they share. Made by `begin`."""

    def __init__(self, engine: EngineClient, hosted: Hosted, settings: Settings) -> None:
        """Take an engine, and what reads text for it."""
        self.engine, self.hosted, self.settings = engine, hosted, settings
        self._threads = ThreadPoolExecutor(settings.threads, "pullquote-vllm")
        self._turns = asyncio.Semaphore(settings.max_concurrent)
        # Requests that are here, and the bytes of their bodies.
        self.present = 0
        self.held = 0

    @classmethod
    async def begin(cls, engine: EngineClient) -> Service:
        """Ask for a first vector."""
        config = engine.vllm_config
        settings = Settings.of(config.additional_config)
        first = await _vector(engine, PROBE, f"pullquote-{uuid.uuid4().hex}", 0)
        model = await asyncio.to_thread(tokenizer_directory, config.model_config)
        hosted = await asyncio.to_thread(
            Hosted,
            model,
            len(first),
            max_tokens=config.model_config.max_model_len,
            max_batch_size=max(settings.rows_in_flight // 2, 1),
            threads=settings.threads,
            cache_bytes=settings.cache_bytes,
            name="vllm",
        )
        return cls(engine, hosted, settings)

    def close(self) -> None:
        """Let go of its threads and of what it keeps; requests that are not answered raise `ClosedError`."""
        self.hosted.close()
        self._threads.shutdown(wait=False)

    async def respond(self, request: Request) -> Response:
        """Answer a request, or return why not. A client that disconnects cancels its work."""
        request_id = request.headers.get("x-request-id") or uuid.uuid4().hex
        try:
            body = await self._body(request)
            try:
                written = await _unless_gone(request, self._answer(body, request_id))
            finally:
                self.held -= len(body)
        except (Refused, PullquoteError) as error:
            return _response(*failure(error, request_id))
        # Nobody reads what is sent to who has gone.
        return Response(written or b"", media_type="application/json", headers={"x-request-id": request_id})

    async def _body(self, request: Request) -> bytes:
        """The body, which counts as held from here on."""
        content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if content_type != "application/json":
            message = f"the body must be application/json, not {content_type!r}"
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
        parts, size = [], 0
        try:
            async for part in request.stream():
                size += len(part)
                self.held += len(part)
                if size > self.settings.max_body_bytes:
                    message = f"the body is larger than {self.settings.max_body_bytes} bytes"
                    raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", message)
                if self.held > self.settings.max_queue_bytes:
                    message = f"requests hold more than {self.settings.max_queue_bytes} bytes; try again later"
                    raise OverloadedError(message)
                parts.append(part)
        except BaseException:
            self.held -= size
            raise
        return b"".join(parts)

    async def _answer(self, body: bytes, request_id: str) -> bytes:
        if self.present >= self.settings.max_concurrent + self.settings.max_queue:
            message = f"{self.present} requests are being answered or wait; try again later"
            raise OverloadedError(message)
        self.present += 1
        PRESENT.inc()
        try:
            # Of a deadline that the request brings, the core tells; this one is the server's.
            async with asyncio.timeout(self.settings.timeout):
                began = time.monotonic()
                async with self._turns:
                    return await self._worked_on(body, request_id, time.monotonic() - began)
        except DeadlineExceededError:
            # It is a `TimeoutError` too, and says whose.
            raise
        except TimeoutError:
            message = f"the request took longer than {self.settings.timeout} seconds"
            raise DeadlineExceededError(message) from None
        finally:
            self.present -= 1
            PRESENT.dec()

    async def _worked_on(self, body: bytes, request_id: str, queued: float) -> bytes:
        loop = asyncio.get_running_loop()
        asked, call = await loop.run_in_executor(self._threads, self._begin, body)
        priority, name = asked.options.get("priority", 0), f"highlights-{request_id}-{uuid.uuid4().hex[:8]}"

        async def encode(rows: Batch) -> NDArray[np.float32]:
            each = enumerate(rows.split())
            return await _together(
                _vector(self.engine, ids, f"{name}-{rows.ticket}-{row}", priority) for row, ids in each
            )

        found = await call.run(encode, self._threads)
        return await loop.run_in_executor(self._threads, lambda: _written(answer(asked, found, queued)))

    def _begin(self, body: bytes) -> tuple[Asked, HostedCall]:
        asked = parse(body, self.settings)
        call = self.hosted.start(asked.query, asked.texts, limit_windows=self.settings.max_windows, **asked.options)
        return asked, call


async def _vector(engine: EngineClient, ids: list[int], name: str, priority: int) -> NDArray[np.float32]:
    """The vector of a row; cancelling this aborts vLLM's request."""
    outputs = engine.encode(tokens_input(ids), PoolingParams(task="embed"), name, priority=priority)
    async with aclosing(outputs):
        async for output in outputs:
            if output.error is not None:
                raise (RetryableRequestError if output.error.retryable else GenerationError)(output.error.message)
            vector: NDArray[np.float32] = output.outputs.data.float().cpu().numpy()
    return vector


async def _together(rows: Iterable[Coroutine[Any, Any, NDArray[np.float32]]]) -> NDArray[np.float32]:
    """All rows at once; where one fails, or this is cancelled, the others are cancelled and waited for."""
    tasks = [asyncio.ensure_future(row) for row in rows]
    try:
        return np.stack(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _unless_gone(request: Request, work: Coroutine[Any, Any, bytes]) -> bytes | None:
    """What came of the work; nothing where the client hung up first, which ends the work."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_hangs_up(request))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _hangs_up(request: Request) -> None:
    # The body was read, so that nothing else is to come.
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _written(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _response(status: int, body: dict[str, Any], headers: dict[str, str]) -> Response:
    named = {"x-request-id": body["request_id"]} if body["request_id"] else {}
    return Response(_written(body), status, headers | named, "application/json")
