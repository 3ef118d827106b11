"""``pullquote mcp``: its options, and serving an agent."""

from __future__ import annotations

import argparse
import json
import os
import signal
from pathlib import Path

from pullquote import _native
from pullquote._cli import serve_command
from pullquote._cli.source import API_KEY, highlighter_or_client
from pullquote._engine.highlighter import Highlighter
from pullquote._request.options import SERVER_TIMEOUT
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
    if options.server and len(options.server) > 1:
        message = "pullquote mcp takes one --server"
        raise InvalidArgumentError(message)
    agent = {"folders": [str(Path(folder).expanduser()) for folder in options.folder], "fetch": options.fetch}
    settings = serve_command.default_settings() | {"log_level": "warn"}
    # With a server, this makes a client, which checks the options.
    with highlighter_or_client(options, has_timeout=False) as source:
        if isinstance(source, Highlighter):
            native = source._native
            agent["server"] = None
            settings |= serve_command.model_settings(source, options)
        else:
            native = None
            agent["server"] = {
                "url": options.server[0],
                "api_key": options.api_key or os.environ.get(API_KEY),
                "ca_certs": options.ca_certs and str(options.ca_certs),
                "timeout": SERVER_TIMEOUT if options.timeout is None else options.timeout,
            }
        # The server handles signals; Python must not raise KeyboardInterrupt after it returns.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _native.serve_agent(json.dumps(settings), json.dumps(agent), native)
    return 0
