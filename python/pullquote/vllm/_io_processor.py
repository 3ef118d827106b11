"""The IO processor: ``POST /pooling`` with ``data``, and ``llm.encode({"data": …}, pooling_task="plugin")``.

vLLM calls it once for the prompts to encode and once for the response. The first call blocks vLLM's event loop, so only small
pages are accepted. The endpoint accepts large ones.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from vllm.exceptions import VLLMValidationError
from vllm.plugins.io_processors.interface import IOProcessor
from vllm.pooling_params import PoolingParams

from pullquote._engine.hosted import BodyPlan
from pullquote._native import HighlightsBody
from pullquote.engine import Planner
from pullquote.errors import EncoderError, PullquoteError
from pullquote.vllm._bodies import InvalidRequestError, kind_of, read_body
from pullquote.vllm._metrics import PLANNED
from pullquote.vllm._settings import Settings
from pullquote.vllm._tokenizer import tokenizer_directory

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.inputs import PromptType, TokensPrompt
    from vllm.outputs import PoolingRequestOutput
    from vllm.renderers import BaseRenderer

__all__ = ["HighlightsIOProcessor"]


class _Plans:
    """Plans of unanswered requests by vLLM's request id; the offline interface has no ids, and one request at a time.

    vLLM does not report that a client has disconnected. But the task of a request ends then, which removes its plan; beyond
    `most` plans the oldest is removed.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._plans: OrderedDict[str | None, BodyPlan] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._plans)

    def put(self, name: str | None, plan: BodyPlan) -> None:
        with self._lock:
            if name is not None and name in self._plans:
                message = f"request id {name!r} is in use; give each concurrent request its own id"
                raise VLLMValidationError(message, parameter="request_id")
            self._plans[name] = plan
            while len(self._plans) > self._most:
                self._plans.popitem(last=False)
            PLANNED.set(len(self._plans))
        try:
            task = asyncio.current_task()
        except RuntimeError:
            return
        if task is not None:
            task.add_done_callback(lambda _: self._forget(name, plan))

    def pop(self, name: str | None) -> BodyPlan | None:
        with self._lock:
            plan = self._plans.pop(name, None)
            PLANNED.set(len(self._plans))
            return plan

    def _forget(self, name: str | None, plan: BodyPlan) -> None:
        """Remove a plan, unless its request was answered and a later one has the same id."""
        with self._lock:
            if self._plans.get(name) is plan:
                del self._plans[name]
                PLANNED.set(len(self._plans))


class HighlightsIOProcessor(IOProcessor[HighlightsBody, dict[str, Any]]):
    """Passages of pages, with the vectors of the embedding model that vLLM serves.

    `data` is a body of ``POST /highlights`` (see ``pullquote serve``) with ``effort`` ``"full"``, and the output is a body of its
    response. Pages and queries have at most ``inline_text_bytes`` of UTF-8 together, and ``inline_windows`` windows (see
    `Settings`).
    """

    def __init__(self, vllm_config: VllmConfig, renderer: BaseRenderer) -> None:
        """Read the tokenizer of vLLM's model."""
        super().__init__(vllm_config, renderer)
        model = vllm_config.model_config
        self.settings = Settings.of(vllm_config.additional_config)
        self.plans = _Plans(self.settings.inline_requests)
        self._planner = Planner(
            tokenizer_directory(model),
            max_tokens=model.max_model_len,
            threads=self.settings.threads,
            reranker=self.settings.reranker,
            pruner=self.settings.pruner,
        )

    def parse_data(self, data: object) -> HighlightsBody:
        """Validate a request. Raises `VLLMValidationError`, which becomes HTTP status 400."""
        if isinstance(data, dict):
            data = {"effort": "full"} | data
            for name in ("timeout", "priority"):
                if data.get(name):
                    message = f"invalid_body: {name}: vLLM decides this; send the request to POST /v1/highlights"
                    raise VLLMValidationError(message, parameter=_parameter(name))
            if data["effort"] != "full":
                message = f'invalid_argument: effort must be "full" where everything is encoded at once, not {data["effort"]!r}'
                raise VLLMValidationError(message, parameter=_parameter("effort"))
        try:
            body = read_body(json.dumps(data).encode(), self.settings)
        except (TypeError, ValueError) as error:
            raise VLLMValidationError(f"invalid_body: {error}", parameter="data") from None
        except InvalidRequestError as error:
            raise VLLMValidationError(f"{error.kind}: {error}", parameter=_parameter(error.field)) from None
        if body.text_bytes > self.settings.inline_text_bytes:
            most = self.settings.inline_text_bytes
            message = f"limit_exceeded: texts of {body.text_bytes} bytes are more than inline_text_bytes, {most}"
            message += "; send the request to POST /v1/highlights, or raise inline_text_bytes"
            raise VLLMValidationError(message, parameter="data")
        return body

    def merge_pooling_params(self, params: PoolingParams | None = None) -> PoolingParams:
        """Set the task to embeddings. The default of vLLM is a task that few models have."""
        merged = params or PoolingParams()
        merged.task = "embed"
        return merged

    def pre_process(
        self, prompt: HighlightsBody, request_id: str | None = None, **_kwargs: Any
    ) -> PromptType | Sequence[PromptType]:
        """The prompts that vLLM must encode, as token ids."""
        try:
            plan = self._planner.plan_body(prompt, limit_windows=self.settings.inline_windows)
        except PullquoteError as error:
            if error.http_status < 500:
                raise VLLMValidationError(f"{kind_of(error)}: {error}", parameter="data") from error
            raise
        self.plans.put(request_id, plan)
        prompts: list[TokensPrompt] = [{"prompt_token_ids": ids} for ids in plan.rows]
        return prompts

    def post_process(
        self, model_output: Sequence[PoolingRequestOutput], request_id: str | None = None, **_kwargs: Any
    ) -> dict[str, Any]:
        """The passages, from the vectors of the prompts."""
        plan = self.plans.pop(request_id)
        if plan is None:
            most = self.settings.inline_requests
            message = f"request {request_id!r} has no plan: it was planned elsewhere, or {most} requests came after it"
            raise EncoderError(message)
        vectors = np.stack([output.outputs.data.float().cpu().numpy() for output in model_output])
        response: dict[str, Any] = json.loads(plan.finish(vectors))
        return response


def _parameter(field: str | None) -> str:
    return f"data.{field}" if field else "data"
