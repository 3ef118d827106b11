"""``pullquote serve``: the settings of a server, and how one is run from the command line."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from dataclasses import dataclass
from typing import Any

from pullquote._highlighter import Highlighter

__all__ = ["MEBIBYTE", "add_options", "default", "serve"]

MEBIBYTE = 1024 * 1024
EXIT_CUT = 130


@dataclass(frozen=True, slots=True)
class Setting:
    """An option of ``pullquote serve``; ``--max-body-bytes`` is `max_body_bytes` in `rust/server/src/settings.rs`."""

    name: str
    default: str | float | list[str] | bool | None
    help: str
    choices: tuple[str, ...] | None = None
    metavar: str | None = None


# Each is named, defaulted and described here and nowhere else.
SETTINGS = {
    "where it listens": [
        Setting("host", "127.0.0.1", "the address to listen on; 0.0.0.0 is every one this machine has"),
        Setting("port", 8080, "the port; 0 takes a free one, which the first line printed tells"),
        Setting("uds", None, "listen on a Unix socket instead, the file of which is made and removed", metavar="PATH"),
        Setting("uds-mode", "600", "that file's permissions, as chmod takes them: who may write to it may ask"),
        Setting("model-name", None, "what clients know the model as (default: that of its directory)", metavar="NAME"),
    ],
    "how long things may take, in seconds": [
        Setting("timeout", 60.0, "a request, from its first line on; clients may ask for less by Request-Timeout-Ms"),
        Setting("header-timeout", 30.0, "a request's headers, and the pause between two requests of a connection"),
        Setting("body-timeout", 30.0, "a request's body"),
        Setting("write-timeout", 30.0, "a pause in which a client reads nothing of its answer; then it is hung up on"),
        Setting("shutdown-timeout", 75.0, "answering what was accepted, after the first SIGTERM"),
    ],
    "how much it takes at most": [
        Setting("max-connections", 2048, "open connections; more are answered 503"),
        Setting("max-header-bytes", 32 * 1024, "a request's headers"),
        Setting("max-body-bytes", 32 * MEBIBYTE, "a request's body; more is answered 413"),
        Setting("max-concurrent", 64, "requests that are worked on at the same time, and share batches"),
        Setting("max-queue", 512, "requests that wait for that; more are answered 429"),
        Setting("max-queue-bytes", 256 * MEBIBYTE, "bodies of both, together; more are answered 429"),
        Setting("max-documents", 1000, "documents of a request; more are answered 422"),
        Setting("max-document-bytes", 8 * MEBIBYTE, "UTF-8 of a document; more is answered 422"),
        Setting("max-queries", 64, "queries of a request; more are answered 422"),
        Setting("max-inputs", 2048, "texts of a request for vectors; more are answered 422"),
    ],
    "documents that are stored": [
        Setting("store", None, "an SQLite file that keeps them (default: they are kept in memory)", metavar="PATH"),
        Setting("store-documents", 100_000, "so many; more are answered 507, none is ever dropped to make room"),
        Setting("store-bytes", 256 * MEBIBYTE, "their ids, titles and texts; more is answered 507"),
    ],
    "pages that nobody has sent": [
        Setting(
            "fetch", False, "fetch pages that /contents names by an address (default: only what was sent is known)"
        ),
        Setting(
            "fetch-allow", [], "a private network to fetch from too, like 10.1.0.0/16; repeatable", metavar="NETWORK"
        ),
        Setting("fetch-max-bytes", 5 * MEBIBYTE, "a page, unpacked; of more there is a status, and no page"),
        Setting("fetch-redirects", 5, "so many until the page; of more there is a status, and no page"),
        Setting("fetch-timeout", 10.0, "seconds until all pages of a request are there; the others have a status"),
        Setting(
            "upstream", None, "who answers /search, like https://api.exa.ai; highlights are made here", metavar="URL"
        ),
        Setting("upstream-key", None, "its key (default: that of the client, where it needs none here)", metavar="KEY"),
    ],
    "who may ask": [
        Setting("api-key", [], "a key that may; may be repeated; without any, everybody may", metavar="KEY"),
        Setting("api-keys-file", None, "a file of keys, one a line, read again when it changes", metavar="PATH"),
        Setting("protect-all", False, "ask for a key at /, /live, /health, /metrics, /docs and /openapi.json too"),
        Setting("cors-origin", [], "an origin whose pages may ask, or *; may be repeated", metavar="ORIGIN"),
        Setting(
            "allowed-host",
            [],
            "a name this server answers to, or *; may be repeated. On a loopback address without keys it answers to no names "
            "but localhost and these (421), so that no site can point a name of its own here and have visitors' browsers ask",
            metavar="HOST",
        ),
    ],
    "what it tells": [
        Setting(
            "log-level", "info", "of the lines on standard error", ("off", "error", "warn", "info", "debug", "trace")
        ),
        Setting("log-format", "text", "of the same", ("text", "json")),
        Setting(
            "otlp-endpoint",
            None,
            "an OpenTelemetry collector that gets a span of every request, like http://localhost:4318 (OTLP over HTTP)",
            metavar="URL",
        ),
    ],
}


def default(name: str) -> Any:
    """What a setting is where nobody says."""
    return next(setting.default for settings in SETTINGS.values() for setting in settings if setting.name == name)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add an option for each setting."""
    for title, settings in SETTINGS.items():
        group = parser.add_argument_group(title)
        for setting in settings:
            default = setting.default
            keywords: dict[str, Any] = {"help": setting.help, "default": default}
            if isinstance(default, bool):
                keywords["action"] = "store_true"
            elif isinstance(default, list):
                keywords |= {"action": "append", "default": None, "metavar": setting.metavar}
            else:
                keywords |= {"choices": setting.choices, "metavar": setting.metavar}
                keywords["type"] = str if default is None else type(default)
                if default is not None:
                    keywords["help"] += " (default: %(default)s)"
            group.add_argument(f"--{setting.name}", **keywords)


def serve(highlighter: Highlighter, options: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C; returns the exit code."""
    settings: dict[str, Any] = {}
    for setting in (setting for group in SETTINGS.values() for setting in group):
        name = setting.name.replace("-", "_")
        value = getattr(options, name)
        settings[name] = [] if value is None and isinstance(setting.default, list) else value
    settings["model_name"] = options.model_name or highlighter.model_name
    settings["model_directory"] = str(highlighter.model)
    _raise_file_limit(options.max_connections)
    # The server takes its signals itself; Python must not raise KeyboardInterrupt when it comes back.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server = highlighter._native.bind(json.dumps(settings))
    # At a socket there is no address to ask for, and any does.
    where = (
        {"url": f"http://{server.address}"} if options.uds is None else {"url": "http://localhost", "uds": options.uds}
    )
    line = where | {
        "model": settings["model_name"],
        "dtype": highlighter.dtype,
        "devices": highlighter.devices,
    }
    if options.json:
        print(json.dumps(line), flush=True)
    else:
        print(
            f"pullquote serves {settings['model_name']} ({highlighter.dtype} on {', '.join(highlighter.devices)}) at "
            f"{options.uds or line['url']}",
            flush=True,
        )
    if server.run():
        return 0
    # What still runs belongs to requests that nobody answers any more; waiting for it is what we were told not to do.
    sys.stdout.flush()
    highlighter._write_trace()
    os._exit(EXIT_CUT)


def _raise_file_limit(connections: int) -> None:
    """Let the process open as many files as the connections need, where the system allows it."""
    try:
        import resource  # noqa: PLC0415 - only Unix has it
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
