"""The tokenizer of the model that vLLM serves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pullquote.errors import InvalidArgumentError, ModelNotFoundError

if TYPE_CHECKING:
    from vllm.config import ModelConfig

__all__ = ["tokenizer_directory"]

# The tokenizer, the length limit and the prompts.
SMALL_FILES = ["*.json", "*/config.json"]


def tokenizer_directory(model: ModelConfig) -> Path:
    """The directory of the small files of vLLM's model; for a model from the Hub, in the cache that vLLM has filled.

    Raises `InvalidArgumentError` if vLLM uses a tokenizer other than the model's, and `ModelNotFoundError` if the files cannot be
    downloaded.
    """
    if model.tokenizer not in {None, model.model}:
        message = f"vLLM uses the tokenizer {model.tokenizer!r} for the model {model.model!r}; pullquote needs the model's own"
        raise InvalidArgumentError(message)
    if Path(model.model).is_dir():
        return Path(model.model)
    # vLLM installs it.
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - not installed without vLLM
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError  # noqa: PLC0415 - as above

    try:
        return Path(snapshot_download(model.model, revision=model.revision, allow_patterns=SMALL_FILES))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        message = (
            f"the tokenizer of {model.model!r} could not be downloaded: {error}; pass vLLM the path of a directory"
        )
        raise ModelNotFoundError(message) from error
