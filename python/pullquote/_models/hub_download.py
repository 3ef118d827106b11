"""Downloads of models into the shared cache: their files, the client, checks of size and hash, and errors.

The client is ``huggingface_hub`` if that is installed, else `hub_client`.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from pullquote import _native
from pullquote._models.hub import (
    DEFAULT_REVISION,
    MODULES,
    HubOptions,
    cache_directory,
    expand,
    home_directory,
    is_commit,
    is_true,
    offline,
    snapshot_directory,
)
from pullquote._models.hub_files import RemoteFile, is_intact
from pullquote.errors import (
    BadAnswerError,
    ModelNotFoundError,
    PullquoteError,
    UnauthorizedError,
    UnavailableError,
    UnsupportedModelError,
)

__all__ = ["fetch"]

ENDPOINT = "https://huggingface.co"
ETAG = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class Downloader(Protocol):
    """The interface of the clients for the hub."""

    def files(self, name: str, revision: str) -> tuple[str, list[RemoteFile]]:
        """The commit of a revision, and its files."""
        ...

    def download(self, name: str, commit: str, files: list[RemoteFile]) -> None:
        """Download files into the cache."""
        ...


def fetch(name: str, options: HubOptions, *, weights: bool = True) -> Path:
    """Download the files of a model that are missing or damaged in the cache, and return their directory.

    Raises `ModelNotFoundError` if the hub has no such model or revision, or the disk no space; `UnauthorizedError` for models that
    need a token; `UnsupportedModelError` for models without the files that pullquote reads; `UnavailableError` if the hub does not
    answer; and `BadAnswerError` if it sends a file other than it announced.
    """
    if forbids := offline(options):
        message = f"{name} cannot be downloaded: {forbids} forbids it"
        raise ModelNotFoundError(message)
    revision = options.revision or DEFAULT_REVISION
    cache = cache_directory(options.cache_dir)
    endpoint = (os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
    with _explained(name, revision, endpoint, cache, has_token=_token(options) is not None):
        client = _client(endpoint, options, cache)
        commit, listed = client.files(name, revision)
        if not is_commit(commit):
            message = f"{endpoint} answered {commit!r} for the commit of {name}, which is none"
            raise BadAnswerError(message)
        directory = snapshot_directory(cache, name, commit)
        files = {file.path: file for file in listed if _is_safe(file)}
        if MODULES in files:
            _download(client, name, directory, [files[MODULES]])
        modules = (directory / MODULES).read_bytes() if MODULES in files else None
        needed = _native.needed_files(list(files), modules, weights)
        if needed.missing:
            raise UnsupportedModelError(_explain_missing(name, needed.missing))
        described = _native.needed_files(list(files), modules, False).files
        _download(client, name, directory, [files[path] for path in described])
        if weights:
            # A model that would not load is refused before its weights are downloaded.
            _native.check_description(directory)
            _download(client, name, directory, [files[path] for path in needed.files if path not in described])
        repository = directory.parents[1]
        if modules is None:
            _write(repository / ".no_exist" / commit / MODULES, "")
        if not is_commit(revision):
            _write(repository / "refs" / revision, commit)
    return directory


class LibraryClient:
    """The hub through ``huggingface_hub``."""

    def __init__(self, endpoint: str, token: str | None, cache: Path) -> None:
        """Import the library."""
        from huggingface_hub import HfApi  # noqa: PLC0415 - it takes longer than the rest of this package

        # Without a token, the library looks for one in more places than `_token`.
        self._api = HfApi(endpoint, token=token, library_name="pullquote", library_version=_native.__version__)
        self._cache = cache

    def files(self, name: str, revision: str) -> tuple[str, list[RemoteFile]]:
        """See `Downloader`."""
        commit = revision if is_commit(revision) else str(self._api.model_info(name, revision=revision).sha)
        entries = self._api.list_repo_tree(name, recursive=True, revision=commit)
        # Folders have no `blob_id`.
        found: list[Any] = [entry for entry in entries if hasattr(entry, "blob_id")]
        return commit, [
            RemoteFile(entry.path, entry.size, entry.lfs.sha256 if entry.lfs else entry.blob_id) for entry in found
        ]

    def download(self, name: str, commit: str, files: list[RemoteFile]) -> None:
        """See `Downloader`."""
        patterns = [re.sub(r"([*?[])", r"[\1]", file.path) for file in files]
        directory = Path(
            self._api.snapshot_download(name, revision=commit, cache_dir=self._cache, allow_patterns=patterns)
        )
        for file in files:
            if not is_intact(directory / file.path, file):
                message = f"{file.path} of {name} arrived with another size or hash than the hub announced"
                raise BadAnswerError(message)


def _client(endpoint: str, options: HubOptions, cache: Path) -> Downloader:
    # Not by catching ImportError: a damaged installation should say so.
    if importlib.util.find_spec("huggingface_hub") is not None:
        return LibraryClient(endpoint, options.token, cache)
    from pullquote._models.hub_client import HubClient  # noqa: PLC0415 - urllib takes long to import

    return HubClient(endpoint, _token(options), cache)


def _download(client: Downloader, name: str, directory: Path, files: list[RemoteFile]) -> None:
    """Download the files that are missing or damaged in the snapshot."""
    wanted = [file for file in files if not is_intact(directory / file.path, file)]
    if not wanted:
        return
    repository = directory.parents[1]
    needed = 0
    for file in wanted:
        # A client would take a damaged file for a finished one.
        pointer, blob = directory / file.path, repository / "blobs" / file.etag
        pointer.unlink(missing_ok=True)
        if is_intact(blob, file):
            continue
        # A blob may be a link to one that repositories share.
        blob.resolve().unlink(missing_ok=True)
        blob.unlink(missing_ok=True)
        part = blob.with_name(f"{blob.name}.incomplete")
        needed += file.size - (part.stat().st_size if part.exists() else 0)
    directory.mkdir(parents=True, exist_ok=True)
    if (free := shutil.disk_usage(directory).free) < needed:
        raise OSError(errno.ENOSPC, f"{needed / 1e6:,.0f} MB are needed, {free / 1e6:,.0f} MB are free")
    client.download(name, directory.name, wanted)


def _explain_missing(name: str, missing: Iterable[str]) -> str:
    message = f"{name} has no {', '.join(missing)}, which pullquote needs"
    if any(path.endswith("tokenizer.json") for path in missing):
        message += (
            '; make it with transformers: AutoTokenizer.from_pretrained(name).save_pretrained("directory"), '
            "and put it next to the model's other files"
        )
    return message


@contextmanager
def _explained(name: str, revision: str, endpoint: str, cache: Path, *, has_token: bool) -> Iterator[None]:
    """Turn the errors of a client, and of the disk, into pullquote's."""
    try:
        yield
    except PullquoteError:
        raise
    except Exception as error:
        # Broad, because the library's errors change with the HTTP client that it uses.
        chain = list(_causes(error))
        if isinstance(error, (KeyError, TypeError)):
            message = f"{endpoint} does not answer as the hub does ({error!r}); check HF_ENDPOINT"
            raise BadAnswerError(message) from error
        answered = next((found for found in map(_answer, chain) if found is not None), None)
        if answered is not None:
            raise _refusal(name, revision, endpoint, *answered, has_token=has_token) from error
        numbers = {cause.errno for cause in chain if isinstance(cause, OSError)}
        if numbers & {errno.ENOSPC, errno.EDQUOT}:
            message = f"the disk of the cache {cache} is full: {error}. Free some, or set HF_HOME or cache_dir to another disk"
            raise ModelNotFoundError(message) from error
        if numbers & {errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR}:
            message = f"the cache {cache} cannot be written: {error}. Set HF_HOME or cache_dir to a folder that can"
            raise ModelNotFoundError(message) from error
        # urllib's error is the reason in brackets.
        message = (
            f"{name} could not be downloaded from {endpoint}: {getattr(error, 'reason', error)}. Check the network; HTTPS_PROXY "
            "names a proxy, SSL_CERT_FILE the certificates to trust, HF_ENDPOINT another server"
        )
        raise UnavailableError(message) from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _answer(error: BaseException) -> tuple[int, Any, str] | None:
    """Status, headers and URL of the answer that an error of urllib or of ``huggingface_hub`` is about."""
    if (response := getattr(error, "response", None)) is not None:
        return response.status_code, response.headers, str(response.url)
    status = getattr(error, "code", None)
    if not isinstance(status, int) or not hasattr(error, "headers"):
        return None
    return status, error.headers, getattr(error, "url", None) or ""


def _refusal(
    name: str, revision: str, endpoint: str, status: int, headers: Any, url: str, *, has_token: bool
) -> PullquoteError:
    code, text = headers.get("X-Error-Code"), headers.get("X-Error-Message") or ""
    if (host := _host(url)) and host != _host(endpoint):
        message = (
            f"{host}, where {endpoint} stores large files, answered with status {status}; try again later, and check that a proxy "
            "or firewall allows this host"
        )
        return UnavailableError(message)
    page = f"{endpoint}/{name}"
    error: type[PullquoteError] = ModelNotFoundError
    if code == "GatedRepo":
        error = UnauthorizedError
        token = "the token's account has no access yet" if has_token else "set HF_TOKEN to a token of that account"
        message = f"{name} is gated: accept its conditions at {page}; {token}"
    elif code == "RevisionNotFound":
        message = f"{name} has no revision {revision!r}; {page}/tree/main shows its branches, tags and commits"
    elif code == "EntryNotFound":
        message = f"{name} no longer has all files that {endpoint} announced; try again"
    elif status == 401 and "Invalid" in text:
        error = UnauthorizedError
        message = f"{endpoint} does not accept the token; make another at {endpoint}/settings/tokens"
    elif code == "RepoNotFound" or status in {401, 404}:
        token = "the token may not read it" if has_token else "set HF_TOKEN to a token that may read it"
        message = f"there is no directory {name!r}, and no model of this name at {endpoint}. If it is private, {token}"
    elif status == 403:
        error, message = UnauthorizedError, f"{endpoint} refuses {name}: {text or 'status 403'}"
    else:
        error, message = UnavailableError, f"{endpoint} answered {name} with status {status}; try again later"
    return error(message)


def _host(url: str) -> str:
    return re.sub(r"^\w+://|[/?#].*", "", url)


def _token(options: HubOptions) -> str | None:
    """The caller's token, or that of ``HF_TOKEN``, or of the file that ``hf auth login`` writes."""
    if options.token:
        return options.token
    if is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN"):
        return None
    token = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or ""
    if not token.strip():
        path = os.environ.get("HF_TOKEN_PATH")
        with suppress(OSError):
            token = (expand(path) if path else home_directory() / "token").read_text(encoding="utf-8")
    return token.strip() or None


def _is_safe(file: RemoteFile) -> bool:
    """Whether a file stays in its folder, whatever the hub says. The core takes no path that leaves a model's folder by slashes."""
    return ETAG.fullmatch(file.etag) is not None and not re.search(r"[\\:\0]", file.path)


def _write(path: Path, text: str) -> None:
    """Write a file that other processes read at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
