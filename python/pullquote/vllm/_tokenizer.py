"""The tokenizer of the model that vLLM serves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pullquote._models.choice import find_on_hub
from pullquote._models.hub import HubOptions
from pullquote.errors import InvalidArgumentError

if TYPE_CHECKING:
    from vllm.config import ModelConfig

__all__ = ["tokenizer_directory"]


def tokenizer_directory(model: ModelConfig) -> Path:
    """The directory of the small files of vLLM's model; for a model from the Hub, in the cache that vLLM has filled.

    Raises `InvalidArgumentError` if vLLM uses a tokenizer other than the model's, and the errors of `find_on_hub`.
    """
    if model.tokenizer not in {None, model.model}:
        message = f"vLLM uses the tokenizer {model.tokenizer!r} for the model {model.model!r}; pullquote needs the model's own"
        raise InvalidArgumentError(message)
    if Path(model.model).is_dir():
        return Path(model.model)
    return find_on_hub(model.model, HubOptions(model.revision), weights=False)
