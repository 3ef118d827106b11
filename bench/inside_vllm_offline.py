"""The offline half of `bench/inside_vllm.py`: a program for the Python of vLLM, which has another torch.

.make/vllm/bin/python bench/inside_vllm_offline.py MODEL < bodies.json > answers.json
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

BATCH = 2000


def main() -> None:
    """Request passages by ``LLM.encode``, then vectors of the same number of rows, to measure how fast vLLM is by itself."""
    from vllm import LLM, PoolingParams  # noqa: PLC0415 - workers that are spawned import this file, and need none of it

    llm = LLM(
        sys.argv[1],
        runner="pooling",
        io_processor_plugin="pullquote",
        enforce_eager=True,
        dtype="float32",
        disable_log_stats=True,
    )

    def encode(body: Any) -> Any:
        (output,) = llm.encode({"data": body}, pooling_task="plugin", use_tqdm=False)
        return output.outputs

    asked = json.load(sys.stdin)
    told: dict[str, Any] = {"answers": [encode(body) for body in asked["good"]], "refused": []}
    for body in asked["bad"]:
        try:
            encode(body)
            told["refused"].append(None)
        except Exception as error:
            told["refused"].append([type(error).__name__, str(error)])
    # After errors, answers are as before.
    told["again"] = encode(asked["good"][0])
    rows = [{"prompt_token_ids": [101, *range(2000 + row, 2000 + row + 40), 102]} for row in range(BATCH)]
    began = time.perf_counter()
    llm.embed(rows, use_tqdm=False, pooling_params=PoolingParams(task="embed"))
    told["tokens_per_second"] = 42 * BATCH / (time.perf_counter() - began)
    Path(sys.argv[2]).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main()
