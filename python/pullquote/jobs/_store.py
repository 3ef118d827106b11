"""The directory of a job's outputs, local or at any URL of fsspec, in which files appear whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

import fsspec
from fsspec.core import url_to_fs

from pullquote.errors import InvalidArgumentError, OverloadedError, PullquoteError, StoreFullError

try:
    import fcntl
except ImportError:  # only Unix has it
    fcntl = None  # type: ignore[assignment]

__all__ = ["OutputStore", "UnwritableOutputError"]

# The job's own files, next to its outputs. Readers of directories skip names that begin with an underscore.
OWN = "_pullquote"
TEMPORARY = f"{OWN}/unfinished"
LOCK = f"{OWN}/lock"


class UnwritableOutputError(PullquoteError, OSError):
    """An output directory cannot be written: an error of this library, and an `OSError`."""

    exit_code = StoreFullError.exit_code


class OutputStore:
    """A directory of outputs. Names are relative, with slashes.

    A file is written under a temporary name and renamed when it is complete. Locally its bytes are synced before the rename, and
    its directory after it, so a file that exists after a crash is complete. Elsewhere fsspec's move is used.
    """

    def __init__(self, url: str) -> None:
        """Set the directory, without reading or creating it."""
        self.url = url
        self._system: fsspec.AbstractFileSystem
        self._system, path = url_to_fs(url)
        self._root = path.rstrip("/")
        self.is_local = "file" in (self._system.protocol, *self._system.protocol)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock a local directory for one job until this process ends. Raises `OverloadedError` if another job has it.

        Remote directories have no lock: two jobs there both do the same work.
        """
        if not self.is_local:
            yield
            return
        with _file_lock(self._local(LOCK)) as is_acquired:
            if not is_acquired:
                message = f"another job is running in {self.url}; wait for it, or name another directory"
                raise OverloadedError(message)
            self.remove_temporary()
            yield

    def remove_temporary(self) -> None:
        """Remove local temporary files of dead processes. A running process that still writes one fails."""
        if self.is_local:
            shutil.rmtree(self._local(TEMPORARY), ignore_errors=True)

    def is_locked(self) -> bool:
        """Whether a job is running in a local directory; always false for a remote one."""
        lock = self._local(LOCK)
        if not self.is_local or not lock.exists():
            return False
        with _file_lock(lock) as is_acquired:
            return not is_acquired

    def check_is_directory(self) -> None:
        """Raise `UnwritableOutputError` if a file stands where the directory is to be."""
        if not self.is_local:
            return
        root = Path(self._root)
        found = next(path for path in (root, *root.parents) if path.exists())
        if not found.is_dir():
            raise _unwritable(str(root), NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(found)))

    @contextmanager
    def open_for_writing(self, name: str) -> Iterator[BinaryIO]:
        """A file that appears under its name when the block ends, and not at all if the block fails."""
        temporary = f"{TEMPORARY}/{uuid.uuid4().hex}"
        try:
            self._make_parent(temporary)
            with self._open(temporary, "wb") as file:
                yield file
                file.flush()
                if self.is_local:
                    os.fsync(file.fileno())
            self._make_parent(name)
            if self.is_local:
                self._local(temporary).replace(self._local(name))
                _sync_directory(self._local(name).parent)
            else:
                self._system.mv(self._path(temporary), self._path(name))
        except BaseException as error:
            with suppress(OSError):
                self.remove(temporary)
            # Some of the library's errors are an OSError too.
            if isinstance(error, OSError) and not isinstance(error, PullquoteError):
                raise _unwritable(self.url, error) from None
            raise

    def read(self, name: str) -> bytes | None:
        """The bytes of a file, or `None`."""
        try:
            with self._open(name, "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def size(self, name: str) -> int | None:
        """The size of a file in bytes, or `None`."""
        try:
            return int(self._system.size(self._path(name)))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        if self.is_local:
            self._local(name).unlink(missing_ok=True)
        elif self._system.exists(self._path(name)):
            self._system.rm_file(self._path(name))

    def remove_directory(self, name: str) -> None:
        """Remove a directory with all that is in it, if it exists."""
        if self.is_local:
            shutil.rmtree(self._local(name), ignore_errors=True)
        elif self._system.exists(self._path(name)):
            self._system.rm(self._path(name), recursive=True)

    def contains(self, url: str) -> bool:
        """Whether a URL lies in this directory, whatever the paths are called: links are followed."""
        system, path = url_to_fs(url)
        root = self._root
        if type(system) is not type(self._system):
            return False
        if self.is_local:
            path, root = os.path.realpath(path), os.path.realpath(root)
        return f"{path.rstrip('/')}/".startswith(f"{root.rstrip('/')}/")

    def _open(self, name: str, mode: str) -> BinaryIO:
        opened = self._local(name).open(mode) if self.is_local else self._system.open(self._path(name), mode)
        return cast("BinaryIO", opened)

    def _make_parent(self, name: str) -> None:
        if self.is_local:
            self._local(name).parent.mkdir(parents=True, exist_ok=True)
        else:
            self._system.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _local(self, name: str) -> Path:
        return Path(self._path(name))


@contextmanager
def _file_lock(path: Path) -> Iterator[bool]:
    """Try to lock a file; yields whether it succeeded. The system releases the lock when the process ends in any way."""
    if fcntl is None:
        message = f"the output {path.parent.parent} needs file locks, which this system lacks; name a remote URL, such as s3://…"
        raise InvalidArgumentError(message)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    except OSError as error:
        raise _unwritable(str(path.parent.parent), error) from None
    with file as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _unwritable(directory: str, error: OSError) -> UnwritableOutputError:
    place = f" ({error.filename})" if error.filename and str(error.filename) != directory else ""
    return UnwritableOutputError(f"the output {directory} cannot be written: {error.strerror or error}{place}")


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
