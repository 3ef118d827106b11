"""A FastAPI server that answers with rows of a fixed matrix: as numbers, through orjson, and as raw bytes.

uvicorn bench.wire_server:app    # its raw routes have our headers, so that our client can read them
"""

from __future__ import annotations

import orjson
from fastapi import FastAPI, Response
from pydantic import BaseModel

from bench.serving_models import fixed_matrix


class EmbedBody(BaseModel):
    """Texts to be embedded."""

    inputs: list[str]


async def numbers(body: EmbedBody) -> list[list[float]]:
    """Answer as FastAPI does by default."""
    rows: list[list[float]] = fixed_matrix(body.inputs).tolist()
    return rows


async def fast_numbers(body: EmbedBody) -> Response:
    """Answer with orjson, which reads numpy's memory directly."""
    rows = fixed_matrix(body.inputs)
    return Response(orjson.dumps(rows, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")


async def raw(body: EmbedBody) -> Response:
    """Answer with the bytes."""
    rows = fixed_matrix(body.inputs)
    headers = {
        "x-embedding-shape": "{},{}".format(*rows.shape),
        "x-embedding-dtype": "float32",
        "x-embedding-byte-order": "little",
        "x-prompt-tokens": str(len(rows)),
    }
    return Response(rows.tobytes(), media_type="application/octet-stream", headers=headers)


app = FastAPI()
app.add_api_route("/json/embed", numbers, methods=["POST"])
app.add_api_route("/orjson/embed", fast_numbers, methods=["POST"])
app.add_api_route("/raw/embed", raw, methods=["POST"])
