"""``pullquote serve``: its settings, and running the server."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from typing import Any

from pullquote import _native
from pullquote._cli.settings import settings as given_settings
from pullquote._cli.source import highlighter
from pullquote._engine.highlighter import Highlighter
from pullquote.documents import parser_command
from pullquote.errors import InvalidArgumentError

__all__ = ["ServedHighlighter", "model_settings", "run"]

# The most seconds of --batch-timeout.
MAX_BATCH_TIMEOUT = 2.0
# The shutdown timeout passed.
EXIT_INTERRUPTED = 130


class ServedHighlighter(Highlighter):
    """A highlighter whose vectors the server normalizes, because some requests are for vectors that are not."""

    _normalizes = False


def model_settings(served: Highlighter, options: argparse.Namespace) -> dict[str, Any]:
    """The settings of a model."""
    model_name = getattr(options, "model_name", None) or served.model_name
    return {"model_name": model_name, "model_directory": str(served.model), "truncate_dim": options.truncate_dim}


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
    settings = given_settings("server", options) | model_settings(served, options)
    settings["document_parser"] = parser_command()
    _raise_file_limit(options.max_connections)
    # The server handles signals; Python must not raise KeyboardInterrupt after it returns.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server = served._native.bind(settings)
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
