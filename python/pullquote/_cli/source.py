"""What the commands share: the options of a model or a server, the highlighter or client that they name, and files."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from pullquote._engine.highlighter import Highlighter
from pullquote._models.engine_config import EngineConfig
from pullquote._models.python_encoder import named_encoder
from pullquote._request.options import SERVER_TIMEOUT
from pullquote._text_files import is_piped
from pullquote.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pullquote.client import Client

__all__ = [
    "API_KEY",
    "EXIT_NO_INPUT",
    "add_batch_options",
    "add_model_options",
    "add_server_options",
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


def add_model_options(command: argparse.ArgumentParser, *, has_prompts: bool) -> None:
    """Add the options of the model and its devices."""
    group = command.add_argument_group("model and devices")
    group.add_argument(
        "--model",
        help="name of a model of the Hugging Face Hub, such as BAAI/bge-small-en-v1.5, or the directory of one; private and gated "
        "models need the environment variable HF_TOKEN (default: the embedded all-MiniLM-L6-v2)",
    )
    group.add_argument("--revision", help="branch, tag or commit of a named model (default: main)")
    if has_prompts:
        group.add_argument("--truncate-dim", type=int, help="values of a vector to keep (default: all)")
        group.add_argument("--prompt-name", help="name of the query's prompt in the model's files (default: query)")
        group.add_argument("--query-prompt", help="text before queries (default: the model's)")
        group.add_argument("--passage-prompt", help="text before passages (default: the model's)")
    group.add_argument(
        "--encoder",
        metavar="MODULE:FUNCTION",
        help="instead of a model, a Python function from a list of strings to float32 [n, dimension]; "
        "or torch, to compute the model with libtorch",
    )
    group.add_argument("--device", action="append", help="cpu, cuda:0, ...; repeatable (default: auto)")
    group.add_argument(
        "--dtype", default="auto", help="float32, bfloat16, float16, int8 or auto (default: %(default)s)"
    )
    group.add_argument(
        "--cuda-graphs",
        action="store_const",
        const="auto",
        default=False,
        help="queue the kernels of frequent shapes of batches as CUDA graphs (default: off; not yet run on a GPU)",
    )
    group.add_argument("--threads", type=int, help="threads for text, and for a CPU device (default: all cores)")


def add_batch_options(command: argparse.ArgumentParser, cache_bytes: int) -> argparse._ArgumentGroup:
    """Add the options of batches. Returns their group."""
    group = command.add_argument_group("batches")
    group.add_argument(
        "--cache-bytes",
        type=int,
        default=cache_bytes,
        help="bytes of the cache of pages and queries; 0 disables it (default: %(default)s)",
    )
    group.add_argument("--max-batch-tokens", type=int, help="maximum tokens of a batch (default: the device's)")
    group.add_argument(
        "--max-batch-size", type=int, help="maximum texts of a batch (default: as many as fit; 64 with --encoder)"
    )
    return group


def add_server_options(command: argparse.ArgumentParser) -> None:
    """Add the options of a server to use in place of a model."""
    group = command.add_argument_group("use a server")
    group.add_argument(
        "--server",
        action="append",
        metavar="URL",
        help="URL of pullquote serve, such as http://127.0.0.1:8080 or unix:/run/pullquote.sock; repeatable",
    )
    group.add_argument(
        "--api-key", metavar="KEY", help=f"the server's key (default: the environment variable {API_KEY})"
    )
    group.add_argument(
        "--ca-certs", type=Path, metavar="PATH", help="PEM file with the only trusted certificate authorities"
    )
    here = "" if command.prog.endswith("mcp") else ", or for each call without --server (default: none)"
    group.add_argument("--timeout", type=float, help=f"seconds for a request (default: {SERVER_TIMEOUT:g}){here}")


def highlighter_or_client(options: argparse.Namespace, *, has_timeout: bool = True) -> Highlighter | Client:
    """The highlighter of this machine, or the client of the server that the options name."""
    if not options.server:
        of_server = ("api_key", "ca_certs", *(() if has_timeout else ("timeout",)))
        if named := [name for name in of_server if getattr(options, name) is not None]:
            message = f"--{named[0].replace('_', '-')} is for a server; name one by --server, or leave it out"
            raise InvalidArgumentError(message)
        return highlighter(options)
    own = {"model": options.model, "encoder": options.encoder, "device": options.device, "threads": options.threads}
    own |= {"revision": options.revision}
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
