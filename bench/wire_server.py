"""A FastAPI server that answers with rows of a fixed matrix: as numbers, through orjson, and as raw bytes.

uvicorn bench.wire_server:app    # its raw routes say what our own say, so that our client reads them too
"""

from __future__ import annotations

import orjson
from fastapi import FastAPI, Response
from pydantic import BaseModel

from bench.serving_models import fixed_matrix


class Asked(BaseModel):
    """Texts to be embedded."""

    inputs: list[str]


async def numbers(asked: Asked) -> list[list[float]]:
    """Answer as FastAPI does by itself."""
    rows: list[list[float]] = fixed_matrix(asked.inputs).tolist()
    return rows


async def fast_numbers(asked: Asked) -> Response:
    """Answer by orjson, which reads numpy's memory itself."""
    rows = fixed_matrix(asked.inputs)
    return Response(orjson.dumps(rows, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")


async def raw(asked: Asked) -> Response:
    """Answer with the bytes."""
    rows = fixed_matrix(asked.inputs)
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
