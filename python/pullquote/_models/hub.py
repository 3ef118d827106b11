"""Models of the Hugging Face Hub: their names and options, and the cache that all programs share.

docs/model_names.md lists the variables.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from pullquote.errors import InvalidArgumentError, InvalidTypeError

__all__ = [
    "DEFAULT_REVISION",
    "MODULES",
    "HubOptions",
    "cache_directory",
    "expand",
    "folder_name",
    "home_directory",
    "hub_name",
    "is_commit",
    "is_snapshot",
    "is_true",
    "offline",
    "repair",
    "snapshot_directory",
]

DEFAULT_REVISION = "main"
# Of models without an owner.
DEFAULT_OWNER = "sentence-transformers"
MODULES = "modules.json"
# The hub's rule for both parts of a name.
NAME = re.compile(r"(?!.*(?:--|\.\.))(?:[A-Za-z0-9_][\w.-]*/)?[A-Za-z0-9_][\w.-]*(?<![.-])", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HubOptions:
    """Where a named model comes from; `Highlighter` documents the fields."""

    revision: str | None = None
    token: str | None = field(default=None, repr=False)
    cache_dir: str | Path | None = None
    local_files_only: bool = False

    def __post_init__(self) -> None:
        for name in ("revision", "token"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                # Not the value: it may be a secret.
                message = f"{name} must be a string or None, not {type(value).__name__}"
                raise InvalidTypeError(message)
        if self.revision is not None and not re.fullmatch(r"(?!.*\.\.)[^\s/\\][^\s\\]*", self.revision):
            message = f"revision must be a branch, a tag or a commit, not {self.revision!r}"
            raise InvalidArgumentError(message)


def hub_name(model: str) -> str | None:
    """The full name ``org/name`` if this is a name of the hub, and not a path that exists; else `None`."""
    # Path.exists raises for what is too long for a name.
    if not NAME.fullmatch(model) or os.path.exists(model):  # noqa: PTH110
        return None
    return model if "/" in model else f"{DEFAULT_OWNER}/{model}"


def cache_directory(cache_dir: str | Path | None = None) -> Path:
    """The cache that programs share, as ``huggingface_hub`` finds it."""
    chosen = cache_dir or os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    return expand(chosen) if chosen else home_directory() / "hub"


def folder_name(name: str) -> str:
    """The folder of a model in the cache."""
    return f"models--{name.replace('/', '--')}"


def snapshot_directory(cache: Path, name: str, commit: str) -> Path:
    """The directory of a commit in the cache."""
    return cache / folder_name(name) / "snapshots" / commit


def is_commit(revision: str) -> bool:
    """Whether a revision is a commit, which never changes."""
    return COMMIT.fullmatch(revision) is not None


def repair(name: str) -> str:
    """Advice about damaged files of a model."""
    return f"to check the cached files and replace damaged ones, run: pullquote models get {name}"


def is_true(variable: str) -> bool:
    """Whether an environment variable is true, as ``huggingface_hub`` reads it."""
    return os.environ.get(variable, "").upper() in {"1", "ON", "YES", "TRUE"}


def is_snapshot(directory: Path) -> bool:
    """Whether this is the directory of a commit in a cache."""
    return is_commit(directory.name) and directory.parent.name == "snapshots"


def offline(options: HubOptions) -> str | None:
    """The option or variable that forbids downloads, if any."""
    if options.local_files_only:
        return "local_files_only"
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return next((f"{name}={os.environ[name]}" for name in names if is_true(name)), None)


def home_directory() -> Path:
    """The folder of the cache and the token."""
    chosen = os.environ.get("HF_HOME")
    return expand(chosen) if chosen else expand(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"


def expand(path: str | Path) -> Path:
    """A path with its variables and ``~`` replaced."""
    return Path(os.path.expandvars(path)).expanduser()
