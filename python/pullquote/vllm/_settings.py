"""The settings in ``--additional-config '{"pullquote": {…}}'``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from pullquote._request.signatures import Kind, described
from pullquote.errors import InvalidArgumentError

__all__ = ["Settings"]


def _default(kind: Kind, name: str) -> Any:
    return next(field["default"] for field in described(kind) if field["name"] == name)


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits of the plugins, in addition to vLLM's own."""

    threads: int = 2
    """Threads for the text of requests, in addition to vLLM's."""
    cache_bytes: int = _default("engine", "cache_bytes")
    """Bytes of the endpoint's page cache; 0 disables it."""
    max_concurrent: int = _default("server", "max_concurrent")
    """Requests of the endpoint in progress."""
    max_queue: int = _default("server", "max_queue")
    """Queued requests; excess requests get 429."""
    max_queue_bytes: int = _default("server", "max_queue_bytes")
    """Bytes of the bodies of all these; excess requests get 429."""
    max_body_bytes: int = _default("server", "max_body_bytes")
    max_documents: int = _default("server", "max_documents")
    max_document_bytes: int = _default("server", "max_document_bytes")
    max_queries: int = _default("server", "max_queries")
    max_query_bytes: int = _default("server", "max_query_bytes")
    max_windows: int = 100_000
    """Windows of all pages of a request."""
    timeout: float = _default("server", "timeout")
    """Seconds for a request; its own option `timeout` may shorten it."""
    rows_in_flight: int = 256
    """Rows of a request in vLLM at a time, which bounds how long a later request waits for a large one."""
    inline_text_bytes: int = 64 * 1024
    """Bytes of queries and pages of a request to the IO processor, which reads text on vLLM's event loop."""
    inline_windows: int = 2000
    """Windows of a request to the IO processor."""
    inline_requests: int = 1024
    """Unanswered requests to the IO processor; beyond it the oldest is dropped."""
    reranker: str | None = None
    """Name or directory of a reranker, which reads the best passages again on the CPU, in `threads`."""
    pruner: str | None = None
    """Name or directory of a pruner, in place of a reranker."""

    @classmethod
    def of(cls, additional_config: object) -> Settings:
        """Read vLLM's ``--additional-config``. Raises `InvalidArgumentError` for unknown names and bad values."""
        ours = additional_config.get("pullquote", {}) if isinstance(additional_config, Mapping) else {}
        if not isinstance(ours, Mapping):
            message = f'additional_config["pullquote"] must be an object of settings, not {ours!r}'
            raise InvalidArgumentError(message)
        known = {field.name: field.default for field in fields(cls)}
        for name, value in ours.items():
            if name not in known:
                message = f'additional_config["pullquote"] has no setting {name!r}; there are {", ".join(known)}'
                raise InvalidArgumentError(message)
            _check(name, value, known[name])
        return cls(**ours)


def _check(name: str, value: Any, default: object) -> None:
    if default is None:
        if value is not None and not isinstance(value, str):
            message = f'additional_config["pullquote"]["{name}"] must be a name or a directory, not {value!r}'
            raise InvalidArgumentError(message)
        return
    is_float = isinstance(default, float)
    least = 0 if name in {"cache_bytes", "max_queue"} else 1
    fits = not isinstance(value, bool) and isinstance(value, (int, float) if is_float else int)
    if not fits or not (value > 0 if is_float else value >= least):
        wanted = "a number of seconds above 0" if is_float else f"a whole number from {least}"
        message = f'additional_config["pullquote"]["{name}"] must be {wanted}, not {value!r}'
        raise InvalidArgumentError(message)
