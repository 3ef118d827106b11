"""What the commands share: the options of a model or a server, the highlighter or client that they name, and files."""

from __future__ import annotations

import argparse
import contextlib
import sys
from dataclasses import fields
from typing import TYPE_CHECKING

from pullquote._cli.settings import flag, of_command, settings
from pullquote._engine.highlighter import Highlighter
from pullquote._models.engine_config import EngineConfig
from pullquote._models.python_encoder import named_encoder
from pullquote._text_files import is_piped
from pullquote.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pullquote.client import Client

__all__ = [
    "EXIT_NO_INPUT",
    "call_timeout",
    "complain",
    "highlighter",
    "highlighter_or_client",
    "input_files",
]

EXIT_NO_INPUT = 66


def highlighter_or_client(options: argparse.Namespace, *, has_timeout: bool = True) -> Highlighter | Client:
    """The highlighter of this machine, or the client of the server that the options name."""
    if not options.url:
        of_server = ("api_key", "ca_certs", *(() if has_timeout else ("timeout",)))
        if named := [name for name in of_server if getattr(options, name) is not None]:
            message = f"--{named[0].replace('_', '-')} is for a server; name one by --server, or leave it out"
            raise InvalidArgumentError(message)
        return highlighter(options)
    own = [each for each in of_command("engine", options.command) if each["name"] != "devices"]
    if options.devices or (own := [each for each in own if getattr(options, each["name"]) != each["default"]]):
        message = f"the server determines {'--device' if options.devices else flag(own[0])}; leave it out, or --server"
        raise InvalidArgumentError(message)
    from pullquote.client import Client  # noqa: PLC0415 - only --server needs it

    timeout = {} if options.timeout is None else {"timeout": options.timeout}
    return Client(**settings("client", options) | timeout)


def highlighter(options: argparse.Namespace, kind: type[Highlighter] = Highlighter) -> Highlighter:
    """The highlighter with the model and the devices of the options."""
    given = vars(options)
    arguments = {field.name: given[field.name] for field in fields(EngineConfig) if field.name in given}
    arguments |= {"devices": options.devices or "auto", "encoder": named_encoder(options.encoder)}
    return kind(**arguments)


def call_timeout(options: argparse.Namespace) -> float | None:
    """Seconds of a call. With a server, each request has them."""
    return None if options.url else options.timeout


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
    """Print a message to standard error, if that takes it."""
    with contextlib.suppress(OSError):
        print(f"pullquote: {message}", file=sys.stderr)
