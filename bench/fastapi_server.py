"""A FastAPI server that batches as usual: a queue, and a task that waits until a batch is full or a timeout passes.

uvicorn bench.fastapi_server:app    # with MODEL, BATCH_SIZE and BATCH_TIMEOUT in the environment
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
from fastapi import FastAPI
from numpy.typing import NDArray
from pydantic import BaseModel

from pullquote._models.python_encoder import TextEncoder, import_encoder

BATCH_SIZE = int(os.environ["BATCH_SIZE"])
BATCH_TIMEOUT = float(os.environ["BATCH_TIMEOUT"])

Waiting = tuple[str, asyncio.Future[NDArray[np.float32]]]


class EmbedBody(BaseModel):
    """A text to be embedded."""

    inputs: str


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Load the model, and batch as long as the server runs."""
    app.state.encode = TextEncoder(import_encoder(os.environ["MODEL"]))
    app.state.queue = asyncio.Queue[Waiting]()
    task = asyncio.create_task(_batch(app))
    yield
    task.cancel()


async def _batch(app: FastAPI) -> None:
    queue: asyncio.Queue[Waiting] = app.state.queue
    loop = asyncio.get_running_loop()
    while True:
        batch = [await queue.get()]
        until = loop.time() + BATCH_TIMEOUT
        while len(batch) < BATCH_SIZE and (left := until - loop.time()) > 0:
            try:
                batch.append(await asyncio.wait_for(queue.get(), left))
            except TimeoutError:
                break
        vectors = await asyncio.to_thread(app.state.encode, [text for text, _ in batch])
        for (_, answer), vector in zip(batch, vectors, strict=True):
            if not answer.done():
                answer.set_result(vector)


async def embed(body: EmbedBody) -> list[list[float]]:
    """Embed a text, in the shape of Text Embeddings Inference."""
    answer: asyncio.Future[NDArray[np.float32]] = asyncio.get_running_loop().create_future()
    await app.state.queue.put((body.inputs, answer))
    vector = await answer
    return [vector.tolist()]


app = FastAPI(lifespan=lifespan)
app.add_api_route("/embed", embed, methods=["POST"])
