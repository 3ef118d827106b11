"""Pack wheels into the folder of `make gpu-kit`: smaller, with LZMA, and without static vectors, which no stage needs.

.venv/bin/python bench/gpu_wheels.py FOLDER WHEEL...
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path


def pack(wheel: Path, folder: Path) -> None:
    """Write a wheel anew; `bench/gpu.py` unpacks it."""
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(folder / wheel.name, "w") as new:
        for file in old.infolist():
            if "static_vectors" not in file.filename:
                # LZMA takes a minute for the weights, and gains a fiftieth.
                is_weights = file.filename.endswith(".safetensors")
                method = zipfile.ZIP_DEFLATED if is_weights else zipfile.ZIP_LZMA
                new.writestr(file.filename, old.read(file), compress_type=method)


if __name__ == "__main__":
    for argument in sys.argv[2:]:
        pack(Path(argument), Path(sys.argv[1]))
