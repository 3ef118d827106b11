"""Bodies of ``POST /highlights``, read by the parser of ``pullquote serve``, and error responses."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from pullquote._native import BodyRefusal, HighlightsBody
from pullquote.errors import OverloadedError, PullquoteError
from pullquote.vllm._settings import Settings

__all__ = ["InvalidRequestError", "error_response", "kind_of", "read_body"]


class InvalidRequestError(Exception):
    """An invalid request: its HTTP status, kind of error, and field."""

    def __init__(self, status: int, kind: str, message: str, field: str | None = None) -> None:
        """`field` is a path in the body, as ``documents[3].text``."""
        super().__init__(message)
        self.status, self.kind, self.field = HTTPStatus(status), kind, field

    def __str__(self) -> str:
        return f"{self.field}: {self.args[0]}" if self.field else str(self.args[0])


def read_body(body: bytes, settings: Settings) -> HighlightsBody:
    """Check a body. Raises `InvalidRequestError`."""
    limits = settings.max_documents, settings.max_document_bytes, settings.max_queries, settings.max_query_bytes
    read = HighlightsBody.read(body, *limits)
    if isinstance(read, BodyRefusal):
        raise InvalidRequestError(read.status, read.kind, read.message, read.field)
    return read


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
