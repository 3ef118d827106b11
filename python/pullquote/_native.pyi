"""The Rust core of pullquote. Private: call `pullquote` instead."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Generic, Literal, NoReturn, TypeVar, final, type_check_only

import numpy as np
from numpy.typing import NDArray
from typing_extensions import CapsuleType, disjoint_base

from pullquote._request.options import Request
from pullquote.arrow import ArrowTable, ColumnNames
from pullquote.documents import Limits

__all__ = [
    "ANSWERED",
    "ANSWER_MULTIPLE",
    "LEAST_ANSWER",
    "Batch",
    "BodyRefusal",
    "CacheState",
    "CachedModel",
    "Client",
    "ClientCall",
    "Completion",
    "CompletionQueue",
    "CpuEncoder",
    "DeviceState",
    "Difference",
    "Document",
    "DocumentList",
    "Embeddings",
    "Engine",
    "EngineHandle",
    "EngineSettings",
    "FileKind",
    "FinishedRequest",
    "HighlightColumns",
    "Highlighter",
    "HighlightsBody",
    "Hosted",
    "HostedCall",
    "ListedDocument",
    "Located",
    "NeededFiles",
    "PendingCall",
    "Place",
    "Progress",
    "PutDocuments",
    "Rank",
    "Server",
    "ShownRun",
    "Snapshot",
    "StageTime",
    "Table",
    "Work",
    "__version__",
    "cached_models",
    "check_description",
    "check_options",
    "check_store",
    "decode_undeclared",
    "error_table",
    "fetch",
    "find_snapshot",
    "forget_threads",
    "html_runs",
    "instruction_set",
    "instruction_sets",
    "locate",
    "needed_files",
    "note",
    "parse_pieces",
    "serve_agent",
    "settings",
    "shown_runs",
    "similar",
    "wait_for_threads",
]

__version__: str
ANSWERED: float
ANSWER_MULTIPLE: int
LEAST_ANSWER: int

def parse_pieces(
    text: str, highlight_length: int, step_size: int, unit: str, allow_gaps: bool
) -> NDArray[np.int64]: ...
def locate(page: str, quote: str, timeout: float | None) -> Located: ...
def check_description(directory: Path) -> None: ...
def check_options(options: dict[str, Any]) -> None: ...
def check_store(path: str) -> None: ...
def serve_agent(settings: dict[str, Any], agent: str, highlighter: Highlighter | None) -> None: ...
def shown_runs(markdown: str) -> list[ShownRun]: ...
def html_runs(html: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]: ...
def wait_for_threads(seconds: float) -> bool: ...
def forget_threads() -> None: ...
def settings(kind: Literal["call", "engine", "server", "client"]) -> str: ...
def similar(name: str, names: list[str]) -> str | None: ...
def note(options: dict[str, Any], windows: int, best: float | None) -> str | None: ...
def needed_files(files: list[str], modules: bytes | None, weights: bool) -> NeededFiles: ...
def find_snapshot(cache: Path, name: str, revision: str, weights: bool) -> Snapshot | None: ...
def cached_models(cache: Path) -> list[CachedModel]: ...
def fetch(address: str, settings: dict[str, Any]) -> str | bytes: ...
def decode_undeclared(content: bytes) -> tuple[str, str | None] | None: ...
def instruction_set() -> str: ...
def instruction_sets() -> list[str]: ...
def error_table() -> list[dict[str, Any]]: ...

# The queue in which a call completes, and its number there.
_ReplyTo = tuple[CompletionQueue, int]
_Value_co = TypeVar("_Value_co", covariant=True)

@final
class Batch:
    @property
    def ticket(self) -> int: ...
    @property
    def ids(self) -> NDArray[np.int32]: ...
    @property
    def lengths(self) -> NDArray[np.uint32]: ...
    def split(self) -> list[list[int]]: ...

@type_check_only
class _Record:
    """What `record!` in `rust/python/src/results.rs` gives each of its classes."""

    __match_args__: tuple[str, ...]
    def __getnewargs__(self) -> tuple[Any, ...]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class BodyRefusal(_Record):
    def __new__(cls, status: int, kind: str, message: str, field: str | None) -> BodyRefusal: ...
    status: Final[int]
    kind: Final[str]
    message: Final[str]
    field: Final[str | None]

@final
class CachedModel(_Record):
    def __new__(cls, name: str, revision: str, refs: list[str], bytes: int, problem: str | None) -> CachedModel: ...
    name: Final[str]
    revision: Final[str]
    refs: Final[list[str]]
    bytes: Final[int]
    problem: Final[str | None]

@final
class CacheState(_Record):
    def __new__(cls, pages: int, queries: int, bytes: int, hits: int, misses: int) -> CacheState: ...
    pages: Final[int]
    queries: Final[int]
    bytes: Final[int]
    hits: Final[int]
    misses: Final[int]

@final
class Client:
    def __new__(cls, settings: dict[str, Any]) -> Client: ...
    def embed(self, texts: list[str], is_query: bool, options: dict[str, Any]) -> ClientCall[Embeddings]: ...
    def highlights(self, request: Request) -> ClientCall[HighlightColumns]: ...
    def rerank(
        self, query: str, texts: list[str], top_n: int | None, raw_scores: bool, options: dict[str, Any]
    ) -> ClientCall[list[Rank]]: ...
    def prune(
        self, pairs: list[tuple[str, str | list[str]]], threshold: float | None, options: dict[str, Any]
    ) -> ClientCall[list[tuple[list[int], NDArray[np.float32], float | None, float]]]: ...
    def locate(self, page: str, quote: str, options: dict[str, Any]) -> ClientCall[Located]: ...
    def cite(self, request: Request, ids: list[str | None], numbers: list[int] | None) -> ClientCall[str]: ...
    def put_document(
        self, document_id: str, text: str, title: str | None, options: dict[str, Any]
    ) -> ClientCall[str]: ...
    def put_documents(
        self, ids: list[str], texts: list[str], titles: list[str | None] | None, options: dict[str, Any]
    ) -> ClientCall[PutDocuments]: ...
    def get_document(self, document_id: str, options: dict[str, Any]) -> ClientCall[Document]: ...
    def delete_document(self, document_id: str, options: dict[str, Any]) -> ClientCall[None]: ...
    def list_documents(
        self, prefix: str, after: str | None, limit: int | None, options: dict[str, Any]
    ) -> ClientCall[DocumentList]: ...
    def delete_documents(self, prefix: str | None, options: dict[str, Any]) -> ClientCall[int]: ...
    def health(self, options: dict[str, Any]) -> ClientCall[list[tuple[str, str | None]]]: ...
    def close(self) -> None: ...

@final
class ClientCall(Generic[_Value_co]):
    def wait(self) -> _Value_co: ...
    def start(self, reply_to: _ReplyTo) -> PendingCall: ...

@final
class Completion:
    @property
    def number(self) -> int: ...
    @property
    def value(self) -> Any: ...
    @property
    def error(self) -> BaseException | None: ...

@final
class CompletionQueue:
    def __new__(cls, wake: Callable[[], object]) -> CompletionQueue: ...
    def drain(self) -> list[Completion]: ...

@final
class CpuEncoder:
    def __new__(
        cls,
        model: str,
        devices: list[str],
        dtype: str,
        threads: int | None,
        truncate_dim: int | None = None,
        normalizes: bool = True,
        reranker: str | None = None,
        pruner: str | None = None,
    ) -> CpuEncoder: ...

@final
class DeviceState(_Record):
    def __new__(
        cls,
        name: str,
        is_working: bool,
        depth: int,
        batch_tokens: int,
        padded_rows: bool,
        outstanding_tokens: int,
        batches: int,
        tokens: int,
        failures: int,
        out_of_memory: int,
        last_error: str | None,
        graph_batches: int,
        graph_error: str | None,
    ) -> DeviceState: ...
    name: Final[str]
    is_working: Final[bool]
    depth: Final[int]
    batch_tokens: Final[int]
    padded_rows: Final[bool]
    outstanding_tokens: Final[int]
    batches: Final[int]
    tokens: Final[int]
    failures: Final[int]
    out_of_memory: Final[int]
    last_error: Final[str | None]
    graph_batches: Final[int]
    graph_error: Final[str | None]

@final
class Document(_Record):
    def __new__(cls, id: str, text: str, title: str | None, text_hash: str) -> Document: ...
    id: Final[str]
    text: Final[str]
    title: Final[str | None]
    text_hash: Final[str]

@final
class DocumentList(_Record):
    def __new__(cls, documents: list[ListedDocument], total: int, next: str | None) -> DocumentList: ...
    documents: Final[list[ListedDocument]]
    total: Final[int]
    next: Final[str | None]

@final
class Embeddings:
    @property
    def vectors(self) -> NDArray[Any]: ...
    @property
    def truncated(self) -> int: ...

@final
class Engine(EngineHandle):
    def __new__(cls, settings: EngineSettings, model: Path, encoder: object) -> Engine: ...
    def add_request(
        self, request_id: str, request: Request, limit_windows: int | None, limit_tokens: int | None
    ) -> None: ...
    def add_cite(self, request_id: str, request: Request, ids: list[str | None], numbers: list[int] | None) -> None: ...
    def step(self) -> list[FinishedRequest]: ...
    def abort(self, request_ids: list[str]) -> None: ...
    def unfinished(self) -> int: ...

@final
class EngineSettings:
    def __new__(cls, arguments: dict[str, Any]) -> EngineSettings: ...
    @property
    def threads(self) -> int: ...

@disjoint_base
class EngineHandle:
    @property
    def cache(self) -> CacheState: ...
    def clear_cache(self) -> None: ...
    def close(self) -> None: ...
    @property
    def dimension(self) -> int: ...
    @property
    def model_id(self) -> str | None: ...
    @property
    def pruner(self) -> tuple[str, float, str | None] | None: ...
    @property
    def pruner_id(self) -> str | None: ...
    @property
    def reranker_id(self) -> str | None: ...
    @property
    def max_tokens(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def backend(self) -> str: ...
    @property
    def prompts(self) -> tuple[str, str, str]: ...
    @property
    def devices(self) -> list[str]: ...
    @property
    def device_states(self) -> list[DeviceState]: ...
    @property
    def stages(self) -> dict[str, StageTime]: ...

@final
class FileKind:
    @property
    def name(self) -> str: ...
    @property
    def library(self) -> str | None: ...
    @property
    def parsed_format(self) -> Literal["text", "html"] | None: ...
    @staticmethod
    def of(content: bytes) -> FileKind: ...
    @staticmethod
    def of_name(name: str) -> FileKind | None: ...
    def refusal(self, file: str) -> str | None: ...
    def fail(self, name: str, error: str, detail: str, has_password: bool, limits: Limits) -> NoReturn: ...

@final
class FinishedRequest:
    @property
    def request_id(self) -> str: ...
    @property
    def columns(self) -> HighlightColumns | None: ...
    @property
    def cited(self) -> str | None: ...
    @property
    def error(self) -> BaseException | None: ...
    @property
    def progress(self) -> Progress: ...

@final
class HighlightColumns:
    def __new__(cls, json: str) -> HighlightColumns: ...
    def columns(self) -> dict[str, Any]: ...
    def warning(self, options: dict[str, Any]) -> str | None: ...
    def json(self, texts: list[str]) -> str: ...
    def fields(self, rows: list[int], texts: list[str]) -> list[dict[str, Any]]: ...
    def table(self, texts: list[str]) -> Table: ...

@final
class Highlighter(EngineHandle):
    def __new__(cls, settings: EngineSettings, model: Path, encoder: object) -> Highlighter: ...
    def highlights(self, request: Request, report: Callable[[int, int], None] | None) -> HighlightColumns: ...
    def cite(self, request: Request, ids: list[str | None], numbers: list[int] | None) -> str: ...
    def start_cite(
        self, request: Request, ids: list[str | None], numbers: list[int] | None, reply_to: _ReplyTo
    ) -> PendingCall: ...
    def highlights_arrow(self, table: ArrowTable, names: ColumnNames, options: dict[str, Any]) -> Table: ...
    def embed(self, texts: list[str], is_query: bool, timeout: float | None, priority: int) -> Embeddings: ...
    def score_passages(
        self, query: str, texts: list[str], raw_scores: bool, timeout: float | None, priority: int
    ) -> NDArray[np.float32]: ...
    def prune(
        self, texts: list[tuple[str, str | list[str]]], threshold: float | None, timeout: float | None, priority: int
    ) -> list[tuple[list[int], NDArray[np.float32], float | None, float]]: ...
    def parse_pieces(
        self, text: str, highlight_length: int, step_size: int, unit: str, allow_gaps: bool
    ) -> NDArray[np.int64]: ...
    def start_highlights(self, request: Request, reply_to: _ReplyTo) -> PendingCall: ...
    def start_embed(
        self, texts: list[str], is_query: bool, timeout: float | None, priority: int, reply_to: _ReplyTo
    ) -> PendingCall: ...
    def start_score_passages(
        self,
        query: str,
        texts: list[str],
        raw_scores: bool,
        timeout: float | None,
        priority: int,
        reply_to: _ReplyTo,
    ) -> PendingCall: ...
    def start_prune(
        self,
        texts: list[tuple[str, str | list[str]]],
        threshold: float | None,
        timeout: float | None,
        priority: int,
        reply_to: _ReplyTo,
    ) -> PendingCall: ...
    def start_parse_pieces(
        self, text: str, highlight_length: int, step_size: int, unit: str, allow_gaps: bool, reply_to: _ReplyTo
    ) -> PendingCall: ...
    def bind(self, settings: dict[str, Any]) -> Server: ...

@final
class HighlightsBody:
    @staticmethod
    def read(
        body: bytes, max_documents: int, max_document_bytes: int, max_queries: int, max_query_bytes: int
    ) -> HighlightsBody | BodyRefusal: ...
    @property
    def priority(self) -> int: ...
    @property
    def text_bytes(self) -> int: ...

@final
class Hosted(EngineHandle):
    def __new__(cls, settings: EngineSettings, model: Path, host: object) -> Hosted: ...
    def start(
        self, request: Request, limit_windows: int | None, limit_tokens: int | None, depth: int
    ) -> HostedCall: ...
    def start_cite(
        self, request: Request, ids: list[str | None], numbers: list[int] | None, depth: int
    ) -> HostedCall: ...
    def start_body(self, body: HighlightsBody, queued: float, limit_windows: int | None, depth: int) -> HostedCall: ...

@final
class HostedCall:
    def advance(
        self, vectors: list[tuple[int, NDArray[np.float32]]]
    ) -> tuple[list[Batch], HighlightColumns | str | bytes | None]: ...
    def stop(self) -> None: ...

@final
class NeededFiles(_Record):
    def __new__(cls, files: list[str], missing: list[str]) -> NeededFiles: ...
    files: Final[list[str]]
    missing: Final[list[str]]

@final
class PendingCall:
    def cancel(self) -> None: ...

@final
class Progress(_Record):
    def __new__(cls, windows: int, rows: int, tokens: int) -> Progress: ...
    windows: Final[int]
    rows: Final[int]
    tokens: Final[int]

@final
class Difference(_Record):
    def __new__(cls, kind: str, quote: str, page: str, start: int, end: int) -> Difference: ...
    kind: Final[str]
    quote: Final[str]
    page: Final[str]
    start: Final[int]
    end: Final[int]

@final
class Place(_Record):
    def __new__(
        cls,
        text: str,
        start: int,
        end: int,
        distance: int,
        similarity: float,
        differences: list[Difference],
        parts: list[tuple[int, int]],
    ) -> Place: ...
    text: Final[str]
    start: Final[int]
    end: Final[int]
    distance: Final[int]
    similarity: Final[float]
    differences: Final[list[Difference]]
    parts: Final[list[tuple[int, int]]]

@final
class Located:
    def __new__(cls, status: str, places: list[Place], nearest: Place | None) -> Located: ...
    def __bool__(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...
    status: Final[str]
    places: Final[list[Place]]
    nearest: Final[Place | None]

@final
class ListedDocument(_Record):
    def __new__(
        cls, id: str, title: str | None, text_hash: str, format: str | None, bytes: int, stored_at: int | None
    ) -> ListedDocument: ...
    id: Final[str]
    title: Final[str | None]
    text_hash: Final[str]
    format: Final[str | None]
    bytes: Final[int]
    stored_at: Final[int | None]

@final
class PutDocuments(_Record):
    def __new__(cls, created: int, replaced: int) -> PutDocuments: ...
    created: Final[int]
    replaced: Final[int]

@final
class Rank(_Record):
    def __new__(cls, index: int, score: float) -> Rank: ...
    index: Final[int]
    score: Final[float]

@final
class ShownRun(_Record):
    def __new__(cls, text: str, start: int, end: int, is_prose: bool) -> ShownRun: ...
    text: Final[str]
    start: Final[int]
    end: Final[int]
    is_prose: Final[bool]

@final
class Snapshot(_Record):
    def __new__(cls, commit: str, missing: list[str]) -> Snapshot: ...
    commit: Final[str]
    missing: Final[list[str]]

@final
class Server:
    def run(self) -> bool: ...
    @property
    def address(self) -> str: ...

@final
class StageTime(_Record):
    def __new__(cls, seconds: float, count: int) -> StageTime: ...
    seconds: Final[float]
    count: Final[int]

@final
class Table:
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> CapsuleType: ...
    def __arrow_c_schema__(self) -> CapsuleType: ...
    def __len__(self) -> int: ...
    @property
    def errors(self) -> int: ...
    @property
    def work(self) -> Work: ...

@final
class Work(_Record):
    def __new__(
        cls,
        windows: int,
        windows_scored: int,
        encoded: int,
        tokens: int,
        truncated: int,
        cutting: float,
        tokenizing: float,
        waiting: float,
        ranking: float,
    ) -> Work: ...
    windows: Final[int]
    windows_scored: Final[int]
    encoded: Final[int]
    tokens: Final[int]
    truncated: Final[int]
    cutting: Final[float]
    tokenizing: Final[float]
    waiting: Final[float]
    ranking: Final[float]
