"""``pullquote mcp``: its options, and serving an agent."""

from __future__ import annotations

import argparse
import json
import signal
from pathlib import Path
from typing import Any

from pullquote import _native
from pullquote._cli import serve_command
from pullquote._cli.settings import of_command, settings
from pullquote._cli.source import highlighter_or_client
from pullquote._engine.highlighter import Highlighter
from pullquote.documents import parser_command
from pullquote.errors import InvalidArgumentError

__all__ = ["add_options", "run"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's own options."""
    parser.add_argument(
        "--folder",
        action="append",
        default=[],
        metavar="DIR",
        help="a folder whose files agents may read; repeatable (default: agents can only send texts)",
    )
    parser.add_argument(
        "--fetch",
        action="store_true",
        help="let agents name web pages, which the server of --server fetches; it must run with --fetch",
    )


def run(options: argparse.Namespace) -> int:
    """Serve an agent until it hangs up, or a signal comes, and return the exit code."""
    if options.url and len(options.url) > 1:
        message = "pullquote mcp takes one --server"
        raise InvalidArgumentError(message)
    agent: dict[str, Any] = {
        "folders": [str(Path(folder).expanduser()) for folder in options.folder],
        "fetch": options.fetch,
    }
    of_server = {"log_level": "warn", "document_parser": parser_command()}
    # With a server, this makes a client, which checks the options.
    with highlighter_or_client(options, has_timeout=False) as source:
        if isinstance(source, Highlighter):
            native = source._native
            agent["server"] = None
            of_server |= serve_command.model_settings(source, options)
        else:
            native = None
            defaults = {field["name"]: field["default"] for field in of_command("client", "mcp")}
            agent["server"] = defaults | settings("client", options) | {"url": options.url[0]}
        # The server handles signals; Python must not raise KeyboardInterrupt after it returns.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _native.serve_agent(of_server, json.dumps(agent), native)
    return 0
