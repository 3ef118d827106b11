"""Files of the Hugging Face Hub, and whether they arrived whole. Apart from `hub`, because most programs need no hashes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["RemoteFile", "is_intact"]


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository. `etag` is its SHA-256, or for small files git's SHA-1, in hexadecimal digits."""

    path: str
    size: int
    etag: str


def is_intact(path: Path, file: RemoteFile) -> bool:
    """Whether a file is there with the size and hash that the hub announced."""
    try:
        if path.stat().st_size != file.size:
            return False
        with path.open("rb") as content:
            if len(file.etag) == 64:
                return hashlib.file_digest(content, "sha256").hexdigest() == file.etag
            # git's hash of a file begins with its kind and size.
            digest = hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
            while chunk := content.read(1 << 20):
                digest.update(chunk)
            return digest.hexdigest() == file.etag
    except OSError:
        return False
