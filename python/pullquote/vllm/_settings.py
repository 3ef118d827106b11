"""Settings: what ``--additional-config '{"pullquote": {…}}'`` may say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from pullquote._loading import CACHE_BYTES
from pullquote._server import MEBIBYTE, default
from pullquote.errors import InvalidArgumentError

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is taken on. Of vLLM's own limits none is touched."""

    threads: int = 2
    """Threads for the text of requests, beside vLLM's own."""
    cache_bytes: int = CACHE_BYTES
    """What the endpoint keeps of pages, with their vectors. 0 keeps nothing."""
    max_concurrent: int = default("max-concurrent")
    """Requests of the endpoint that are worked on at a time."""
    max_queue: int = default("max-queue")
    """Requests that wait for that; more are answered 429."""
    max_queue_bytes: int = default("max-queue-bytes")
    """Bodies of both, together; more are answered 429."""
    max_body_bytes: int = default("max-body-bytes")
    max_documents: int = default("max-documents")
    max_document_bytes: int = default("max-document-bytes")
    max_queries: int = default("max-queries")
    max_windows: int = 100_000
    """Pieces of a request's pages, in all."""
    timeout: float = default("timeout")
    """Seconds that a request may take; it may ask for less by the option of this name."""
    rows_in_flight: int = 256
    """Rows of a request that vLLM has at a time: who comes behind a large request waits for no more than these."""
    inline_text_bytes: int = MEBIBYTE // 16
    """UTF-8 of queries and pages of a request to the IO processor, whose text is read on vLLM's event loop."""
    inline_windows: int = 2000
    """Pieces of such a request."""
    inline_requests: int = 1024
    """Requests to the IO processor whose answers are not there; beyond it the oldest is forgotten."""

    @classmethod
    def of(cls, additional_config: object) -> Settings:
        """Those of vLLM's ``--additional-config``. Raises `InvalidArgumentError` for names and values that are none."""
        ours = additional_config.get("pullquote", {}) if isinstance(additional_config, Mapping) else {}
        if not isinstance(ours, Mapping):
            message = f'additional_config["pullquote"] must be an object of settings, not {ours!r}'
            raise InvalidArgumentError(message)
        known = {field.name: field.default for field in fields(cls)}
        for name, value in ours.items():
            if name not in known:
                message = f'additional_config["pullquote"] has no setting {name!r}; there are {", ".join(known)}'
                raise InvalidArgumentError(message)
            _check(name, value, isinstance(known[name], float))
        return cls(**ours)


def _check(name: str, value: Any, is_float: bool) -> None:
    least = 0 if name in {"cache_bytes", "max_queue"} else 1
    fits = not isinstance(value, bool) and isinstance(value, (int, float) if is_float else int)
    if not fits or not (value > 0 if is_float else value >= least):
        wanted = "a number of seconds above 0" if is_float else f"a whole number from {least}"
        message = f'additional_config["pullquote"]["{name}"] must be {wanted}, not {value!r}'
        raise InvalidArgumentError(message)
