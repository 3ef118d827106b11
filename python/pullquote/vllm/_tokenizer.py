"""Which tokenizer goes with the model that vLLM serves: that of the same files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pullquote.errors import InvalidArgumentError, ModelNotFoundError

if TYPE_CHECKING:
    from vllm.config import ModelConfig

__all__ = ["directory"]

# All that is read of a model: its tokenizer, and what says how long rows may be and what goes before queries.
SMALL_FILES = ["*.json", "*/config.json"]


def directory(model: ModelConfig) -> Path:
    """Where the small files of vLLM's model are; of one from the Hub, in the cache that vLLM filled.

    Raises `InvalidArgumentError` where vLLM was given another tokenizer, whose ids these would not be, and `ModelNotFoundError`
    where the files cannot be had.
    """
    if model.tokenizer not in {None, model.model}:
        message = (
            f"vLLM has the tokenizer {model.tokenizer!r} for the model {model.model!r}; pullquote needs the model's own"
        )
        raise InvalidArgumentError(message)
    if Path(model.model).is_dir():
        return Path(model.model)
    # vLLM brings it, and has just used it.
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - not there without vLLM
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError  # noqa: PLC0415 - as above

    try:
        return Path(snapshot_download(model.model, revision=model.revision, allow_patterns=SMALL_FILES))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        message = f"the tokenizer of {model.model!r} could not be had: {error}; pass vLLM the path of a directory"
        raise ModelNotFoundError(message) from error
