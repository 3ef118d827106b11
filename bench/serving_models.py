"""Model functions for both servers of `bench/serving.py`, by name: `bench.serving_models:minilm`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullquote._models.choice import embedded_model

Encode = Callable[[list[str]], NDArray[np.float32]]


def one_millisecond(texts: list[str]) -> NDArray[np.float32]:
    """Take a millisecond for each batch of any size and use no core, as a GPU does that is never full."""
    time.sleep(0.001)  # stands for the work
    return np.zeros((len(texts), 8), np.float32)


def hundred_milliseconds(texts: list[str]) -> NDArray[np.float32]:
    """Take a hundred milliseconds, so that a server is easily overloaded."""
    time.sleep(0.1)  # as above
    return np.zeros((len(texts), 8), np.float32)


def minilm(texts: list[str]) -> NDArray[np.float32]:
    """Encode with all-MiniLM-L6-v2 as sentence-transformers does, in float32."""
    return _minilm()(texts)


def encoder_125m(texts: list[str]) -> NDArray[np.float32]:
    """Encode with RoBERTa's base architecture and random weights: 125 million of them."""
    return _encoder_125m()(texts)


@cache
def _minilm() -> Encode:
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - torch is not needed by all of these

    model = SentenceTransformer(str(embedded_model()), device="cpu", model_kwargs={"dtype": "float32"})
    return lambda texts: np.asarray(model.encode(texts, batch_size=len(texts), show_progress_bar=False), np.float32)


@cache
def _encoder_125m() -> Encode:
    import torch  # noqa: PLC0415 - as above
    from transformers import AutoTokenizer, RobertaConfig, RobertaModel  # noqa: PLC0415 - as above

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(str(embedded_model()))
    model: Any = RobertaModel(RobertaConfig(), add_pooling_layer=False)
    model.eval()

    def encode(texts: list[str]) -> NDArray[np.float32]:
        given = tokenizer(texts, padding=True, truncation=True, max_length=512, return_tensors="pt")
        with torch.inference_mode():
            states = model(input_ids=given["input_ids"], attention_mask=given["attention_mask"]).last_hidden_state
        mask = given["attention_mask"][:, :, None]
        return np.asarray((states * mask).sum(1) / mask.sum(1), np.float32)

    return encode


@cache
def _matrix() -> NDArray[np.float32]:
    """Make 4,096 rows of 1,024 values, of length one."""
    rows = np.random.default_rng(7).standard_normal((4096, 1024), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def fixed_matrix(texts: list[str]) -> NDArray[np.float32]:
    """Return the first rows of a fixed matrix, a row for each text, which takes no time: only the transport is left."""
    return _matrix()[: len(texts)]
