"""The `Client`: the calls of a `Highlighter` on a server in another process."""

from __future__ import annotations

import atexit
import inspect
import os
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self, TypedDict, Unpack, cast, overload

import numpy as np
from numpy.typing import NDArray

from pullquote import _native
from pullquote._engine.handle import NotCopied
from pullquote._engine.highlighter import Highlighter
from pullquote._engine.page_files import read_files as read_files_of
from pullquote._engine.page_files import read_texts
from pullquote._engine.stream import checked_stream, stream
from pullquote._native import Document, DocumentList, ListedDocument, Located, PutDocuments
from pullquote._request.citation import CiteOptions, check_cite
from pullquote._request.options import (
    Options,
    Page,
    Pages,
    Unit,
    check_request,
    check_rerank,
    check_texts,
    complete,
    read_pages,
    to_list,
)
from pullquote._request.pruning import Context, ProcessOptions, check_process
from pullquote._request.settings import ClientSettings
from pullquote._request.signatures import checked, signed_as
from pullquote._results.cited import Cited
from pullquote._results.highlights import Highlights
from pullquote._results.pruned import process_result
from pullquote._results.ranked import RerankResult
from pullquote._text_files import unreadable
from pullquote._warnings import warn
from pullquote.errors import InvalidArgumentError, InvalidTypeError, TruncationWarning, UsageWarning

__all__ = [
    "Client",
    "ClientSettings",
    "Document",
    "DocumentList",
    "EmbedOptions",
    "EmbeddingDtype",
    "ListedDocument",
    "PutDocuments",
    "RerankResult",
    "StoredDocument",
]

# Paths, bytes, and open files; or a mapping from names to these.
File = str | os.PathLike[str] | bytes | BinaryIO
Files = Iterable[File] | Mapping[str, File]

EmbeddingDtype = Literal["float32", "float16", "bfloat16", "int8", "binary"]

LONGEST_WARNING = 1000

# NumPy's dtype of each. NumPy has no bfloat16, so its bytes are uint16.
NUMPY_DTYPES = {"float32": "<f4", "float16": "<f2", "bfloat16": "<u2", "int8": "i1", "binary": "u1"}


class EmbedOptions(TypedDict, total=False):
    """The options of `Highlighter.embed` as keywords."""

    role: Literal["query", "passage"]
    timeout: float | None
    priority: int


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """Names a stored document, in place of a text in `Client.highlights`."""

    id: str


class HighlightsCall:
    """A checked call of `Client.highlights`."""

    def __init__(
        self,
        query: str | Sequence[str],
        texts: Pages | Iterable[Page | StoredDocument],
        server_options: Mapping[str, Any],
        options: Options,
    ) -> None:
        """Check what needs no server; `server_options` are those that `Highlighter.highlights` does not have.

        Pages that are files are texts only after `_engine.page_files` has read those of `request`.
        """
        if server_options["files"] is not None:
            self._check_files(query, texts, server_options, options)
            return
        if server_options["password"] is not None:
            message = "password opens files, and this call has none; pass files=[...]"
            raise InvalidArgumentError(message)
        if isinstance(texts, (str, Mapping)):
            self.request = check_request(query, texts, options)
            is_stored = [False] * len(self.request.texts)
        else:
            pages = to_list(cast("Iterable[Page | StoredDocument]", texts), "texts")
            is_stored = [isinstance(page, StoredDocument) for page in pages]
            named = [page.id if isinstance(page, StoredDocument) else page for page in pages]
            self.request = check_request(query, named, options, are_names=any(is_stored))
            if self.request.ids is None and any(is_stored):
                ids = [page.id if isinstance(page, StoredDocument) else None for page in pages]
                self.request = replace(self.request, ids=ids)
        self.request.options.update(server_options, stored=is_stored)

    def _check_files(
        self, query: str | Sequence[str], texts: Any, server_options: Mapping[str, Any], options: Options
    ) -> None:
        names = [name for name, _ in server_options["files"]]
        if not isinstance(texts, tuple) or texts or options.get("titles") is not None:
            message = "texts and titles cannot be combined with files, which are the pages; make one call for each"
            raise InvalidArgumentError(message)
        if not names:
            message = "files is empty; pass at least one path, or the bytes of a file"
            raise InvalidArgumentError(message)
        self.request = check_request(query, [name or "" for name in names], options, are_names=True)
        if self.request.ids is None and any(names):
            self.request = replace(self.request, ids=names)
        self.request.options.update(server_options)

    def result(self, columns: _native.HighlightColumns) -> Highlights:
        """Make the result from the answer's columns."""
        # Stored pages and files are read on the server.
        texts = self.request.texts
        is_stored = self.request.options.get("stored", [True] * len(texts))
        result = Highlights(
            self.request, columns, ["" if there else text for there, text in zip(is_stored, texts, strict=True)]
        )
        if result.errors:
            message = (
                f"{len(result.errors)} of {len(texts)} pages could not be read: {'; '.join(result.errors.values())}"
            )
            warn(message[:LONGEST_WARNING], UsageWarning)
        if result.vectors is not None and result.query_vectors is not None:
            dtype = NUMPY_DTYPES[self.request.options["embedding_dtype"]]
            result.vectors, result.query_vectors = result.vectors.view(dtype), result.query_vectors.view(dtype)
        return result


def read_files(files: Files) -> list[tuple[str | None, bytes]]:
    """The name of each file, if it has one, and its bytes. Raises `NotFoundError`, an `OSError` too, if it cannot be read."""
    if isinstance(files, (str, bytes, os.PathLike)) or not isinstance(files, Iterable):
        kind = type(files).__name__
        message = f"files must be a list of paths or of bytes, not one {kind}; pass [file]"
        raise InvalidTypeError(message)
    if isinstance(files, Mapping):
        return [(str(name), _read_file(repr(name), file)[1]) for name, file in files.items()]
    return [_read_file(number, file) for number, file in enumerate(files)]


def _read_file(place: object, file: object) -> tuple[str | None, bytes]:
    if isinstance(file, bytes):
        return None, file
    if isinstance(file, (str, os.PathLike)):
        try:
            return Path(file).name, Path(file).read_bytes()
        except OSError as error:
            raise unreadable(str(file), error) from None
    data = file.read() if hasattr(file, "read") else None
    if not isinstance(data, bytes):
        message = f"files[{place}] must be a path, bytes, or a file opened for reading bytes, not {type(file).__name__}"
        raise InvalidTypeError(message)
    name = getattr(file, "name", None)
    return (Path(name).name if isinstance(name, str) else None), data


class EmbedCall:
    """A checked call of `Client.embed`."""

    def __init__(self, texts: Iterable[str], embedding_dtype: str, options: EmbedOptions) -> None:
        """Check what needs no server."""
        self.options = complete(options, EMBED_DEFAULTS, "embed")
        role = self.options.pop("role")
        self.options["embedding_dtype"] = embedding_dtype
        self.texts = check_texts(texts, role)
        self.is_query = role == "query"

    def result(self, embeddings: _native.Embeddings) -> NDArray[Any]:
        """The answer's array; warns the caller of `embed` of texts that were cut."""
        if embeddings.truncated:
            message = f"{embeddings.truncated} of {len(self.texts)} texts were cut at the limit of the server's model"
            warn(message, TruncationWarning)
        dtype = self.options["embedding_dtype"]
        return embeddings.vectors if dtype == "float32" else embeddings.vectors.view(NUMPY_DTYPES[dtype])


EMBED_DEFAULTS = {
    option.name: option.default
    for option in inspect.signature(Highlighter.embed).parameters.values()
    if option.kind is option.KEYWORD_ONLY
}


def check_documents(
    texts: Pages, ids: Iterable[str] | None, titles: Iterable[str | None] | None
) -> tuple[list[str], list[str], list[str | None] | None]:
    """The checked ids, texts and titles of a call of `put_documents`."""
    pages, names = read_texts(*read_pages(texts, ids))
    if names is None:
        message = "a document needs an id; pass a mapping from ids to texts, pairs (id, text), or ids"
        raise InvalidArgumentError(message)
    listed = None if titles is None else to_list(titles, "titles")
    if listed is not None and len(listed) != len(pages):
        message = f"titles: {len(listed)}, but texts: {len(pages)}; pass one for each text, None where it has none"
        raise InvalidArgumentError(message)
    return names, pages, listed


_open: weakref.WeakSet[BaseClient] = weakref.WeakSet()


class BaseClient(NotCopied):
    """Shared by `Client` and `AsyncClient`: the settings, and cutting."""

    @checked
    def __init__(self, url: str | Sequence[str], **settings: Unpack[ClientSettings]) -> None:
        """Check the settings; the first call starts threads and connects."""
        urls: list[str] = [url] if isinstance(url, str) else list(url) if isinstance(url, Iterable) else []
        if not isinstance(url, Iterable) or not all(isinstance(each, str) for each in urls):
            message = f"url must be a string or a list of strings, not {url!r}"
            raise InvalidTypeError(message)
        given: dict[str, Any] = {"url": urls, **settings}
        if isinstance(headers := given.get("headers"), Mapping):
            given["headers"] = dict(headers)
        if (ca_certs := given.get("ca_certs")) is not None:
            given["ca_certs"] = _read_certificates(ca_certs)
        self._native = _native.Client(given)
        self._names = ", ".join(urls)
        _open.add(self)

    def parse_pieces(
        self,
        text: str,
        highlight_length: int = 3,
        step_size: int = 1,
        unit: Unit = "sentence",
        *,
        allow_gaps: bool = False,
    ) -> NDArray[np.int64]:
        """Cut a text into sliding windows, as `pullquote.parse_pieces` does; needs no server.

        ``unit="token"`` needs the model's tokenizer, which the client does not have, and raises `InvalidArgumentError`.
        """
        return _native.parse_pieces(text, highlight_length, step_size, unit, allow_gaps)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._names}>"


class Client(BaseClient):
    """The calls of a `Highlighter`, done by ``pullquote serve`` in another process. Only the constructor differs.

    Settings:

    - `url`: address of `pullquote serve`, such as `http://127.0.0.1:8080` or `unix:/run/pullquote.sock`; or a list of servers
      with the same model. Each request goes to the least busy server, and servers that fail are skipped for a while. `embed`
      also works with servers that have Text Embeddings Inference's `/embed` or OpenAI's API, whose URL may end in `/v1`.
    - `api_key`: the server's key, sent as `Authorization: Bearer`.
    - `ca_certs`: PEM file with the only trusted certificate authorities. `None` is the system's.
    - `headers`: sent with every request.
    - `model`: the model's name, which OpenAI's API requires.
    - `timeout`: seconds for one HTTP request. The server reads it too, as `Request-Timeout-Ms`. A call's own `timeout` is for
      all of its requests.
    - `connect_timeout`: seconds for connecting.
    - `max_in_flight`: maximum concurrent requests of all callers.
    - `rows_per_request`: maximum texts of one request for vectors; more texts are split over several requests.
    - `bytes_per_request`: maximum bytes of UTF-8 of one request for vectors.
    - `max_answer_bytes`: maximum bytes of a JSON answer. The shape of vectors bounds binary answers.
    - `retries`: maximum retries of a request after 408, 429, 502, 503, 504, a broken connection, or its `timeout`. Retries wait
      a random, growing time, and at least the server's `Retry-After`.
    - `retry_budget`: maximum share of retries among all requests, beyond ten in ten seconds.
    - `proxy`: proxy, such as `http://host:3128`; environment variables are ignored.
    - `wire_dtype`: type in which the server sends vectors that are returned as float32: ``"float32"``, ``"float16"`` or
      ``"bfloat16"``.

    Thread-safe. Calls release Python's lock, and Ctrl-C ends a call within 50 ms. Use it as a context manager, or call `close`.
    After a fork, calls in the child raise `ForkedError`: make a new client there.

    Raises `InvalidArgumentError` and `InvalidTypeError` for bad settings. Calls raise the errors of a `Highlighter`, and
    `UnavailableError` if no server answers, `UnauthorizedError`, `OverloadedError`, and `BadAnswerError` if an answer breaks the
    protocol; no part of such an answer is used.
    """

    @checked
    @signed_as(Highlighter.highlights)
    def highlights(
        self,
        query: str | Sequence[str],
        texts: Pages | Iterable[Page | StoredDocument] = (),
        *,
        files: Files | None = None,
        password: str | None = None,
        return_texts: bool = False,
        return_vectors: bool = False,
        embedding_dtype: EmbeddingDtype = "float32",
        **options: Unpack[Options],
    ) -> Highlights:
        """Find the passages of pages that answer a query: see `Highlighter.highlights`.

        All pages go in one request, because they share budgets, and the scale of their relevance. Four features need a server:

        - A page may be a `StoredDocument`. If the server has none of that id, ``Highlights.errors`` says so, with a `UsageWarning`;
          `NotFoundError` if it has none of the pages. Its text in `Highlights.texts` is
          ``""``, unless `return_texts` is true.
        - `files` in place of `texts`: paths, bytes or open files, or a mapping from names to these, which the server reads.
          Their names are the ids without `ids`. A highlight of a PDF has its `page_number` and `rectangles`. `password` opens
          encrypted PDFs.
          `InvalidArgumentError` if the server refuses a file, `LimitExceededError` and `DeadlineExceededError` beyond its limits,
          and `NotFoundError`, an `OSError` too, for a path that cannot be read.
        - `return_vectors`: also return normalized vectors of the passages (``Highlights.vectors``, one row for each) and of the
          queries (``Highlights.query_vectors``), in `embedding_dtype` (see `embed`).

        >>> found = client.highlights("How is bread made?", [StoredDocument("bread")], return_vectors=True)  # doctest: +SKIP
        >>> found.vectors @ found.query_vectors[0]  # doctest: +SKIP
        >>> client.highlights("What was concluded?", files=["report.pdf"])[0][0].page_number  # doctest: +SKIP
        """
        server_options = {
            "files": None if files is None else read_files(files),
            "password": password,
            "return_texts": return_texts,
            "return_vectors": return_vectors,
            "embedding_dtype": embedding_dtype,
        }
        call = HighlightsCall(query, texts, server_options, options)
        call.request = read_files_of(call.request)
        return call.result(self._native.highlights(call.request).wait()).citing(self.cite)

    @checked
    def stream(self, query: str | Sequence[str], pages: Pages, **options: Unpack[Options]) -> Iterator[Highlights]:
        """Answer pages one after another, in their order: see `Highlighter.stream`.

        Each page is a request of its own, so that pages may come from a generator without an end, and several servers share
        them. At most `max_in_flight` are in progress. Stored documents are named in `highlights`.
        """
        highlights = self._native.highlights
        return stream(
            lambda request, reply_to: highlights(request).start(reply_to), *checked_stream(query, pages, options)
        )

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
    @checked
    @signed_as(Highlighter.embed)
    def embed(
        self,
        texts: Iterable[str],
        *,
        embedding_dtype: EmbeddingDtype = "float32",
        **options: Unpack[EmbedOptions],
    ) -> NDArray[Any]:
        """Turn texts into vectors: see `Highlighter.embed`.

        Many texts are split over several requests, whose answers are written into one array.

        `embedding_dtype` is the type of the vectors, on the wire and in the array; other types than float32 need fewer bytes. A
        server that does not know it raises `BadAnswerError`. The array is:

        - ``"float32"``: float32 ``[n, dimension]``
        - ``"float16"``: float16 ``[n, dimension]``
        - ``"bfloat16"``: uint16 ``[n, dimension]``, the bits, since numpy has no bfloat16 (torch: ``tensor.view(torch.bfloat16)``)
        - ``"int8"``: int8 ``[n, dimension]``, 127 times the value, rounded, from -127 to 127
        - ``"binary"``: uint8 ``[n, ceil(dimension / 8)]``, one bit for each value, 1 if it is above 0, as in `numpy.packbits`
        """
        call = EmbedCall(texts, embedding_dtype, options)
        return call.result(self._native.embed(call.texts, call.is_query, call.options).wait())

    @checked
    def rerank(
        self,
        query: str,
        texts: Iterable[str],
        *,
        top_n: int | None = None,
        raw_scores: bool = False,
        timeout: float | None = None,
    ) -> list[RerankResult]:
        """Sort texts by the server's reranker, or without one by cosine, best first; return at most `top_n`.

        With `raw_scores`, scores are the reranker's logits; a server without one raises `InvalidArgumentError`.
        """
        texts = check_rerank(texts, top_n)
        ranks = self._native.rerank(query, texts, top_n, raw_scores, {"timeout": timeout}).wait()
        return [RerankResult(rank.index, rank.score, texts[rank.index]) for rank in ranks]

    @checked
    @signed_as(Highlighter.process)
    def process(
        self, question: str | Sequence[str], context: Context | Sequence[Any], **options: Unpack[ProcessOptions]
    ) -> dict[str, Any]:
        """Remove the sentences that do not answer, with the server's pruner: see `Highlighter.process`."""
        call = check_process(question, context, options)
        began = time.perf_counter()
        within = {"timeout": call.timeout, "priority": call.priority}
        pruned = self._native.prune(call.pairs(), call.threshold, within).wait()
        return process_result(call, pruned, time.perf_counter() - began)

    @checked
    def locate(self, page: str, quote: str, *, timeout: float | None = None) -> Located:
        """Find where a quote stands in a page: see `pullquote.locate`."""
        return self._native.locate(page, quote, {"timeout": timeout}).wait()

    @checked
    @signed_as(Highlighter.cite)
    def cite(self, answer: str, pages: Pages, **options: Unpack[CiteOptions]) -> Cited:
        """Find what supports each sentence of a text: see `Highlighter.cite`."""
        call = check_cite(answer, pages, options)
        request = read_files_of(call.request)
        return Cited.of_json(self._native.cite(request, call.ids, call.numbers).wait())

    @checked
    def put_document(
        self,
        document_id: str,
        text: str,
        *,
        title: str | None = None,
        timeout: float | None = None,
    ) -> str:
        """Store a document under an id, replacing an earlier one. Returns the hash of its text, ``sha256:…``.

        Raises `StoreFullError` if the server has no room.
        """
        return self._native.put_document(document_id, text, title, {"timeout": timeout}).wait()

    @checked
    def put_documents(
        self,
        texts: Pages,
        *,
        ids: Iterable[str] | None = None,
        titles: Iterable[str | None] | None = None,
        timeout: float | None = None,
    ) -> PutDocuments:
        """Store many documents, replacing earlier ones.

        `texts` are a mapping from ids to texts, pairs (id, text), or texts with their `ids`, as in `highlights`; also documents
        and files, whose names are their ids without others. `titles` has a title or `None` for each. Of several documents with
        one id, the last is kept. Up to 1,000 documents with 16 MiB of text are one request, which is one transaction; more are
        several.

        Raises `StoreFullError` if the server has no room; documents before the one that it names are stored, and perhaps smaller
        ones after it. After any error, the documents of earlier requests are stored.

        >>> client.put_documents({"moon": "The moon is white.", "bread": "Bread is baked."})  # doctest: +SKIP
        PutDocuments(created=2, replaced=0)
        """
        names, pages, listed = check_documents(texts, ids, titles)
        return self._native.put_documents(names, pages, listed, {"timeout": timeout}).wait()

    @checked
    def get_document(self, document_id: str, *, timeout: float | None = None) -> Document:
        """Read a stored document. Raises `NotFoundError` if there is none."""
        return self._native.get_document(document_id, {"timeout": timeout}).wait()

    @checked
    def delete_document(self, document_id: str, *, timeout: float | None = None) -> None:
        """Delete a stored document. Raises `NotFoundError` if there is none."""
        self._native.delete_document(document_id, {"timeout": timeout}).wait()

    @checked
    def list_documents(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None, timeout: float | None = None
    ) -> DocumentList:
        """List stored documents whose ids begin with `prefix`, in the order of ids, without their texts.

        A list has at most `limit` documents (from 1 to 1,000; 100 by default), and fewer if their ids and titles are long. Its
        `next` is the `after` of the next list, and its `total` counts all documents with the prefix.

        >>> client.list_documents("https://example.com/", limit=1).total  # doctest: +SKIP
        2
        """
        return self._native.list_documents(prefix, after, limit, {"timeout": timeout}).wait()

    @checked
    def delete_documents(self, prefix: str, *, timeout: float | None = None) -> int:
        """Delete all stored documents whose ids begin with `prefix`, which is not empty. Returns how many.

        The server deletes some at a time, and after an error those before it are deleted; the next call goes on.
        """
        return self._native.delete_documents(prefix, {"timeout": timeout}).wait()

    @checked
    def delete_all_documents(self, *, timeout: float | None = None) -> int:
        """Delete every stored document: see `delete_documents`."""
        return self._native.delete_documents(None, {"timeout": timeout}).wait()

    @checked
    def health(self, *, timeout: float | None = None) -> dict[str, str | None]:
        """Ask each server, once, whether it can encode. Returns `None` or the reason for each URL."""
        return dict(self._native.health({"timeout": timeout}).wait())

    def close(self) -> None:
        """Close all connections; calls in flight and later ones raise `ClosedError`. May be called twice."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _read_certificates(path: str | Path) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        message = f"ca_certs cannot be read: {error}"
        raise InvalidArgumentError(message) from None


@atexit.register
def _close_all() -> None:
    for client in list(_open):
        client._native.close()
