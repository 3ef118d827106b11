"""Models of a chosen size: BERT with random weights, and the tokenizer of the embedded model.

The same tokens, the same path through the engine and libtorch; their vectors mean nothing. The small one, a layer of 32,
costs next to nothing, so that what is measured is everything but the network. The one of 110 million weights is as large
as BERT's base.

It is a program too, for measurements of memory, whose process must not hold all that `transformers` imports:

    .venv/bin/python bench/small_model.py FOLDER
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import BertConfig, BertModel, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from pullquote._models import embedded_model

NAME = "one layer of 32"
BASE_NAME = "BERT of 110 million random weights"


@dataclass(frozen=True, slots=True)
class Size:
    """The sizes of a model."""

    dimension: int
    layers: int
    heads: int
    intermediate: int


SMALL = Size(32, 1, 1, 64)
BASE = Size(768, 12, 12, 3072)


def write_small_model(directory: Path) -> Path:
    """Write the small model's files into a directory, and return it."""
    return write_model(directory, SMALL)


def write_model(directory: Path, size: Size) -> Path:
    """Write a BERT's files into a directory, and return it."""
    sizes = json.loads((embedded_model() / "config.json").read_text())
    torch.manual_seed(1)
    network = BertModel(
        BertConfig(
            vocab_size=sizes["vocab_size"],
            max_position_embeddings=sizes["max_position_embeddings"],
            hidden_size=size.dimension,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            intermediate_size=size.intermediate,
        ),
        add_pooling_layer=False,
    )
    return write_network(directory, network, size.dimension)


def write_network(directory: Path, network: PreTrainedModel, dimension: int, longest: int | None = None) -> Path:
    """Write a network of transformers with the tokenizer, mean pooling and norm of the embedded model, and return the directory.

    Rows have at most `longest` tokens, or as many as those of the embedded model.
    """
    embedded = embedded_model()
    for name in ("tokenizer.json", "tokenizer_config.json", "sentence_bert_config.json", "modules.json"):
        shutil.copy(embedded / name, directory / name)
    if longest is not None:
        for name, key in (
            ("tokenizer_config.json", "model_max_length"),
            ("sentence_bert_config.json", "max_seq_length"),
        ):
            file = directory / name
            file.write_text(json.dumps(json.loads(file.read_text()) | {key: longest}))
    shutil.copytree(embedded / "1_Pooling", directory / "1_Pooling")
    pooling = directory / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps(json.loads(pooling.read_text()) | {"word_embedding_dimension": dimension}))
    disable_progress_bar()
    network.save_pretrained(directory)
    return directory


if __name__ == "__main__":
    write_small_model(Path(sys.argv[1]))
