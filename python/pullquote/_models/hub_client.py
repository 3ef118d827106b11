"""Downloads from the Hugging Face Hub with Python's standard library, for installations without ``huggingface_hub``.

Three routes: a revision's commit, a commit's files, and a file. Broken downloads are resumed, in this process or a later one; each
file is checked by size and hash before it gets its name; and processes that download the same file take turns.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urljoin, urlsplit

from pullquote import _native
from pullquote._models.hub import folder_name, is_commit, is_true
from pullquote._models.hub_files import RemoteFile, is_intact
from pullquote._progress_bar import ProgressBar
from pullquote.errors import BadAnswerError, InvalidArgumentError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["HubClient"]

CHUNK = 1 << 20
# Attempts in a row without progress, and seconds of the first pause; each further one is twice as long.
ATTEMPTS = 5
PAUSE = 0.5
MAX_PAUSE = 30.0
# Seconds that the hub may be silent, as in `huggingface_hub`.
TIMEOUT = 10.0

T = TypeVar("T")


class HubClient:
    """The hub at an address. `token` is sent to that address only."""

    def __init__(self, endpoint: str, token: str | None, cache: Path) -> None:
        """Connects to nothing."""
        if urlsplit(endpoint).scheme not in {"http", "https"}:
            message = f"HF_ENDPOINT must be a URL such as https://huggingface.co, not {endpoint!r}"
            raise InvalidArgumentError(message)
        self._endpoint, self._token, self._cache = endpoint, token, cache
        self._opener = urllib.request.build_opener(_Redirects)

    def files(self, name: str, revision: str) -> tuple[str, list[RemoteFile]]:
        """The commit of a revision, and its files."""
        commit = revision
        if not is_commit(commit):
            commit = str(
                self._json(f"{self._endpoint}/api/models/{name}/revision/{quote(revision, safe='')}")[0]["sha"]
            )
        url: str | None = (
            f"{self._endpoint}/api/models/{name}/tree/{quote(commit, safe='')}?recursive=true&expand=false"
        )
        files = []
        while url is not None:
            entries, url = self._json(url)
            files += [_remote_file(entry) for entry in entries if entry["type"] == "file"]
        return commit, files

    def download(self, name: str, commit: str, files: list[RemoteFile]) -> None:
        """Download files into the cache, with a progress bar on a terminal."""
        repository = self._cache / folder_name(name)
        locks = self._cache / ".locks" / repository.name
        is_shown = not is_true("HF_HUB_DISABLE_PROGRESS_BARS")
        with ProgressBar(sum(file.size for file in files), "byte", is_shown=is_shown) as bar:
            for file in files:
                bar.note = f"{name}: {file.path} ({file.size / 1e6:,.1f} MB)"
                blob = repository / "blobs" / file.etag
                with _lock(locks / f"{file.etag}.lock"):
                    # Another process may have downloaded it meanwhile.
                    if is_intact(blob, file):
                        bar.update(file.size)
                    else:
                        url = f"{self._endpoint}/{name}/resolve/{commit}/{quote(file.path)}"
                        self._download_blob(url, blob, file, bar)
                    _link(blob, repository / "snapshots" / commit / file.path)

    def _json(self, url: str) -> tuple[Any, str | None]:
        """An answer, and the URL of its next page."""

        def attempt() -> tuple[Any, str | None]:
            with self._open(url, {}, _seconds("HF_HUB_ETAG_TIMEOUT")) as answer:
                following = re.search(r'<([^>]+)>;\s*rel="next"', answer.headers.get("Link", ""))
                return json.load(answer), urljoin(url, following[1]) if following else None

        try:
            return _retry(attempt)
        except ValueError as error:
            message = f"{url} answered with no JSON: {error}"
            raise BadAnswerError(message) from None

    def _download_blob(self, url: str, blob: Path, file: RemoteFile, bar: ProgressBar) -> None:
        blob.parent.mkdir(parents=True, exist_ok=True)
        part = blob.with_name(f"{blob.name}.incomplete")
        bar.update(_size(part))
        # A partial file of an earlier process may be damaged; then a second attempt starts from the beginning.
        for _ in range(2):
            _retry(lambda: self._append(url, part, file, bar), lambda: _size(part))
            if is_intact(part, file):
                part.replace(blob)
                return
            bar.update(-_size(part))
            part.unlink()
        message = f"{url} sent other bytes than the hub announced, twice; a proxy between may change them"
        raise BadAnswerError(message)

    def _append(self, url: str, part: Path, file: RemoteFile, bar: ProgressBar) -> None:
        """Download the rest of a partial file."""
        with part.open("ab") as target:
            start = target.tell()
            headers = {"Range": f"bytes={start}-"} if start else {}
            if start >= file.size:
                return
            try:
                opened = self._open(url, headers, _seconds("HF_HUB_DOWNLOAD_TIMEOUT"))
            except urllib.error.HTTPError as error:
                if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                    # There is no more, so the file is another than announced, which its size will show.
                    error.close()
                    return
                raise
            with opened as answer:
                if start and answer.status != http.client.PARTIAL_CONTENT:
                    target.truncate(0)
                    bar.update(-start)
                while target.tell() <= file.size and (chunk := answer.read(CHUNK)):
                    target.write(chunk)
                    bar.update(len(chunk))
            if target.tell() < file.size:
                message = f"the download of {url} ended after {target.tell():,} of {file.size:,} bytes"
                raise ConnectionResetError(message)

    def _open(self, url: str, headers: dict[str, str], timeout: float) -> http.client.HTTPResponse:
        agent = f"pullquote/{_native.__version__} {os.environ.get('HF_HUB_USER_AGENT_ORIGIN', '')}".strip()
        request = urllib.request.Request(url, headers={"User-Agent": agent, **headers})  # noqa: S310 - checked above
        if self._token is not None and _origin(url) == _origin(self._endpoint):
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        answer: http.client.HTTPResponse = self._opener.open(request, timeout=timeout)
        return answer


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects with the token only on the same host and port: large files are elsewhere."""

    def redirect_request(self, req: urllib.request.Request, *answer: Any) -> urllib.request.Request | None:
        following = super().redirect_request(req, *answer)
        token = req.get_header("Authorization")
        if following is not None and token and _origin(following.full_url) == _origin(req.full_url):
            following.add_unredirected_header("Authorization", token)
        return following


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _remote_file(entry: dict[str, Any]) -> RemoteFile:
    large = entry.get("lfs")
    size, etag = (large["size"], large["oid"]) if large else (entry["size"], entry["oid"])
    return RemoteFile(str(entry["path"]), int(size), str(etag))


def _retry(attempt: Callable[[], T], progress: Callable[[], int] = lambda: 0) -> T:
    """Try again after a broken connection or a busy server."""
    failures, before = 0, progress()
    while True:
        try:
            return attempt()
        except (OSError, http.client.HTTPException) as error:
            done = progress()
            failures, before = 1 if done > before else failures + 1, done
            retry_after = ""
            if isinstance(error, urllib.error.HTTPError):
                retry_after = error.headers.get("Retry-After", "")
                error.close()
            if not _is_temporary(error) or failures == ATTEMPTS:
                raise
            time.sleep(min(float(retry_after) if retry_after.isdecimal() else PAUSE * 2 ** (failures - 1), MAX_PAUSE))


def _is_temporary(error: Exception) -> bool:
    if isinstance(error, urllib.error.HTTPError):
        return error.code in {408, 429} or error.code >= 500
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return isinstance(reason, (TimeoutError, ConnectionResetError, BrokenPipeError, http.client.HTTPException))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _seconds(variable: str) -> float:
    value = os.environ.get(variable, "")
    return float(value) if value.isdecimal() and int(value) else TIMEOUT


def _link(blob: Path, pointer: Path) -> None:
    """Put a blob into a snapshot: by a relative link, or where there are none, by moving it."""
    pointer.parent.mkdir(parents=True, exist_ok=True)
    if not is_true("HF_HUB_DISABLE_SYMLINKS"):
        link = pointer.with_name(f"{pointer.name}.{os.getpid()}.tmp")
        with suppress(OSError):
            link.symlink_to(os.path.relpath(blob, pointer.parent))
            link.replace(pointer)
            return
    blob.replace(pointer)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Wait for other processes; the lock is that of `huggingface_hub`, and ends with the process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        # Some network file systems have no locks; then both download, and the check finds what they mixed.
        if fcntl is not None:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield
