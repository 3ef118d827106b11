"""An MCP server: agents ask for the passages of texts, files and pages instead of reading them. Needs ``pullquote[mcp]``.

``pullquote mcp`` runs it. `make_server` makes it, for a host with an MCP server or ASGI application of its own.
"""

from __future__ import annotations

import functools
import inspect
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pullquote._adapter import Source, check_source, default_source
from pullquote._engine.highlighter import Highlighter
from pullquote._extras import needs_extra
from pullquote._native import __version__
from pullquote._request.options import SERVER_TIMEOUT
from pullquote._results.highlight import Highlight
from pullquote._results.highlights import Highlights
from pullquote.client import Client
from pullquote.documents import Document, read
from pullquote.errors import InvalidArgumentError, PullquoteError

with needs_extra("mcp"):
    import httpx2
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations
    from pydantic import BaseModel, Field

__all__ = ["Answer", "Failure", "Page", "Passage", "SearchResult", "SearchResults", "make_server"]

# As many as a server takes in one request at its default settings.
MAX_SOURCES = 1000
# Beyond this, counting the tokens of all sources would take longer than finding the passages.
MAX_COUNTED_CHARS = 2_000_000
KEPT_FILES = 256
SEARCH_RESULTS = 10

UNANSWERED = "Nothing in these sources answers the query; passages, if any, are only the nearest ones."
INSTRUCTIONS = """Long texts, files and web pages need not be read in full: `highlights` returns the passages that answer a \
question, word for word, with their places. Ask whole questions, and pass everything that may have the answer in one call."""

_Tool = TypeVar("_Tool", bound=Callable[..., Any])


class Passage(BaseModel):
    """A passage, word for word."""

    text: str
    source: str = Field(description="file, address, or texts[number] of the call")
    start: int = Field(description="first character in the source")
    end: int = Field(description="end, exclusive")
    page: int | None = Field(description="page of a PDF, from 1")
    score: float = Field(description="probability that the passage answers the query, 0 to 1")
    header: str = Field(
        description="the row above that names the columns, if the passage is rows of a table; else empty"
    )


class Failure(BaseModel):
    """A source that could not be read."""

    source: str
    reason: str


class Answer(BaseModel):
    """The passages of all sources, best first."""

    answered: bool = Field(
        description="false if nothing in the sources answers the query; the passages are then the nearest ones"
    )
    note: str = Field(description="a message if nothing answers the query; otherwise empty")
    passages: list[Passage]
    truncated: bool = Field(description="whether the sources have more text than these passages")
    total_tokens: int | None = Field(description="tokens of all sources; null if they are too long to count")
    failed: list[Failure] = Field(description="sources that could not be read")


class SearchResult(BaseModel):
    """A stored document that a query finds."""

    id: str
    title: str
    url: str


class SearchResults(BaseModel):
    """The stored documents that a query finds, best first."""

    results: list[SearchResult]


class Page(BaseModel):
    """A stored document."""

    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, str]


Query = Annotated[str, Field(min_length=1, description="a whole question, in any language")]
Texts = Annotated[list[str] | None, Field(description="texts, Markdown or HTML, as they are")]
Files = Annotated[
    list[str] | None, Field(description="paths of files (text, HTML, PDF, DOCX, EPUB), or of folders of such")
]
Urls = Annotated[list[str] | None, Field(description="addresses of web pages, which the server fetches")]
MaxTokens = Annotated[int, Field(ge=1, description="maximum tokens of all passages together")]
MaxPassages = Annotated[int, Field(ge=1, description="maximum passages")]


def make_server(
    highlighter: Source | None = None,
    *,
    url: str | None = None,
    api_key: str | None = None,
    ca_certs: str | Path | None = None,
    timeout: float = SERVER_TIMEOUT,
    folders: str | Path | Iterable[str | Path] = (),
    fetch: bool = False,
) -> MCPServer:
    """Make an MCP server: ``run()`` serves over standard input and output, ``streamable_http_app()`` is an ASGI application.

    Its tools:

    - ``highlights(query, texts, files, urls, max_tokens=2000, max_passages=10)``: an `Answer` from all sources in one call.
    - ``search(query)``: `SearchResults`, and ``fetch(id)``: a `Page`, of the stored documents of ``pullquote serve``, in the
      shapes that the research modes of chat products expect. Only with `url`.

    Arguments of `make_server`:

    - `highlighter`: a `Highlighter` or `Client`. `None` is a client of `url`, or without one the highlighter that
      `pullquote.highlights` shares.
    - `url`, `api_key`, `ca_certs`, `timeout`: the address of ``pullquote serve`` with the stored documents, and the settings of
      its `Client`.
    - `folders`: `files` must be below one of these, after links are resolved. Without folders, the tool takes no files.
    - `fetch`: whether the tool takes `urls`. The server at `url` fetches them, with its own limits and its guard against private
      addresses; it needs ``--fetch``.

    Raises `InvalidArgumentError` for `fetch` without `url`, and for a missing folder.
    """
    if fetch and url is None:
        message = (
            "fetch needs url, the address of a server that runs with --fetch; its guard keeps private addresses out"
        )
        raise InvalidArgumentError(message)
    routes = None if url is None else _Routes(url, api_key, ca_certs, timeout)
    if highlighter is None and routes is not None:
        highlighter = routes.client
    check_source(highlighter)
    named = [folders] if isinstance(folders, (str, Path)) else folders
    tools = _Tools(highlighter, routes, [_folder(folder) for folder in named])
    server: MCPServer = MCPServer("pullquote", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING")
    missing = {name for name, has in (("files", tools.folders), ("urls", fetch)) if not has}
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=fetch)
    server.tool("highlights", "Find passages", annotations=reads)(_without(tools.highlights, missing))
    if routes is not None:
        closed = ToolAnnotations(read_only_hint=True, open_world_hint=False)
        server.tool("search", "Search stored documents", annotations=closed)(_reporting(tools.search))
        server.tool("fetch", "Read a stored document", annotations=closed)(_reporting(tools.fetch))
    return server


def _folder(folder: str | Path) -> Path:
    path = Path(folder).expanduser().resolve()
    if not path.is_dir():
        message = f"there is no folder {folder}"
        raise InvalidArgumentError(message)
    return path


def _without(tool: _Tool, names: set[str]) -> _Tool:
    """A tool without some parameters, so that agents do not try them."""
    signature = inspect.signature(tool, eval_str=True)
    kept = [parameter for name, parameter in signature.parameters.items() if name not in names]
    made = _reporting(tool)
    made.__dict__["__signature__"] = signature.replace(parameters=kept)
    return made


def _reporting(tool: _Tool) -> _Tool:
    """A tool whose errors reach the agent, which may correct its call; others become "Error executing tool"."""

    @functools.wraps(tool)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return tool(*arguments, **named)
        except PullquoteError as error:
            raise ToolError(str(error)) from error

    return call  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class _Read:
    """A source that was read."""

    name: str
    text: str
    title: str | None = None
    document: Document | None = None


class _Tools:
    def __init__(self, source: Source | None, routes: _Routes | None, folders: Sequence[Path]) -> None:
        self._source, self._routes, self.folders = source, routes, folders
        self._document = functools.lru_cache(KEPT_FILES)(_read_document)

    def highlights(
        self,
        query: Query,
        texts: Texts = None,
        files: Files = None,
        urls: Urls = None,
        max_tokens: MaxTokens = 2000,
        max_passages: MaxPassages = 10,
    ) -> Answer:
        """Find the passages that answer a question, word for word, in texts, files and web pages: much less to read than all."""
        sources = [_Read(f"texts[{number}]", text) for number, text in enumerate(texts or [])]
        failed: list[Failure] = []
        paths = self._paths(files or [], failed)
        if len(sources) + len(paths) + len(urls or []) > MAX_SOURCES:
            message = (
                f"{len(paths)} files are too many: a call takes {MAX_SOURCES} sources; name fewer or smaller folders"
            )
            raise ToolError(message)
        sources += self._files(paths, failed)
        if urls and self._routes is not None:
            sources += self._routes.pages(urls, failed)
        if not sources:
            if failed:
                return Answer(
                    answered=False, note=UNANSWERED, passages=[], truncated=False, total_tokens=0, failed=failed
                )
            message = "there is nothing to read: pass texts, or another source of this tool"
            raise ToolError(message)
        source = default_source(self._source)
        found = source.highlights(
            query,
            [page.text for page in sources],
            titles=[page.title for page in sources],
            format="auto",
            max_total_highlights=max_passages,
            max_total_tokens=max_tokens,
        )
        return self._answer(source, sources, found, failed)

    def search(self, query: Query) -> SearchResults:
        """Search the stored documents; `fetch` reads one of the results, and `highlights` finds passages in texts."""
        assert self._routes is not None  # noqa: S101 - make_server adds the tool only then
        return self._routes.search(query)

    def fetch(self, id: Annotated[str, Field(description="id of a result of search")]) -> Page:  # noqa: A002 - the tool's shape
        """Read a whole stored document."""
        assert self._routes is not None  # noqa: S101 - make_server adds the tool only then
        stored = self._routes.client.get_document(id)
        metadata = {"text_hash": stored.text_hash}
        return Page(id=id, title=stored.title or id, text=stored.text, url=id, metadata=metadata)

    def _answer(self, source: Source, sources: Sequence[_Read], found: Highlights, failed: list[Failure]) -> Answer:
        best = found.best()
        passages = [_passage(sources[one.page], one) for one in best]
        has_all = sum(len(one.text) for one in best) >= sum(len(text.strip()) for text in found.texts)
        total = self._tokens(source, found.texts)
        return Answer(
            answered=found.answered,
            note="" if found.answered else UNANSWERED,
            passages=passages,
            truncated=not has_all,
            total_tokens=total,
            failed=failed,
        )

    def _tokens(self, source: Source, texts: Sequence[str]) -> int | None:
        if sum(map(len, texts)) > MAX_COUNTED_CHARS:
            return None
        if isinstance(source, Highlighter):
            return sum(len(source.parse_pieces(text, 1, 1, "token")) for text in texts)
        return None if self._routes is None else self._routes.tokens(texts)

    def _paths(self, names: Sequence[str], failed: list[Failure]) -> list[tuple[str, Path]]:
        """Each file with its name: those that are named, and those of folders that are named."""
        paths: list[tuple[str, Path]] = []
        for name in names:
            path = self._allowed(name)
            if path is None:
                allowed = ", ".join(map(str, self.folders))
                failed.append(Failure(source=name, reason=f"there is no such file below {allowed}"))
            elif path.is_dir():
                below = sorted(file for file in path.rglob("*") if not _is_hidden(file.relative_to(path)))
                paths += [(str(file), file) for file in below if file.is_file() and self._is_below(file.resolve())]
            else:
                paths.append((name, path))
        return paths

    def _allowed(self, name: str) -> Path | None:
        """The file or folder of a name, if it is there and below a folder of ours; a relative name is below one of them."""
        for folder in self.folders:
            try:
                path = (folder / name).resolve()
                if self._is_below(path) and (path.is_file() or path.is_dir()):
                    return path
            except (OSError, ValueError, RuntimeError):
                # A name that no file can have, or a circle of links.
                continue
        return None

    def _is_below(self, path: Path) -> bool:
        return any(path.is_relative_to(folder) for folder in self.folders)

    def _files(self, paths: Iterable[tuple[str, Path]], failed: list[Failure]) -> list[_Read]:
        made: list[_Read] = []
        for name, path in paths:
            try:
                status = path.stat()
                document = self._document(path, status.st_mtime_ns, status.st_size)
            except PullquoteError as error:
                failed.append(Failure(source=name, reason=str(error)))
            except OSError as error:
                failed.append(Failure(source=name, reason=error.strerror or str(error)))
            else:
                made.append(_Read(name, document.text, document=document))
        return made


def _read_document(path: Path, changed: int, size: int) -> Document:  # noqa: ARG001 - they make the cache's key
    return read(path)


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _passage(source: _Read, found: Highlight) -> Passage:
    return Passage(
        text=found.text,
        source=source.name,
        start=found.source_start,
        end=found.source_end,
        page=None if source.document is None else source.document.page_number(found),
        score=round(found.score, 4),
        header=found.header,
    )


class _Routes:
    """A server's `client`, and routes that it lacks: the server's search, the pages it fetches, and its tokenizer."""

    def __init__(self, url: str, api_key: str | None, ca_certs: str | Path | None, timeout: float) -> None:
        self.client = Client(url, api_key=api_key, ca_certs=ca_certs, timeout=timeout)
        self._url, self._timeout = url, timeout
        self._socket = url.removeprefix("unix:") if url.startswith("unix:") else None
        self._headers = {} if api_key is None else {"authorization": f"Bearer {api_key}"}
        self._verify = True if ca_certs is None else ssl.create_default_context(cafile=str(ca_certs))

    def search(self, query: str) -> SearchResults:
        found = self._post("/search", {"query": query, "numResults": SEARCH_RESULTS})["results"]
        return SearchResults(
            results=[SearchResult(id=one["id"], title=one.get("title") or one["id"], url=one["url"]) for one in found]
        )

    def pages(self, urls: Sequence[str], failed: list[Failure]) -> list[_Read]:
        answer = self._post("/contents", {"urls": list(urls), "text": True})
        for status in answer["statuses"]:
            if status["status"] != "success":
                error = status.get("error", {})
                reason = error.get("message") or error.get("tag") or status["status"]
                failed.append(Failure(source=status["id"], reason=reason))
        return [_Read(page["id"], page["text"], page.get("title")) for page in answer["results"]]

    def tokens(self, texts: Sequence[str]) -> int:
        answer = self._post("/tokenize", {"inputs": list(texts), "add_special_tokens": False})
        return sum(map(len, answer))

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        try:
            with httpx2.Client(
                base_url="http://localhost" if self._socket else self._url,
                transport=httpx2.HTTPTransport(uds=self._socket) if self._socket else None,
                headers=self._headers,
                verify=self._verify,
                timeout=self._timeout,
                trust_env=False,
            ) as http:
                answer = http.post(path, json=body)
        except httpx2.HTTPError as error:
            message = f"the server at {self._url} does not answer: {error}"
            raise ToolError(message) from error
        if answer.is_error:
            message = f"the server refuses {path} with {answer.status_code}: {answer.text}"
            raise ToolError(message)
        return answer.json()
