"""A tiny model of random weights, for measurements of what is not the encoder.

A program of its own, because the process that is measured would else hold all that `transformers` imports:

    .venv/bin/python bench/tiny.py FOLDER
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch
import transformers

from pullquote.models import model_directory

HIDDEN = 64


def write(folder: Path) -> None:
    """Write a BERT of one layer, the same each time, with the embedded model's tokenizer, into an empty folder."""
    torch.manual_seed(7)
    configuration = transformers.BertConfig(
        hidden_size=HIDDEN, num_hidden_layers=1, num_attention_heads=2, intermediate_size=2 * HIDDEN
    )
    transformers.BertModel(configuration, add_pooling_layer=False).save_pretrained(folder)
    shutil.copy(model_directory(None) / "tokenizer.json", folder)
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds.items()]
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": "mean"}), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
