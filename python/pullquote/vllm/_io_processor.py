"""The IO processor: ``POST /pooling`` with ``data``, and ``llm.encode({"data": …}, pooling_task="plugin")``.

vLLM asks it once what to encode and once for the answer. The first happens on its event loop, which serves no other request
meanwhile, so it takes only small pages. The endpoint takes large ones.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from vllm.exceptions import VLLMValidationError
from vllm.plugins.io_processors.interface import IOProcessor
from vllm.pooling_params import PoolingParams

from pullquote.engine import Plan, Planner
from pullquote.errors import EncoderError, PullquoteError
from pullquote.vllm._metrics import PLANNED
from pullquote.vllm._settings import Settings
from pullquote.vllm._tokenizer import tokenizer_directory
from pullquote.vllm.bodies import Asked, Refused, answer, kind_of, read

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.inputs import PromptType, TokensPrompt
    from vllm.outputs import PoolingRequestOutput
    from vllm.renderers import BaseRenderer

__all__ = ["HighlightsIOProcessor"]


class _Waiting:
    """What was planned and not answered, by vLLM's name for it; the offline interface has none, and one at a time.

    vLLM never says that a client went away. But the task that serves a request ends with it, so what was planned in a task
    goes with the task; beyond `most` the oldest goes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._plans: OrderedDict[str | None, tuple[Asked, Plan]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._plans)

    def put(self, name: str | None, planned: tuple[Asked, Plan]) -> None:
        with self._lock:
            if name is not None and name in self._plans:
                message = f"a request {name!r} is being answered; give each request at a time an id of its own"
                raise VLLMValidationError(message, parameter="request_id")
            self._plans[name] = planned
            while len(self._plans) > self._most:
                self._plans.popitem(last=False)
            PLANNED.set(len(self._plans))
        try:
            task = asyncio.current_task()
        except RuntimeError:
            return
        if task is not None:
            task.add_done_callback(lambda _: self._forget(name, planned))

    def pop(self, name: str | None) -> tuple[Asked, Plan] | None:
        with self._lock:
            planned = self._plans.pop(name, None)
            PLANNED.set(len(self._plans))
            return planned

    def _forget(self, name: str | None, planned: tuple[Asked, Plan]) -> None:
        """Unless it was answered, and another of its name has come since."""
        with self._lock:
            if self._plans.get(name) is planned:
                del self._plans[name]
                PLANNED.set(len(self._plans))


class HighlightsIOProcessor(IOProcessor[Asked, dict[str, Any]]):
    """Passages of pages, by vectors of whatever embedding model vLLM serves.

    `data` is a body of ``POST /highlights`` (see ``pullquote serve``), with ``effort`` ``"full"``; so is what comes back. Pages
    and queries may have ``inline_text_bytes`` of UTF-8 together, and ``inline_windows`` windows (see `Settings`).
    """

    def __init__(self, vllm_config: VllmConfig, renderer: BaseRenderer) -> None:
        """Read the tokenizer of vLLM's model."""
        super().__init__(vllm_config, renderer)
        model = vllm_config.model_config
        self.settings = Settings.of(vllm_config.additional_config)
        self.waiting = _Waiting(self.settings.inline_requests)
        self._planner = Planner(
            tokenizer_directory(model), max_tokens=model.max_model_len, threads=self.settings.threads
        )

    def parse_data(self, data: object) -> Asked:
        """Check a request. Raises `VLLMValidationError`, which is HTTP's 400."""
        try:
            asked = read(data, self.settings)
        except Refused as error:
            raise VLLMValidationError(f"{error.kind}: {error}", parameter=_parameter(error.field)) from None
        for name in ("timeout", "priority"):
            if asked.options.get(name):
                message = f"invalid_body: {name}: vLLM decides about that here; ask POST /v1/highlights"
                raise VLLMValidationError(message, parameter=_parameter(name))
        if asked.size > self.settings.inline_text_bytes:
            most = self.settings.inline_text_bytes
            message = f"limit_exceeded: texts of {asked.size} bytes are more than {most}, the most that is read while others wait"
            message += "; ask POST /v1/highlights, or raise inline_text_bytes"
            raise VLLMValidationError(message, parameter="data")
        return asked

    def merge_pooling_params(self, params: PoolingParams | None = None) -> PoolingParams:
        """What vectors are asked for: a model's embeddings. vLLM's own default is a task that few models have."""
        merged = params or PoolingParams()
        merged.task = "embed"
        return merged

    def pre_process(
        self, prompt: Asked, request_id: str | None = None, **_kwargs: Any
    ) -> PromptType | Sequence[PromptType]:
        """What vLLM is to encode: token ids, made here."""
        try:
            limit = self.settings.inline_windows
            options = {"effort": "full"} | prompt.options
            plan = self._planner.plan(prompt.query, prompt.texts, limit_windows=limit, **options)
        except PullquoteError as error:
            if error.http_status < 500:
                raise VLLMValidationError(f"{kind_of(error)}: {error}", parameter="data") from error
            raise
        self.waiting.put(request_id, (prompt, plan))
        prompts: list[TokensPrompt] = [{"prompt_token_ids": ids} for ids in plan.rows]
        return prompts

    def post_process(
        self, model_output: Sequence[PoolingRequestOutput], request_id: str | None = None, **_kwargs: Any
    ) -> dict[str, Any]:
        """The passages, by the vectors that vLLM made of these ids."""
        planned = self.waiting.pop(request_id)
        if planned is None:
            message = f"request {request_id!r} was not planned here, or {self.settings.inline_requests} came after it"
            raise EncoderError(message)
        asked, plan = planned
        vectors = np.stack([output.outputs.data.float().cpu().numpy() for output in model_output])
        return answer(asked, plan.finish(vectors), 0.0)


def _parameter(field: str | None) -> str:
    return f"data.{field}" if field else "data"
