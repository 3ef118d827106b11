"""The endpoint: ``POST /v1/highlights`` in a running ``vllm serve``.

A few threads process text, vLLM encodes, and its event loop only passes data between them. A request has a few hundred rows in
vLLM at a time. Each row is a request of vLLM, which batches it with all others.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import Request, Response
from fastapi.responses import JSONResponse
from vllm.exceptions import GenerationError, RetryableRequestError
from vllm.inputs import tokens_input
from vllm.pooling_params import PoolingParams

from pullquote.engine import Batch, Hosted
from pullquote.errors import DeadlineExceededError, NoEncoderError, OverloadedError, PullquoteError
from pullquote.vllm._bodies import InvalidRequestError, error_response, read_body
from pullquote.vllm._metrics import PRESENT
from pullquote.vllm._settings import Settings
from pullquote.vllm._tokenizer import tokenizer_directory

if TYPE_CHECKING:
    from argparse import Namespace

    from fastapi import FastAPI
    from numpy.typing import NDArray
    from starlette.datastructures import State
    from vllm.engine.protocol import EngineClient
    from vllm.tasks import SupportedTask

__all__ = ["HighlightsEndpoint", "Service"]

PATH = "/v1/highlights"
# Token ids of a first row, whose vector shows the dimension.
PROBE = [0]


class HighlightsEndpoint:
    """vLLM loads it if ``VLLM_PLUGINS`` names ``pullquote`` and the model can embed."""

    name = "pullquote"
    required_tasks: tuple[SupportedTask, ...] | None = ("embed",)

    def attach_router(self, app: FastAPI) -> None:
        """Add the route."""
        app.add_api_route(PATH, _highlights, methods=["POST"], response_model=None, tags=["pullquote"])

    async def init_state(self, engine_client: EngineClient | None, state: State, args: Namespace) -> None:  # noqa: ARG002 - vLLM's
        """Read the tokenizer of vLLM's model, and encode a first vector."""
        if engine_client is not None:
            state.pullquote = await Service.begin(engine_client)


async def _highlights(request: Request) -> Response:
    """Answer ``POST /v1/highlights``."""
    service: Service | None = getattr(request.app.state, "pullquote", None)
    if service is None:
        return _response(*error_response(NoEncoderError("this server has no embedding model"), ""))
    return await service.respond(request)


class Service:
    """All requests of a server; made by `begin`."""

    def __init__(self, engine: EngineClient, hosted: Hosted, settings: Settings) -> None:
        """Use `engine` to encode the rows that `hosted` makes of texts."""
        self.engine, self.hosted, self.settings = engine, hosted, settings
        self._threads = ThreadPoolExecutor(settings.threads, "pullquote-vllm")
        self._turns = asyncio.Semaphore(settings.max_concurrent)
        # Requests in progress or queued, and the bytes of their bodies.
        self.present = 0
        self.held = 0

    @classmethod
    async def begin(cls, engine: EngineClient) -> Service:
        """Encode a first vector, and read the tokenizer."""
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
            reranker=settings.reranker,
            pruner=settings.pruner,
        )
        return cls(engine, hosted, settings)

    def close(self) -> None:
        """Free its threads and its cache; unanswered requests raise `ClosedError`."""
        self.hosted.close()
        self._threads.shutdown(wait=False)

    async def respond(self, request: Request) -> Response:
        """Answer a request, with an error if it fails. A client that disconnects cancels its work."""
        request_id = request.headers.get("x-request-id") or uuid.uuid4().hex
        try:
            body = await self._body(request)
            try:
                written = await _unless_disconnected(request, self._answer(body, request_id))
            finally:
                self.held -= len(body)
        except (InvalidRequestError, PullquoteError) as error:
            return _response(*error_response(error, request_id))
        # A client that has disconnected reads nothing.
        return Response(written or b"", media_type="application/json", headers={"x-request-id": request_id})

    async def _body(self, request: Request) -> bytes:
        """Read the body; its bytes count as held from then on."""
        content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if content_type != "application/json":
            message = f"the body must be application/json, not {content_type!r}"
            raise InvalidRequestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
        parts, size = [], 0
        try:
            async for part in request.stream():
                size += len(part)
                self.held += len(part)
                if size > self.settings.max_body_bytes:
                    message = f"the body is larger than {self.settings.max_body_bytes} bytes"
                    raise InvalidRequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", message)
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
            message = f"{self.present} requests are in progress or queued; try again later"
            raise OverloadedError(message)
        self.present += 1
        PRESENT.inc()
        try:
            # The server's own timeout; the core enforces that of the request.
            async with asyncio.timeout(self.settings.timeout):
                began = time.monotonic()
                async with self._turns:
                    return await self._compute(body, request_id, time.monotonic() - began)
        except DeadlineExceededError:
            # The request's own timeout; it is a `TimeoutError` too.
            raise
        except TimeoutError:
            message = f"the request took longer than {self.settings.timeout} seconds"
            raise DeadlineExceededError(message) from None
        finally:
            self.present -= 1
            PRESENT.dec()

    async def _compute(self, body: bytes, request_id: str, queued: float) -> bytes:
        loop = asyncio.get_running_loop()
        read = await loop.run_in_executor(self._threads, read_body, body, self.settings)
        call = self.hosted.start_body(read, queued, limit_windows=self.settings.max_windows)
        name = f"highlights-{request_id}-{uuid.uuid4().hex[:8]}"

        async def encode(rows: Batch) -> NDArray[np.float32]:
            each = enumerate(rows.split())
            return await _gather(
                _vector(self.engine, ids, f"{name}-{rows.ticket}-{row}", read.priority) for row, ids in each
            )

        return await call.run(encode, self._threads)


async def _vector(engine: EngineClient, ids: list[int], name: str, priority: int) -> NDArray[np.float32]:
    """The vector of a row; cancelling this aborts vLLM's request."""
    outputs = engine.encode(tokens_input(ids), PoolingParams(task="embed"), name, priority=priority)
    async with aclosing(outputs):
        async for output in outputs:
            if output.error is not None:
                raise (RetryableRequestError if output.error.retryable else GenerationError)(output.error.message)
            vector: NDArray[np.float32] = output.outputs.data.float().cpu().numpy()
    return vector


async def _gather(rows: Iterable[Coroutine[Any, Any, NDArray[np.float32]]]) -> NDArray[np.float32]:
    """Await all rows at once; if one fails or this is cancelled, cancel the others and wait for them."""
    tasks = [asyncio.ensure_future(row) for row in rows]
    try:
        return np.stack(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _unless_disconnected(request: Request, work: Coroutine[Any, Any, bytes]) -> bytes | None:
    """The result of the work; `None` if the client disconnects first, which cancels the work."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _disconnect(request: Request) -> None:
    # The body has been read, so only this message can follow.
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _response(status: int, body: dict[str, Any], headers: dict[str, str]) -> Response:
    named = {"x-request-id": body["request_id"]} if body["request_id"] else {}
    return JSONResponse(body, status, headers | named)
