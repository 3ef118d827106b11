"""Models of a chosen size: BERT with random weights, and the tokenizer of the embedded model.

The same tokens, the same path through the engine and libtorch; their vectors mean nothing. The small one, a layer of 32,
costs next to nothing, so that what is measured is everything but the network. The one of 110 million weights is as large
as BERT's base. Writing them takes numpy alone, so `bench/gpu.py` needs no transformers.

It is a program too, for measurements of memory, whose process must hold nothing of it:

    .venv/bin/python bench/small_model.py FOLDER
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pullquote._models.choice import embedded_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel

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
    copy_embedded(directory, size.dimension)
    config = json.loads((embedded_model() / "config.json").read_text())
    config |= {
        "hidden_size": size.dimension,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "intermediate_size": size.intermediate,
    }
    # What pullquote knows of the embedded model's own vectors.
    del config["pullquote"]
    (directory / "config.json").write_text(json.dumps(config))
    write_weights(directory / "model.safetensors", bert_shapes(config))
    return directory


def bert_shapes(config: dict[str, int]) -> dict[str, list[int]]:
    """The tensors of a BERT without the pooling layer."""
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    tables = {
        "word": config["vocab_size"],
        "position": config["max_position_embeddings"],
        "token_type": config["type_vocab_size"],
    }
    shapes = {f"embeddings.{name}_embeddings.weight": [rows, hidden] for name, rows in tables.items()}
    layer = {f"attention.self.{name}": [hidden, hidden] for name in ("query", "key", "value")}
    layer |= {
        "attention.output.dense": [hidden, hidden],
        "intermediate.dense": [wide, hidden],
        "output.dense": [hidden, wide],
    }
    norms = ["embeddings.LayerNorm"]
    for number in range(config["num_hidden_layers"]):
        prefix = f"encoder.layer.{number}."
        for name, shape in layer.items():
            shapes |= {f"{prefix}{name}.weight": shape, f"{prefix}{name}.bias": shape[:1]}
        norms += [f"{prefix}attention.output.LayerNorm", f"{prefix}output.LayerNorm"]
    for norm in norms:
        shapes |= {f"{norm}.weight": [hidden], f"{norm}.bias": [hidden]}
    return shapes


def write_weights(file: Path, shapes: dict[str, list[int]]) -> None:
    """Write random weights, as an untrained BERT has them, in the format safetensors."""
    ends = np.cumsum([4 * int(np.prod(shape)) for shape in shapes.values()]).tolist()
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    for (name, shape), start, end in zip(shapes.items(), [0, *ends], ends, strict=False):
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    rng = np.random.default_rng(1)
    with file.open("wb") as weights:
        weights.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            if len(shape) == 2:
                values = rng.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
            else:
                values = np.full(shape, float(name.endswith("LayerNorm.weight")), dtype=np.float32)
            weights.write(values.tobytes())


def write_network(directory: Path, network: PreTrainedModel, dimension: int, longest: int | None = None) -> Path:
    """Write a network of transformers with the tokenizer, mean pooling and norm of the embedded model, and return the directory.

    Rows have at most `longest` tokens, or as many as those of the embedded model.
    """
    from transformers.utils.logging import disable_progress_bar  # noqa: PLC0415 - takes seconds

    copy_embedded(directory, dimension, longest)
    disable_progress_bar()
    network.save_pretrained(directory)
    return directory


def copy_embedded(directory: Path, dimension: int, longest: int | None = None) -> None:
    """Copy the embedded model's files except config and weights, for vectors of this dimension."""
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


if __name__ == "__main__":
    write_small_model(Path(sys.argv[1]))
