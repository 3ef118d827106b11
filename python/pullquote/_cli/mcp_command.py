"""``pullquote mcp``: its options, and running the server."""

from __future__ import annotations

import argparse
import ipaddress
import os
import socket
from typing import TYPE_CHECKING

from pullquote._cli.source import API_KEY, highlighter_or_client
from pullquote.errors import InvalidArgumentError

if TYPE_CHECKING:
    from mcp.server import MCPServer

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
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="serve streamable HTTP at /mcp on a loopback address, such as 127.0.0.1:8000; port 0 picks a free one "
        "(default: standard input and output)",
    )


def run(options: argparse.Namespace) -> int:
    """Serve agents until they hang up, or Ctrl-C, and return the exit code."""
    try:
        from pullquote.mcp import make_server  # noqa: PLC0415 - it needs what `pullquote[mcp]` installs
    except ModuleNotFoundError as error:
        message = f'pullquote mcp needs {error.name}; run: pip install "pullquote[mcp]"'
        raise InvalidArgumentError(message) from None
    if options.server and len(options.server) > 1:
        message = "pullquote mcp takes one --server"
        raise InvalidArgumentError(message)
    with highlighter_or_client(options, has_timeout=False) as source:
        server = make_server(
            source,
            url=options.server[0] if options.server else None,
            api_key=options.api_key or os.environ.get(API_KEY),
            ca_certs=options.ca_certs,
            timeout=options.timeout,
            folders=options.folder,
            fetch=options.fetch,
        )
        return _serve(server, options.http)


def _serve(server: MCPServer, http: str | None) -> int:
    """Serve until the input ends, or with `http` until Ctrl-C or SIGTERM. Returns the exit code."""
    if http is None:
        server.run()
        return 0
    import uvicorn  # noqa: PLC0415 - the MCP SDK brings it, and only this needs it

    with _listen(http) as listener:
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        # Every request stands alone, so that agents survive a restart of the server.
        app = server.streamable_http_app(host=host, stateless_http=True, json_response=True)
        print(f"pullquote serves MCP at http://{shown}:{port}/mcp", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
    return 0


def _listen(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdecimal():
        message = f"--http must be HOST:PORT, such as 127.0.0.1:8000, not {address!r}"
        raise InvalidArgumentError(message)
    if host != "localhost" and not _is_loopback(host):
        message = (
            f"--http must be a loopback address, not {host!r}, because it asks for no key; "
            "for other machines, put a proxy that does in front"
        )
        raise InvalidArgumentError(message)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server(("127.0.0.1" if host == "localhost" else host, int(port)), family=family)
    except (OSError, OverflowError) as error:
        message = f"--http cannot listen on {address!r}: {error}"
        raise InvalidArgumentError(message) from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
