"""The `Client`: the calls of a `Highlighter`, answered by a server in another process."""

from __future__ import annotations

import atexit
import inspect
import json
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, Unpack, cast, overload

import numpy as np
from numpy.typing import NDArray

from pullquote import _native
from pullquote.closing import Closing
from pullquote.errors import InvalidArgumentError, InvalidTypeError
from pullquote.highlighter import Highlighter
from pullquote.options import (
    HIGHLIGHT_LENGTH,
    SERVER_TIMEOUT,
    STEP_SIZE,
    UNIT,
    Options,
    TruncationWarning,
    Unit,
    checked,
    checked_texts,
    listed,
)
from pullquote.result import Highlights

__all__ = ["Client", "ClientSettings", "Document", "EmbedOptions", "EmbeddingDtype", "Rank", "Stored"]

MEBIBYTE = 1024 * 1024

_Call = TypeVar("_Call", bound=Callable[..., Any])


EmbeddingDtype = Literal["float32", "float16", "bfloat16", "int8", "binary"]

# What the bytes of each stand for in numpy, which has no bfloat16: of that it is the bits.
DTYPES = {"float32": "<f4", "float16": "<f2", "bfloat16": "<u2", "int8": "i1", "binary": "u1"}


class EmbedOptions(TypedDict, total=False):
    """The options of `Highlighter.embed`, as keywords."""

    role: Literal["query", "passage"]
    timeout: float | None
    priority: int


class ClientSettings(TypedDict, total=False):
    """The settings of a `Client`, as keywords; it says what they mean."""

    api_key: str | None
    headers: Mapping[str, str] | None
    model: str | None
    timeout: float
    connect_timeout: float
    max_in_flight: int
    rows_per_request: int
    bytes_per_request: int
    max_answer_bytes: int
    retries: int
    retry_budget: float
    hedge_after: float | None
    proxy: str | None
    ca_certs: str | Path | None
    wire_dtype: Literal["float32", "float16", "bfloat16"]


# The settings' defaults, here and nowhere else.
DEFAULTS: ClientSettings = {
    "api_key": None,
    "headers": None,
    "model": None,
    "timeout": SERVER_TIMEOUT,
    "connect_timeout": 10.0,
    "max_in_flight": 16,
    "rows_per_request": 256,
    "bytes_per_request": MEBIBYTE,
    "max_answer_bytes": 256 * MEBIBYTE,
    "retries": 3,
    "retry_budget": 0.2,
    "hedge_after": None,
    "proxy": None,
    "ca_certs": None,
    "wire_dtype": "float32",
}


@dataclass(frozen=True, slots=True)
class Rank:
    """How near a text is to a query: `index` says which of the texts, `score` is the cosine of their vectors."""

    index: int
    score: float
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """A document that a server has stored; `text_hash` is the SHA-256 of its text, as ``sha256:…``."""

    id: str
    text: str
    title: str | None
    text_hash: str


@dataclass(frozen=True, slots=True)
class Stored:
    """In place of a text in `Client.highlights`: the document that the server has stored under this id."""

    id: str


def signed_as(example: Callable[..., Any]) -> Callable[[_Call], _Call]:
    """Give a method that takes ``**options`` the signature of another one, whose names and defaults hold for it too.

    What the method names itself stays as it says, and where the other one has no such parameter it stands at the end.
    """

    def sign(method: _Call) -> _Call:
        signature = inspect.signature(example)
        own = {name: each for name, each in inspect.signature(method).parameters.items() if name != "options"}
        parameters = [*{**signature.parameters, **own}.values()]
        method.__dict__["__signature__"] = signature.replace(parameters=parameters)
        return method

    return sign


def _defaults(example: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(example).parameters.values()
    return {option.name: option.default for option in parameters if option.kind is option.KEYWORD_ONLY}


HIGHLIGHTS_DEFAULTS = _defaults(Highlighter.highlights)
EMBED_DEFAULTS = _defaults(Highlighter.embed)


def whole(options: Mapping[str, Any], defaults: Mapping[str, Any], call: str) -> dict[str, Any]:
    """All options of a call, with the defaults of those that were not named."""
    unknown = options.keys() - defaults.keys()
    if unknown:
        message = f"{call}() got an unexpected keyword argument {min(unknown)!r}"
        raise TypeError(message)
    return {**defaults, **options}


class Asked:
    """The arguments of a call of `highlights`, checked as `Highlighter.highlights` does."""

    def __init__(
        self,
        query: str | Sequence[str],
        texts: Iterable[str | Stored],
        of_server: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        """Check what can be checked without a server; `of_server` is what only one can be asked for."""
        pages = listed(texts, "texts")
        is_stored = [isinstance(page, Stored) for page in pages]
        named = [page.id if isinstance(page, Stored) else page for page in pages]
        given = cast("Options", whole(options, HIGHLIGHTS_DEFAULTS, "highlights"))
        self.queries, self.pages, self.titles, self.options = checked(query, named, given)
        self.options |= {**of_server, "stored": is_stored}
        # What is not here is read on the server, or has its passages alone.
        self.sources = ["" if stored else page for stored, page in zip(is_stored, named, strict=True)]

    def found(self, columns: dict[str, Any]) -> Highlights:
        """The result out of an answer's columns."""
        for name in {"vectors", "query_vectors"} & columns.keys():
            columns[name] = columns[name].view(DTYPES[self.options["embedding_dtype"]])
        return Highlights(self.sources, columns)


class ToEmbed:
    """The arguments of a call of `embed`, checked as `Highlighter.embed` does."""

    def __init__(self, texts: Iterable[str], embedding_dtype: str, options: Mapping[str, Any]) -> None:
        """Check what can be checked without a server."""
        self.options = whole(options, EMBED_DEFAULTS, "embed")
        role = self.options.pop("role")
        self.options["embedding_dtype"] = embedding_dtype
        self.texts = checked_texts(texts, role)
        self.is_query = role == "query"

    def vectors(self, answer: tuple[NDArray[Any], int, int], stacklevel: int) -> NDArray[Any]:
        """The array of an answer; warns of texts that were cut."""
        vectors, truncated, _ = answer
        if truncated:
            message = f"{truncated} of {len(self.texts)} texts were cut at the limit of the server's model"
            warnings.warn(message, TruncationWarning, stacklevel=stacklevel + 1)
        embedding_dtype = self.options["embedding_dtype"]
        return vectors if embedding_dtype == "float32" else vectors.view(DTYPES[embedding_dtype])


def to_rank(texts: Iterable[str], top_n: int | None) -> list[str]:
    """The texts of a call of `rerank`, checked."""
    given = checked_texts(texts, "passage")
    if top_n is not None and (not isinstance(top_n, int) or top_n < 1):
        message = f"top_n must be at least 1, or None for all, not {top_n!r}"
        raise InvalidArgumentError(message)
    return given


_open: weakref.WeakSet[Connected] = weakref.WeakSet()


class Connected:
    """What `Client` and `AsyncClient` are made of: servers, and the settings of asking them."""

    def __init__(self, url: str | Sequence[str], settings: Mapping[str, Any]) -> None:
        """Check the settings; no connection is made, and no thread started, before the first call."""
        urls = [url] if isinstance(url, str) else list(url)
        if not all(isinstance(each, str) for each in urls):
            message = f"url must be a string or a list of strings, not {url!r}"
            raise InvalidTypeError(message)
        told = whole(settings, DEFAULTS, "Client")
        _check(told)
        ca_certs = told["ca_certs"]
        told["ca_certs"] = None if ca_certs is None else _read_certificates(ca_certs)
        told["headers"] = dict(told["headers"] or {})
        self._native = _native.Client(json.dumps({"urls": urls, **told}))
        self._names = ", ".join(urls)
        _open.add(self)

    def parse_pieces(
        self,
        text: str,
        highlight_length: int = HIGHLIGHT_LENGTH,
        step_size: int = STEP_SIZE,
        unit: Unit = UNIT,
        *,
        allow_gaps: bool = False,
    ) -> NDArray[np.int64]:
        """Cut a text into sliding windows, as `pullquote.parse_pieces` does, in this process; no server is asked.

        ``unit="token"`` needs the model's tokenizer, which is not here, and raises `InvalidArgumentError`.
        """
        return _native.parse_pieces(text, highlight_length, step_size, unit, allow_gaps)

    def close_now(self) -> None:
        """Close all connections; calls in flight, and later ones, raise `ClosedError`. May be called twice."""
        self._native.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._names}>"


class Client(Connected, Closing):
    """The calls of a `Highlighter`, answered by ``pullquote serve`` in another process: only the line that makes it differs.

    - `url`: of the server, like ``"http://127.0.0.1:8080"``, ``"https://…"`` or ``"unix:/run/pullquote.sock"``; or of several that
      serve the same model: each request goes to the one that has the least to do, and one that does not answer is left alone for
      a while. For vectors every server will do that speaks as Text Embeddings Inference (``/embed``) or OpenAI do; the address of
      the latter may end in ``/v1``.
    - `api_key`: sent as ``authorization: Bearer …``. `headers`: sent with every request.
    - `model`: its name, for servers of OpenAI's kind that want one.
    - `timeout`: seconds that one HTTP request may take, which the server is told (``Request-Timeout-Ms``); a call's own `timeout`
      is for all of its requests. `connect_timeout`: seconds until there is a connection.
    - `max_in_flight`: requests at the same time, of all callers. `rows_per_request`, `bytes_per_request`: texts, and bytes of
      UTF-8, of a request for vectors; more texts are split over several.
    - `max_answer_bytes`: of an answer of JSON, at most. Raw vectors are bounded by their shape.
    - `retries`: how often a request is tried again that met 429, 502, 503, 504, a connection that broke, or took longer than
      `timeout`: after a random time that grows, and not before the server's ``Retry-After``. `retry_budget`: the share of all
      requests that may be retries, beyond ten in ten seconds.
    - `hedge_after`: seconds after which a request is sent once more, to another server where there are several; the first answer
      counts.
    - `proxy`: like ``"http://host:3128"``; the environment's is not used. `ca_certs`: a PEM file of the only authorities to trust,
      instead of the system's.
    - `wire_dtype`: how vectors travel that come back as float32.

    Thread-safe; Python's lock is free while it waits, and Ctrl-C ends a call within 50 ms. Use it as a context manager, or
    `close` it. After a fork, calls in the child raise `ForkedError`: make a new one there.

    Raises `InvalidArgumentError` for settings that cannot be. Calls raise what a `Highlighter` does, and `UnavailableError` where
    no server answers, `UnauthorizedError`, `OverloadedError`, and `BadAnswerError` where an answer is not what it claims to be:
    nothing of such an answer is returned.
    """

    def __init__(self, url: str | Sequence[str], **settings: Unpack[ClientSettings]) -> None:
        """Check the settings; no connection is made before the first call."""
        super().__init__(url, settings)

    @signed_as(Highlighter.highlights)
    def highlights(
        self,
        query: str | Sequence[str],
        texts: Iterable[str | Stored],
        *,
        return_texts: bool = False,
        return_vectors: bool = False,
        embedding_dtype: EmbeddingDtype = "float32",
        **options: Unpack[Options],
    ) -> Highlights:
        """Find the passages of pages that answer a query: see `Highlighter.highlights`, of which this is the same call.

        All pages go in one request, because scores are comparable within a call only. Three things only a server can do:

        - A page may be `Stored`: a document that the server has under that id; `NotFoundError` says that it has not. Its
          passages come without it: in `Highlights.texts` it is ``""``, unless `return_texts` asks for it.
        - `return_vectors`: the vectors, of length one, of the passages' texts (``Highlights.vectors``, a row for each) and of the
          queries (``Highlights.query_vectors``), in the types of `embed`.

        >>> found = client.highlights("How is bread made?", [Stored("bread"), page], return_vectors=True)  # doctest: +SKIP
        >>> found.vectors @ found.query_vectors[0]  # doctest: +SKIP
        """
        of_server = {
            "return_texts": return_texts,
            "return_vectors": return_vectors,
            "embedding_dtype": embedding_dtype,
        }
        asked = Asked(query, texts, of_server, options)
        return asked.found(self._native.highlights(asked.queries, asked.pages, asked.titles, asked.options, None))

    @overload
    def embed(
        self,
        texts: Iterable[str],
        *,
        embedding_dtype: Literal["float32"] = "float32",
        **options: Unpack[EmbedOptions],
    ) -> NDArray[np.float32]: ...
    @overload
    def embed(
        self, texts: Iterable[str], *, embedding_dtype: EmbeddingDtype, **options: Unpack[EmbedOptions]
    ) -> NDArray[Any]: ...
    @signed_as(Highlighter.embed)
    def embed(
        self,
        texts: Iterable[str],
        *,
        embedding_dtype: EmbeddingDtype = "float32",
        **options: Unpack[EmbedOptions],
    ) -> NDArray[Any]:
        """Turn texts into vectors: see `Highlighter.embed`, of which this is the same call.

        Many texts are split over several requests; what comes is written where it belongs in the one array that is returned.

        With `embedding_dtype` vectors travel and are returned as another type, which fewer bytes hold; a server that does not
        know it raises `BadAnswerError`. The array is

        - ``"float32"``: float32 ``[n, dimension]``
        - ``"float16"``: float16 ``[n, dimension]``
        - ``"bfloat16"``: uint16 ``[n, dimension]``, the bits: numpy has no such type (torch: ``tensor.view(torch.bfloat16)``)
        - ``"int8"``: int8 ``[n, dimension]``, 127 times the value, rounded, from -127 to 127
        - ``"binary"``: uint8 ``[n, ceil(dimension / 8)]``, a bit for each value, 1 where it is above 0, as in `numpy.packbits`
        """
        asked = ToEmbed(texts, embedding_dtype, options)
        return asked.vectors(self._native.embed(asked.texts, asked.is_query, asked.options, None), 2)

    def rerank(
        self, query: str, texts: Iterable[str], *, top_n: int | None = None, timeout: float | None = None
    ) -> list[Rank]:
        """Sort texts by how near they are to a query, the nearest first; at most `top_n` of them."""
        listed = to_rank(texts, top_n)
        ranks = self._native.rerank(query, listed, top_n, {"timeout": timeout}, None)
        return [Rank(index, score, listed[index]) for index, score in ranks]

    def put_document(
        self,
        document_id: str,
        text: str,
        *,
        title: str | None = None,
        timeout: float | None = None,
    ) -> str:
        """Store a document under an id, in place of what was there; returns what its text is known by, ``sha256:…``.

        Raises `StoreFullError` where the server has no room.
        """
        return cast(str, self._native.put_document(document_id, text, title, {"timeout": timeout}, None))

    def get_document(self, document_id: str, *, timeout: float | None = None) -> Document:
        """Read a stored document. Raises `NotFoundError` where there is none."""
        title, text, text_hash = self._native.get_document(document_id, {"timeout": timeout}, None)
        return Document(document_id, text, title, text_hash)

    def delete_document(self, document_id: str, *, timeout: float | None = None) -> None:
        """Delete a stored document. Raises `NotFoundError` where there is none."""
        self._native.delete_document(document_id, {"timeout": timeout}, None)

    def health(self, *, timeout: float | None = None) -> dict[str, str | None]:
        """Ask each server whether texts are being encoded: for each address `None`, or why they are not. Each is asked once."""
        return dict(self._native.health({"timeout": timeout}, None))

    def close(self) -> None:
        """Close all connections; calls in flight, and later ones, raise `ClosedError`. May be called twice."""
        self.close_now()


def _check(settings: Mapping[str, Any]) -> None:
    """Say which setting has the wrong type, without its value: it may be a key."""
    kinds: dict[str, tuple[type, ...]] = {
        "api_key": (str, type(None)),
        "headers": (Mapping, type(None)),
        "model": (str, type(None)),
        "hedge_after": (int, float, type(None)),
        "proxy": (str, type(None)),
        "ca_certs": (str, Path, type(None)),
        "wire_dtype": (str,),
    }
    defaults = cast("Mapping[str, object]", DEFAULTS)
    for name, value in settings.items():
        default = defaults[name]
        allowed = kinds.get(name, (int, float) if isinstance(default, float) else (int,))
        if not isinstance(value, allowed) or isinstance(value, bool):
            message = f"{name} must be {' or '.join(kind.__name__ for kind in allowed)}, not {type(value).__name__}"
            raise InvalidTypeError(message)
        if isinstance(value, int) and value < 0:
            message = f"{name} must not be negative"
            raise InvalidArgumentError(message)
    headers: Mapping[object, object] = settings["headers"] or {}
    if not all(isinstance(name, str) and isinstance(value, str) for name, value in headers.items()):
        message = "headers must have strings for names and values"
        raise InvalidTypeError(message)


def _read_certificates(path: str | Path) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        message = f"ca_certs cannot be read: {error}"
        raise InvalidArgumentError(message) from None


@atexit.register
def _close_all() -> None:
    """End the clients' threads while the interpreter still stands."""
    for client in list(_open):
        client.close_now()
