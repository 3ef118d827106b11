"""An OpenAI-compatible embeddings server of FastAPI, pydantic and uvicorn. Its tests import it in their fixture, because that takes
a second.
"""

import base64
import threading
import time
from typing import Any, Literal

import fastapi
import pydantic
import uvicorn
from fastapi.responses import JSONResponse

from support.fake_http_server import vectors


class EmbeddingsBody(pydantic.BaseModel):
    """Refuses unknown fields, as OpenAI's server does."""

    model_config = pydantic.ConfigDict(extra="forbid")
    input: str | list[str]
    model: str
    encoding_format: Literal["float", "base64"] = "float"


class OpenAi:
    """An embeddings server; it answers with the statuses of `failures` first."""

    def __init__(self, key: str, base64_is_known: bool) -> None:
        self.asked: list[EmbeddingsBody] = []
        self.failures: list[int] = []
        app = fastapi.FastAPI()

        @app.post("/v1/embeddings")
        async def embeddings(asked: EmbeddingsBody, request: fastapi.Request) -> Any:
            if request.headers.get("authorization") != f"Bearer {key}":
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
