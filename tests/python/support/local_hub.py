"""A Hugging Face Hub on this machine: its routes, redirects of large files to another host, and its errors and faults."""

import hashlib
import json
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
from safetensors.numpy import load_file, save_file

from pullquote._models.choice import embedded_model

# Files that the hub keeps elsewhere.
LARGE = (".safetensors", ".bin", ".onnx", ".h5")
PAGE = 5


def tiny_model(directory: Path) -> Path:
    """A model of the embedded one's kind and tokenizer, with one narrow layer and random weights."""
    embedded = embedded_model()
    shutil.copytree(embedded, directory, ignore=shutil.ignore_patterns("*.safetensors", "*.bin", "*.txt", "LICENSE*"))
    config = json.loads((directory / "config.json").read_text())
    hidden, intermediate = 32, 64
    sizes: dict[int, int] = {config["hidden_size"]: hidden, config["intermediate_size"]: intermediate}
    config |= {
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    config.pop("pullquote", None)
    (directory / "config.json").write_text(json.dumps(config))
    random = np.random.default_rng(24)
    weights = {
        name: random.standard_normal(tuple(sizes.get(int(size), int(size)) for size in tensor.shape)).astype(np.float32)
        * 0.1
        for name, tensor in load_file(embedded / "model.safetensors").items()
        if "layer." not in name or "layer.0." in name
    }
    save_file(weights, directory / "model.safetensors")
    return directory


@dataclass
class Repository:
    files: dict[str, bytes]
    # Without one of these tokens, it is gated, or hidden if it is private.
    tokens: frozenset[str] = frozenset()
    is_private: bool = False
    refs: dict[str, str] = field(default_factory=dict)

    @property
    def commit(self) -> str:
        return hashlib.sha1(repr(sorted(self.files.items())).encode(), usedforsecurity=False).hexdigest()

    @classmethod
    def of(cls, directory: Path, **extra: bytes) -> "Repository":
        paths = [path for path in directory.rglob("*") if path.is_file()]
        return cls({path.relative_to(directory).as_posix(): path.read_bytes() for path in paths} | extra)


@dataclass
class Request:
    host: str
    method: str
    path: str
    headers: dict[str, str]


def etag(path: str, content: bytes) -> str:
    if path.endswith(LARGE):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class LocalHub:
    """Two servers: the hub at 127.0.0.1, and its storage at localhost."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.requests: list[Request] = []
        # Bytes after which the storage closes the connection, and for how many requests.
        self.break_after = 1_000_000
        self.breaks = 0
        self.corrupts = False
        # Bytes that the storage's files lack at their end.
        self.shortens = 0
        # The storage's status for everything, if it refuses.
        self.storage_status = 0
        # The storage answers while this is set.
        self.storage_gate = threading.Event()
        self.storage_gate.set()
        # Statuses of the next answers.
        self.statuses: list[int] = []
        self._servers = [self._start("hub"), self._start("storage")]
        self.url, self.storage = (
            f"http://{host}:{port}"
            for host, port in zip(
                ("127.0.0.1", "localhost"), [server.server_port for server in self._servers], strict=True
            )
        )

    def add(self, name: str, directory: Path, **extra: bytes) -> Repository:
        self.repositories[name] = Repository.of(directory, **extra)
        return self.repositories[name]

    def paths(self, host: str | None = None) -> list[str]:
        return [request.path for request in self.requests if host in {None, request.host}]

    def _start(self, host: str) -> ThreadingHTTPServer:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(host, self.command, unquote(urlsplit(self.path).path), headers)
                hub.requests.append(request)
                if hub.statuses:
                    status, answer, body = hub.statuses.pop(0), {"Retry-After": "0"}, b""
                elif host == "hub":
                    status, answer, body = hub._answer(request, urlsplit(self.path).query)
                else:
                    hub.storage_gate.wait()
                    status, answer, body = hub._content(request)
                self.send_response(status)
                for name, value in ({"Content-Length": str(len(body))} | answer).items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command == "GET":
                    if host == "storage" and hub.breaks > 0:
                        hub.breaks -= 1
                        body = body[: hub.break_after]
                        self.close_connection = True
                    self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815 - the base class's name

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        return server

    def _answer(self, request: Request, query: str) -> tuple[int, dict[str, str], bytes]:  # noqa: PLR0911 - a route each
        if match := re.fullmatch(r"/api/models/(.+?)/(revision|tree)/(.+)", request.path):
            name, route, revision = match.groups()
        elif match := re.fullmatch(r"/(.+?)/resolve/([^/]+|refs/.+?)/(.+)", request.path):
            (name, revision, path), route = match.groups(), "resolve"
        else:
            return 404, {}, b""
        repository = self.repositories.get(name)
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        is_refused = repository is not None and bool(repository.tokens) and token not in repository.tokens
        if repository is None or (is_refused and repository.is_private):
            # The hub does not say whether a model is private or missing.
            return 404 if token else 401, {"X-Error-Code": "RepoNotFound"}, b""
        if revision != repository.commit and repository.refs.get(revision, "main" if revision == "main" else "") == "":
            return 404, {"X-Error-Code": "RevisionNotFound"}, b""
        if route == "revision":
            return 200, {}, json.dumps({"id": name, "sha": repository.commit}).encode()
        if route == "tree":
            return self._tree(name, repository, query)
        if is_refused:
            return 403 if token else 401, {"X-Error-Code": "GatedRepo"}, b""
        commit = {"X-Repo-Commit": repository.commit}
        if path not in repository.files:
            return 404, commit | {"X-Error-Code": "EntryNotFound"}, b""
        content, tag = repository.files[path], etag(path, repository.files[path])
        if not path.endswith(LARGE):
            return 200, commit | {"ETag": f'"{tag}"'}, content
        linked = {"X-Linked-Etag": f'"{tag}"', "X-Linked-Size": str(len(content))}
        return 302, commit | linked | {"Location": f"{self.storage}/{name}/{path}"}, b""

    def _tree(self, name: str, repository: Repository, query: str) -> tuple[int, dict[str, str], bytes]:
        entries: list[dict[str, Any]] = [{"type": "directory", "path": "1_Pooling", "oid": "0" * 40, "size": 0}]
        for path, content in sorted(repository.files.items()):
            entry = {"type": "file", "path": path, "size": len(content), "oid": etag(path + ".txt", content)}
            if path.endswith(LARGE):
                entry["lfs"] = {"oid": etag(path, content), "size": len(content), "pointerSize": 134}
            entries.append(entry)
        first = int(query.partition("cursor=")[2] or 0)
        url = f"{self.url}/api/models/{name}/tree/{repository.commit}?recursive=true&cursor={first + PAGE}"
        headers = {"Link": f'<{url}>; rel="next"'} if first + PAGE < len(entries) else {}
        return 200, headers, json.dumps(entries[first : first + PAGE]).encode()

    def _content(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        owner, name, path = request.path.removeprefix("/").split("/", 2)
        content = self.repositories[f"{owner}/{name}"].files[path]
        if self.storage_status:
            return self.storage_status, {}, b""
        tag = etag(path, content)
        content = content[: len(content) - self.shortens]
        if self.corrupts:
            content = bytes([content[0] ^ 1]) + content[1:]
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", "")):
            first, last = int(match[1]), int(match[2] or len(content) - 1)
            if first >= len(content):
                return 416, {"Content-Range": f"bytes */{len(content)}"}, b""
            headers = {"Content-Range": f"bytes {first}-{last}/{len(content)}", "ETag": f'"{tag}"'}
            return 206, headers, content[first : last + 1]
        return 200, {"ETag": f'"{tag}"', "Accept-Ranges": "bytes"}, content

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()


@contextmanager
def local_hub() -> Iterator[LocalHub]:
    hub = LocalHub()
    try:
        yield hub
    finally:
        hub.close()
