"""A transformers model whose rows are not padded: torch's variable-length attention, as the fastest Python servers use it.

transformers' own way needs the package flash-attn, which has no wheels on PyPI. torch's `varlen_attn` runs the same kernel.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import normalize, scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, AutoModel

NAME = "varlen"


def attend(
    module: object, query: Any, key: Any, value: Any, attention_mask: object, *, ends: Any, longest: int, **rest: object
) -> tuple[Any, None]:
    """Attention of each row to itself: tensors ``[1, heads, tokens, width]`` of all rows to ``[1, tokens, heads, width]``.

    `ends` is int32 ``[rows + 1]``, where each row ends. Without a card, each row is computed alone.
    """
    del module, attention_mask, rest
    rows = [of[0].transpose(0, 1) for of in (query, key, value)]
    if query.is_cuda:
        from torch.nn.attention.varlen import varlen_attn  # noqa: PLC0415 - initialises CUDA

        packed: Any = varlen_attn  # torch's types reject unpacked arguments
        return packed(*rows, ends, ends, longest, longest).unsqueeze(0), None
    parts = zip(*(of.split(ends.diff().tolist()) for of in rows), strict=True)
    attended = [
        scaled_dot_product_attention(*(of.transpose(0, 1).unsqueeze(0) for of in part))[0].transpose(0, 1)
        for part in parts
    ]
    return torch.cat(attended).unsqueeze(0), None


class VarlenModel:
    """BERT with mean pooling, as both models of `bench/gpu.py` are."""

    def __init__(self, model: Path, dtype: str, device: str) -> None:
        AttentionInterface.register(NAME, attend)
        AttentionMaskInterface.register(NAME, lambda *_, **__: None)
        network = AutoModel.from_pretrained(str(model), attn_implementation=NAME)
        self._network: Any = network.to(device, getattr(torch, dtype)).eval()
        self._device = device

    def encode(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        """Encode a padded table of ids ``[n, longest]`` without its padding; returns rows of length one, ``[n, dimension]``."""
        lengths = mask.sum(axis=1)
        flat = np.stack(
            [
                ids[mask > 0],
                np.concatenate([np.arange(length) for length in lengths]),
                np.repeat(np.arange(len(ids)), lengths),
            ]
        )
        tokens, positions, rows = torch.from_numpy(flat).to(self._device)
        ends = torch.from_numpy(np.concatenate([[0], lengths.cumsum()]).astype(np.int32)).to(self._device)
        with torch.inference_mode():
            hidden = self._network(
                input_ids=tokens.unsqueeze(0),
                position_ids=positions.unsqueeze(0),
                token_type_ids=torch.zeros_like(tokens).unsqueeze(0),
                ends=ends,
                longest=int(lengths.max()),
            ).last_hidden_state[0]
            sums = torch.zeros(len(ids), hidden.shape[1], device=self._device).index_add_(0, rows, hidden.float())
            found: NDArray[np.float32] = normalize(sums).cpu().numpy()
        return found
