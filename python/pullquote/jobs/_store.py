"""Where a job writes: a directory, here or behind one of fsspec's addresses, in which files appear whole or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import fsspec
from fsspec.core import url_to_fs

from pullquote.errors import OverloadedError

__all__ = ["Place"]

# What is the job's own, beside its outputs; readers of directories leave out what begins with an underscore.
OWN = "_pullquote"
UNFINISHED = f"{OWN}/unfinished"
LOCK = f"{OWN}/lock"


class Place:
    """A directory of outputs.

    A file is written under a name of its own, and moved to its place when it is whole. Here that is a rename, behind the
    file's bytes and before the directory's own: what is there after a crash was whole before it. Elsewhere it is what
    fsspec has for moving. Names are relative, with slashes.
    """

    def __init__(self, url: str) -> None:
        """Name the directory; nothing is looked at or made yet."""
        self.url = url
        self._system: fsspec.AbstractFileSystem
        self._system, path = url_to_fs(url)
        self._root = path.rstrip("/")
        self.is_local = "file" in (self._system.protocol, *self._system.protocol)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other jobs away, as long as this process lives. Raises `OverloadedError` where another is at work.

        Elsewhere than here there is no such lock: whoever starts two jobs there has both do the same work.
        """
        if not self.is_local:
            yield
            return
        with _locked(self._here(LOCK)) as is_free:
            if not is_free:
                message = f"another job is at work in {self.url}; wait for it, or name another directory"
                raise OverloadedError(message)
            self.sweep()
            yield

    def sweep(self) -> None:
        """Remove what processes that died have left here; what one that lives still writes will fail."""
        if self.is_local:
            shutil.rmtree(self._here(UNFINISHED), ignore_errors=True)

    def is_held(self) -> bool:
        """Whether a job is at work here; elsewhere nobody knows."""
        lock = self._here(LOCK)
        if not self.is_local or not lock.exists():
            return False
        with _locked(lock) as is_free:
            return not is_free

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """A file that takes its place when the block ends, and leaves nothing where it fails."""
        unfinished = f"{UNFINISHED}/{uuid.uuid4().hex}"
        self._make_room(unfinished)
        try:
            with self._open(unfinished, "wb") as file:
                yield file
                file.flush()
                if self.is_local:
                    os.fsync(file.fileno())
        except BaseException:
            self.remove(unfinished)
            raise
        self._make_room(name)
        if self.is_local:
            self._here(unfinished).replace(self._here(name))
            _sync_directory(self._here(name).parent)
        else:
            self._system.mv(self._at(unfinished), self._at(name))

    def read(self, name: str) -> bytes | None:
        """A file's bytes; `None` where it is not there."""
        try:
            with self._open(name, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def size(self, name: str) -> int | None:
        """How long a file is; `None` where it is not there."""
        try:
            return int(self._system.size(self._at(name)))
        except FileNotFoundError:
            return None

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        if self.is_local:
            self._here(name).unlink(missing_ok=True)
        elif self._system.exists(self._at(name)):
            self._system.rm_file(self._at(name))

    def names(self, below: str) -> list[str]:
        """The files at any depth below a name, in order."""
        start = self._at(below)
        self._system.invalidate_cache()
        return sorted(name[len(start) :].lstrip("/") for name in self._system.find(start))

    def holds(self, url: str) -> bool:
        """Whether an address lies in this directory."""
        system, path = url_to_fs(url)
        return type(system) is type(self._system) and f"{path.rstrip('/')}/".startswith(f"{self._root}/")

    def _open(self, name: str, mode: str) -> BinaryIO:
        opened = self._here(name).open(mode) if self.is_local else self._system.open(self._at(name), mode)
        return cast("BinaryIO", opened)

    def _make_room(self, name: str) -> None:
        if self.is_local:
            self._here(name).parent.mkdir(parents=True, exist_ok=True)
        else:
            self._system.makedirs(self._at(name).rpartition("/")[0], exist_ok=True)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _here(self, name: str) -> Path:
        return Path(self._at(name))


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Whether nobody else has this lock; then it is ours. The system gives it back when its process ends in any way."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
