"""A model that costs next to nothing, so that what is measured is everything but the network.

It is BERT with one layer of 32 and random weights, behind the tokenizer of the embedded model: the same tokens, the same
path through the engine and libtorch. Its vectors mean nothing, and are 12 times shorter.

It is a program too, for measurements of memory, whose process must not hold all that `transformers` imports:

    .venv/bin/python bench/small_model.py FOLDER
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch
from transformers import BertConfig, BertModel
from transformers.utils.logging import disable_progress_bar

from pullquote.models import embedded_model

NAME = "one layer of 32"
_DIMENSION = 32


def write_small_model(directory: Path) -> Path:
    """Write the model's files into a directory, and return it."""
    embedded = embedded_model()
    for name in ("tokenizer.json", "tokenizer_config.json", "sentence_bert_config.json", "modules.json"):
        shutil.copy(embedded / name, directory / name)
    shutil.copytree(embedded / "1_Pooling", directory / "1_Pooling")
    pooling = directory / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps(json.loads(pooling.read_text()) | {"word_embedding_dimension": _DIMENSION}))
    sizes = json.loads((embedded / "config.json").read_text())
    disable_progress_bar()
    torch.manual_seed(1)
    network = BertModel(
        BertConfig(
            vocab_size=sizes["vocab_size"],
            max_position_embeddings=sizes["max_position_embeddings"],
            hidden_size=_DIMENSION,
            num_hidden_layers=1,
            num_attention_heads=1,
            intermediate_size=2 * _DIMENSION,
        ),
        add_pooling_layer=False,
    )
    network.save_pretrained(directory)
    return directory


if __name__ == "__main__":
    write_small_model(Path(sys.argv[1]))
