"""Requests and responses of ``POST /highlights`` of ``pullquote serve``, without stored documents and vectors.

`rust/server/src/routes/highlights.rs` is the original; a test compares the responses of both.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

import numpy as np

from pullquote._highlights import Highlight, Highlights
from pullquote._native import ANSWERED
from pullquote._options import Options
from pullquote.errors import OverloadedError, PullquoteError
from pullquote.vllm._settings import Settings

__all__ = [
    "HighlightsRequest",
    "InvalidRequestError",
    "error_response",
    "kind_of",
    "parse",
    "response_body",
    "validate",
]

# A document has its own title and id.
OPTIONS = Options.__annotations__.keys() - {"titles", "ids"}
FIELDS = {"query", "documents", "offsets", "return_texts", "return_vectors", "embedding_dtype"}


class InvalidRequestError(Exception):
    """An invalid request: its HTTP status, kind of error, and field."""

    def __init__(self, status: HTTPStatus, kind: str, message: str, field: str | None = None) -> None:
        """`field` is a path in the body, as ``documents[3].text``."""
        super().__init__(message)
        self.status, self.kind, self.field = status, kind, field

    def __str__(self) -> str:
        return f"{self.field}: {self.args[0]}" if self.field else str(self.args[0])


@dataclass(frozen=True, slots=True)
class HighlightsRequest:
    """A request, validated as far as is possible without a model."""

    query: str | list[str]
    texts: list[str]
    ids: list[str | None]
    return_texts: bool
    options: Options
    """Options of `Highlighter.highlights`, with titles."""

    @property
    def size(self) -> int:
        """Bytes of UTF-8 of all its texts."""
        queries = [self.query] if isinstance(self.query, str) else self.query
        texts = [*queries, *self.texts, *(title for title in self.options.get("titles") or [] if title)]
        return sum(len(text.encode(errors="surrogatepass")) for text in texts)


def parse(body: bytes, settings: Settings) -> HighlightsRequest:
    """Parse a body of JSON. Raises `InvalidRequestError`."""
    if not body:
        raise InvalidRequestError(
            HTTPStatus.BAD_REQUEST, "malformed_body", "the body is empty; it must be a JSON object"
        )
    try:
        return validate(json.loads(body), settings)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(HTTPStatus.BAD_REQUEST, "malformed_body", f"the body is not JSON: {error}") from None


def validate(body: object, settings: Settings) -> HighlightsRequest:
    """Validate a parsed body. Raises `InvalidRequestError`, which names the field."""
    if not isinstance(body, dict):
        raise _invalid("", f"expected an object with a query and documents, not {_kind(body)}")
    if unknown := body.keys() - FIELDS - OPTIONS:
        raise _invalid(str(min(unknown, key=str)), "there is no such field")
    for needed in ("query", "documents"):
        if needed not in body:
            raise _invalid(needed, "it is missing")
    if (offsets := body.get("offsets", "codepoint")) != "codepoint":
        raise _invalid("offsets", f'only "codepoint" is possible, not {offsets!r}')
    if not isinstance(body.get("return_texts", False), bool):
        raise _invalid("return_texts", "expected true or false")
    if body.get("return_vectors", False) is not False:
        raise _invalid("return_vectors", "vectors of passages are not available; /v1/embeddings returns those of texts")
    documents = _list(body["documents"], "documents", settings.max_documents)
    pages = [_document(document, f"documents[{index}]", settings) for index, document in enumerate(documents)]
    texts, titles, ids = ([page[part] for page in pages] for part in ("text", "title", "id"))
    options = {name: body[name] for name in OPTIONS & body.keys()}
    return HighlightsRequest(
        query=_query(body["query"], settings),
        texts=cast("list[str]", texts),
        ids=ids,
        return_texts=body.get("return_texts", False),
        options=cast("Options", options | ({"titles": titles} if any(titles) else {})),
    )


def _query(query: object, settings: Settings) -> str | list[str]:
    if isinstance(query, str):
        return query
    if not isinstance(query, list):
        raise _invalid("query", f"expected a text or a list of texts, not {_kind(query)}")
    for index, one in enumerate(_list(query, "query", settings.max_queries)):
        if not isinstance(one, str):
            raise _invalid(f"query[{index}]", f"expected a text, not {_kind(one)}")
    return query


def _document(document: object, field: str, settings: Settings) -> dict[str, str | None]:
    page = {"text": document} if isinstance(document, str) else document
    if not isinstance(page, dict):
        raise _invalid(field, f"expected a text, or an object with its text, not {_kind(document)}")
    if unknown := page.keys() - {"id", "title", "text"}:
        raise _invalid(f"{field}.{min(unknown, key=str)}", "there is no such field; a document has id, title and text")
    for name, value in page.items():
        if not isinstance(value, str) and not (value is None and name != "text"):
            raise _invalid(f"{field}.{name}", f"expected a text, not {_kind(value)}")
    if "text" not in page:
        raise _invalid(field, "a document needs a text; this server stores none")
    size = len(page["text"].encode(errors="surrogatepass"))
    if size > settings.max_document_bytes:
        message = f"a text has {size} bytes; the maximum is {settings.max_document_bytes}"
        raise _invalid(field, message)
    return {"id": None, "title": None, **page}


def _list(value: object, field: str, most: int) -> list[Any]:
    if not isinstance(value, list):
        raise _invalid(field, f"expected a list, not {_kind(value)}")
    if not value:
        raise _invalid(field, "the list is empty; it must have at least one entry")
    if len(value) > most:
        raise _invalid(field, f"there are {len(value)} entries; the maximum is {most}")
    return value


def _invalid(field: str, message: str) -> InvalidRequestError:
    return InvalidRequestError(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_body", message, field or None)


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a text", list: "a list"}
    return names.get(type(value), "an object")


def response_body(request: HighlightsRequest, found: Highlights, queued: float) -> dict[str, Any]:
    """The body of a response; `queued` is the seconds that the request waited for its turn."""
    work = found.work
    return {
        "results": [_page(request, found, number) for number in range(len(found))],
        "answered": found.answered,
        "offsets": "codepoint",
        "usage": {
            name: getattr(work, name) for name in ("windows", "windows_scored", "encoded", "tokens", "truncated")
        },
        "timings": {
            "queue": queued,
            **{name: getattr(work, name) for name in ("cutting", "tokenizing", "waiting", "ranking")},
        },
    }


def _page(request: HighlightsRequest, found: Highlights, number: int) -> dict[str, Any]:
    is_list, is_fused = isinstance(request.query, list), request.options.get("fuse", False)
    query, index = found.query_and_page(number)
    text = request.texts[index]
    page: dict[str, Any] = {"index": index}
    if (name := request.ids[index]) is not None:
        page["id"] = name
    if is_list and not is_fused:
        page["query"] = query
    page |= {
        "text_hash": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}",
        "format": found.formats[index],
        "windows": int(found.windows[index]),
        "windows_scored": int(found.windows_scored[index]),
    }
    page["answered"] = any(highlight.score >= ANSWERED for highlight in found[number])
    if request.return_texts:
        page["text"] = found.texts[index]
    page["highlights"] = [_highlight(request, found, highlight) for highlight in found[number]]
    return page


def _highlight(request: HighlightsRequest, found: Highlights, one: Highlight) -> dict[str, Any]:
    row: dict[str, Any] = {
        "text": one.text,
        "start": one.start,
        "end": one.end,
        **{name: _shortest(getattr(one, name)) for name in ("score", "cosine", "bm25")},
    }
    if request.options.get("fuse", False):
        row["query"] = one.query
    if request.options.get("context", 0):
        row |= {"before": one.before, "after": one.after}
    if request.options.get("explain", False):
        row["matches"] = [{"word": match.word, "start": match.start, "end": match.end} for match in one.matches]
    if found.formats[one.page] == "html":
        row |= {"source_start": one.source_start, "source_end": one.source_end}
    return row


def _shortest(value: float) -> float:
    """The same float32 with the fewest digits."""
    return float(str(np.float32(value)))


def error_response(
    error: InvalidRequestError | PullquoteError, request_id: str
) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Status, body and headers for an error, as ``pullquote serve`` writes them."""
    headers = {"retry-after": "1"} if isinstance(error, OverloadedError) else {}
    if isinstance(error, InvalidRequestError):
        status, kind, retryable = int(error.status), error.kind, False
        details = {"kind": kind, "message": str(error.args[0]), "retryable": retryable}
        if error.field:
            details["field"] = error.field
    else:
        status, kind = error.http_status, kind_of(error)
        details = {"kind": kind, "message": str(error), "retryable": error.retryable}
    return status, {"error": details, "request_id": request_id}, headers | {"x-error-kind": kind}


def kind_of(error: PullquoteError) -> str:
    """The kind of an error in responses: the name of its class in lower case with underscores."""
    name = type(error).__name__.removesuffix("Error")
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
