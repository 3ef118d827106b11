"""A web server on a loopback address: sound, slow and endless pages, and redirects."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ARTICLE = """<!doctype html><html><head><title>Caf&eacute; bread</title><style>p{}</style></head><body>
<nav>Home About</nav><h1>Caf&eacute; bread</h1>
<p>Bread is baked from flour &amp; water 🍞.</p><p>The moon is white and far away.</p></body></html>"""

Answer = tuple[int, dict[str, str], bytes]

HTML = {"content-type": "text/html; charset=utf-8"}


class FakeWeb:
    """Answers by path; `requests` has the path, the lower-case headers and the body of every request."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.pages: dict[str, Answer] = {}
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.stopping = threading.Event()
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.answer()

            def do_POST(self) -> None:
                self.answer()

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                web.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                with contextlib.suppress(OSError):
                    self.write()
                self.close_connection = True

            def write(self) -> None:
                if self.path == "/slow":
                    # One byte every 50 ms, until the client closes.
                    self.send_response(200)
                    self.send_header("content-type", "text/plain")
                    self.end_headers()
                    while not web.stopping.wait(0.05):
                        self.wfile.write(b"x")
                    return
                if self.path == "/endless":
                    self.send_response(200)
                    self.send_header("content-type", "text/plain")
                    self.end_headers()
                    while not web.stopping.is_set():
                        self.wfile.write(b"x" * 65536)
                    return
                status, headers, content = web.pages.get(self.path, (404, HTML, b"nothing"))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer((host, 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://{host}:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def page(self, path: str, content: str | bytes, kind: str | None = HTML["content-type"], **headers: str) -> str:
        """Serve a page; returns its URL."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        content = content.encode() if isinstance(content, str) else content
        self.pages[path] = (200, headers if kind is None else headers | {"content-type": kind}, content)
        return self.url + path

    def packed(self, path: str, content: bytes) -> str:
        """Serve a gzipped page."""
        return self.page(path, gzip.compress(content), "text/plain", content_encoding="gzip")

    def redirect(self, path: str, to: str, status: int = 302) -> str:
        self.pages[path] = (status, {"location": to}, b"")
        return self.url + path

    def json(self, path: str, answer: object, status: int = 200) -> None:
        self.pages[path] = (status, {"content-type": "application/json"}, json.dumps(answer).encode())

    def close(self) -> None:
        self.stopping.set()
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def fake_web(host: str = "127.0.0.1") -> Iterator[FakeWeb]:
    made = FakeWeb(host)
    try:
        yield made
    finally:
        made.close()
