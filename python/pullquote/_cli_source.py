"""What the commands share: the highlighter or client that they name, their files, and messages."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import fields
from typing import TYPE_CHECKING

from pullquote._config import EngineConfig
from pullquote._highlighter import Highlighter
from pullquote._options import SERVER_TIMEOUT
from pullquote._python_encoder import named_encoder
from pullquote._text_files import is_piped
from pullquote.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pullquote.client import Client

__all__ = [
    "API_KEY",
    "EXIT_NO_INPUT",
    "call_timeout",
    "complain",
    "highlighter",
    "highlighter_or_client",
    "input_files",
]

EXIT_NO_INPUT = 66
# Environment variable of the server's key: unlike --api-key, process lists do not show it.
API_KEY = "PULLQUOTE_API_KEY"
# Options of a model, which a server has already.
MODEL_OPTIONS = ("truncate-dim", "prompt-name", "query-prompt", "passage-prompt")


def highlighter_or_client(options: argparse.Namespace, *, has_timeout: bool = True) -> Highlighter | Client:
    """The highlighter of this machine, or the client of the server that the options name."""
    if not options.server:
        of_server = ("api_key", "ca_certs", *(() if has_timeout else ("timeout",)))
        if named := [name for name in of_server if getattr(options, name) is not None]:
            message = f"--{named[0].replace('_', '-')} is for a server; name one by --server, or leave it out"
            raise InvalidArgumentError(message)
        return highlighter(options)
    own = {"model": options.model, "encoder": options.encoder, "device": options.device, "threads": options.threads}
    own |= {"revision": options.revision, "trace": options.trace}
    own |= {name: vars(options)[name.replace("-", "_")] for name in MODEL_OPTIONS}
    named = [f"--{name}" for name, value in own.items() if value is not None] + (
        ["--dtype"] if options.dtype != "auto" else ["--cuda-graphs"] if options.cuda_graphs else []
    )
    if named:
        message = f"the server determines {named[0]}; leave it out, or --server"
        raise InvalidArgumentError(message)
    key = options.api_key or os.environ.get(API_KEY)
    from pullquote.client import Client  # noqa: PLC0415 - only --server needs it

    timeout = SERVER_TIMEOUT if options.timeout is None else options.timeout
    return Client(options.server, api_key=key, ca_certs=options.ca_certs, timeout=timeout)


def highlighter(options: argparse.Namespace, kind: type[Highlighter] = Highlighter) -> Highlighter:
    """The highlighter with the model and the devices of the options."""
    given = vars(options)
    arguments = {field.name: given[field.name] for field in fields(EngineConfig) if field.name in given}
    arguments |= {"devices": options.device or "auto", "encoder": named_encoder(options.encoder)}
    return kind(**arguments)


def call_timeout(options: argparse.Namespace) -> float | None:
    """Seconds of a call. With a server, each request has them."""
    return None if options.server else options.timeout


def input_files(names: list[str]) -> list[str]:
    """The named files, or standard input in a pipe."""
    if names.count("-") > 1:
        message = "- is standard input, which can be read once"
        raise InvalidArgumentError(message)
    if names or is_piped():
        return names or ["-"]
    message = "no FILE; name a page, or pipe one in"
    raise InvalidArgumentError(message)


def complain(message: str) -> None:
    """Print a message to standard error."""
    print(f"pullquote: {message}", file=sys.stderr)
