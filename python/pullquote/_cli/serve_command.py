"""``pullquote serve``: its settings, and running the server."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from dataclasses import dataclass
from typing import Any

from pullquote import _native
from pullquote._cli.source import add_batch_options, highlighter
from pullquote._engine.highlighter import Highlighter
from pullquote._models.engine_config import CACHE_BYTES
from pullquote.documents import parser_command
from pullquote.errors import InvalidArgumentError

__all__ = ["MEBIBYTE", "ServedHighlighter", "add_options", "default", "default_settings", "model_settings", "run"]

MEBIBYTE = 1024 * 1024
# The most seconds of --batch-timeout.
MAX_BATCH_TIMEOUT = 2.0
# The shutdown timeout passed.
EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Setting:
    """An option of ``pullquote serve``; ``--max-body-bytes`` is `max_body_bytes` of `rust/server/src/settings.rs`."""

    name: str
    default: str | float | list[str] | bool | None
    help: str
    choices: tuple[str, ...] | None = None
    metavar: str | None = None

    def add_to(self, group: Any) -> None:
        """Add the option to a group of a parser."""
        keywords: dict[str, Any] = {"help": self.help, "default": self.default}
        if isinstance(self.default, bool):
            keywords["action"] = "store_true"
        elif isinstance(self.default, list):
            keywords |= {"action": "append", "default": None, "metavar": self.metavar}
        else:
            keywords |= {"choices": self.choices, "metavar": self.metavar}
            keywords["type"] = str if self.default is None else type(self.default)
            if self.default not in {None, ""}:
                keywords["help"] += " (default: %(default)s)"
        group.add_argument(f"--{self.name}", **keywords)


SETTINGS = {
    "address": [
        Setting("host", "127.0.0.1", "address to listen on; 0.0.0.0 is every address of this machine"),
        Setting("port", 8080, "port; 0 picks a free one, which the first line of output shows"),
        Setting(
            "uds", None, "listen on a Unix socket instead, whose file the server creates and removes", metavar="PATH"
        ),
        Setting("uds-mode", "600", "permissions of that file, as chmod takes them; clients need write permission"),
        Setting("model-name", None, "name of the model in answers (default: that of its directory)", metavar="NAME"),
        Setting(
            "served-model-name",
            [],
            "another name that requests may give the model, or * for all; repeatable. Requests for other models get 404",
            metavar="NAME",
        ),
        Setting(
            "url-prefix",
            "",
            "a path under which all routes are as well, such as /v1 or /api (default: none)",
            metavar="PATH",
        ),
    ],
    "timeouts, in seconds": [
        Setting("timeout", 60.0, "a request, from its first line; clients may shorten it with Request-Timeout-Ms"),
        Setting("header-timeout", 30.0, "a request's headers, and idle time between two requests of a connection"),
        Setting("body-timeout", 30.0, "a request's body"),
        Setting(
            "write-timeout",
            30.0,
            "no progress while a client reads a response; then the server closes the connection",
        ),
        Setting("shutdown-timeout", 75.0, "finishing accepted requests, after the first SIGTERM"),
    ],
    "limits": [
        Setting("max-connections", 2048, "open connections; excess connections get 503"),
        Setting("max-header-bytes", 32 * 1024, "a request's headers"),
        Setting("max-body-bytes", 32 * MEBIBYTE, "a request's body; larger ones get 413"),
        Setting("max-concurrent", 64, "requests in progress, which share batches"),
        Setting("max-queue", 512, "queued requests; excess requests get 429"),
        Setting("max-queue-bytes", 256 * MEBIBYTE, "bytes of the bodies of all these; excess requests get 429"),
        Setting("max-documents", 1000, "documents of a request; more get 422"),
        Setting("max-document-bytes", 8 * MEBIBYTE, "UTF-8 of a document; more get 422"),
        Setting("max-queries", 64, "queries of a request; more get 422"),
        Setting("max-inputs", 2048, "texts of a request for vectors; more get 422"),
    ],
    "stored documents": [
        Setting("store", None, "SQLite file for them (default: in memory)", metavar="PATH"),
        Setting("store-documents", 100_000, "maximum number; excess documents get 507, and none is evicted"),
        Setting("store-bytes", 256 * MEBIBYTE, "maximum bytes of ids, titles and texts; excess documents get 507"),
    ],
    "uploaded files": [
        Setting("upload-max-pages", 5000, "pages of a PDF; more get 413"),
        Setting("upload-max-memory", 4096 * MEBIBYTE, "bytes of memory of the process that reads a file; more get 413"),
        Setting("upload-timeout", 60.0, "seconds in which a file must be read; then 504"),
        Setting("upload-processes", 4, "processes that read files at the same time"),
    ],
    "fetched pages": [
        Setting("fetch", False, "fetch pages that /contents names by URL (default: only stored documents)"),
        Setting(
            "fetch-allow", [], "a private network to fetch from, such as 10.1.0.0/16; repeatable", metavar="NETWORK"
        ),
        Setting("fetch-max-bytes", 5 * MEBIBYTE, "bytes of a page, decompressed; a larger page has a status instead"),
        Setting("fetch-redirects", 5, "maximum redirects; a page with more has a status instead"),
        Setting("fetch-timeout", 10.0, "seconds for all pages of a request; a late page has a status instead"),
        Setting(
            "upstream",
            None,
            "URL of the search service for /search, such as https://api.exa.ai; this server adds highlights",
            metavar="URL",
        ),
        Setting(
            "upstream-key",
            None,
            "its key, also as the environment's PULLQUOTE_UPSTREAM_KEY (default: the client's key, if this server needs none)",
            metavar="KEY",
        ),
    ],
    "access": [
        Setting(
            "api-key",
            [],
            "a valid key, also as the environment's PULLQUOTE_API_KEY, which other users of the machine cannot see; repeatable; "
            "without keys, every client has access",
            metavar="KEY",
        ),
        Setting("api-keys-file", None, "file with a key in each line, read again when it changes", metavar="PATH"),
        Setting("protect-all", False, "require a key for /, /live, /health, /metrics, /docs and /openapi.json too"),
        Setting("cors-origin", [], "an origin whose pages may call this server, or *; repeatable", metavar="ORIGIN"),
        Setting(
            "allowed-host",
            [],
            "a host name for requests, or *; repeatable. On a loopback address without keys, other names than localhost get "
            "421, so that no website can reach this server through a visitor's browser",
            metavar="HOST",
        ),
    ],
    "logs and traces": [
        Setting(
            "log-level",
            "info",
            "minimum level of log lines on standard error",
            ("off", "error", "warn", "info", "debug", "trace"),
        ),
        Setting("log-format", "text", "format of log lines", ("text", "json")),
        Setting(
            "otlp-endpoint",
            None,
            "OpenTelemetry collector for a span of each request, such as http://localhost:4318 (OTLP over HTTP)",
            metavar="URL",
        ),
    ],
}


class ServedHighlighter(Highlighter):
    """A highlighter whose vectors the server normalizes, because some requests are for vectors that are not."""

    _normalizes = False


def default(name: str) -> Any:
    """The default of a setting."""
    return next(setting.default for settings in SETTINGS.values() for setting in settings if setting.name == name)


def default_settings() -> dict[str, Any]:
    """All settings, without a model."""
    settings = {setting.name.replace("-", "_"): setting.default for group in SETTINGS.values() for setting in group}
    model = {"model_name": "", "model_directory": "", "truncate_dim": None}
    return settings | model | {"document_parser": parser_command()}


def model_settings(served: Highlighter, options: argparse.Namespace) -> dict[str, Any]:
    """The settings of a model."""
    model_name = getattr(options, "model_name", None) or served.model_name
    return {"model_name": model_name, "model_directory": str(served.model), "truncate_dim": options.truncate_dim}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add an option for each setting, and those of batches."""
    for title, settings in SETTINGS.items():
        group = parser.add_argument_group(title)
        for setting in settings:
            setting.add_to(group)
    batches = add_batch_options(parser, CACHE_BYTES)
    batches.add_argument(
        "--batch-timeout",
        type=float,
        default=0.0,
        help="seconds that texts wait for others when they do not fill a batch; with 0, batches grow only while the devices are "
        "busy (default: %(default)s)",
    )
    batches.add_argument("--depth", type=int, help="batches in flight on each device (default: the device's)")
    batches.add_argument(
        "--device-timeout",
        type=float,
        help="seconds without a finished batch after which other devices take over (default: 10)",
    )


def run(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C, and return the exit code."""
    if options.batch_timeout > MAX_BATCH_TIMEOUT:
        message = (
            f"--batch-timeout must be at most {MAX_BATCH_TIMEOUT} seconds, not {options.batch_timeout}: "
            "/health encodes a text within five"
        )
        raise InvalidArgumentError(message)
    if options.store is not None:
        # Before the model is loaded, which may take long.
        _native.check_store(options.store)
    with highlighter(options, ServedHighlighter) as served:
        return _serve(served, options)


def _serve(served: Highlighter, options: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C, and return the exit code."""
    settings = default_settings()
    for setting in (setting for group in SETTINGS.values() for setting in group):
        name = setting.name.replace("-", "_")
        value = getattr(options, name)
        settings[name] = list(value or []) if isinstance(setting.default, list) else value
    if key := os.environ.get("PULLQUOTE_API_KEY"):
        settings["api_key"].append(key)
    settings["upstream_key"] = settings["upstream_key"] or os.environ.get("PULLQUOTE_UPSTREAM_KEY")
    settings |= model_settings(served, options)
    _raise_file_limit(options.max_connections)
    # The server handles signals; Python must not raise KeyboardInterrupt after it returns.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server = served._native.bind(json.dumps(settings))
    # On a Unix socket, clients still need a URL with a host.
    address = (
        {"url": f"http://{server.address}"} if options.uds is None else {"url": "http://localhost", "uds": options.uds}
    )
    line = address | {
        "model": settings["model_name"],
        "dtype": served.dtype,
        "devices": served.devices,
    }
    if options.json:
        print(json.dumps(line), flush=True)
    else:
        print(
            f"pullquote serves {settings['model_name']} ({served.dtype} on {', '.join(served.devices)}) at "
            f"{options.uds or line['url']}",
            flush=True,
        )
    if server.run():
        return 0
    # Requests still run after the shutdown timeout: exit without waiting for them.
    sys.stdout.flush()
    os._exit(EXIT_INTERRUPTED)


def _raise_file_limit(connections: int) -> None:
    """Raise the limit of open files to what the connections need, as far as the system allows."""
    try:
        import resource  # noqa: PLC0415 - only Unix has it
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + 256
    if soft != resource.RLIM_INFINITY and soft < needed:
        allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
