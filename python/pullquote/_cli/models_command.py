"""``pullquote models``: lists the cache of the Hugging Face Hub, and downloads into it."""

from __future__ import annotations

import argparse
import json
import os

from pullquote import _native
from pullquote._models.choice import EMBEDDED_HUB_NAME, embedded_model, has_embedded_model
from pullquote._models.hub import HubOptions, cache_directory, hub_name, snapshot_directory
from pullquote.errors import InvalidArgumentError

__all__ = ["add_options"]


def add_options(models: argparse.ArgumentParser) -> None:
    """Add the options of ``pullquote models`` and ``pullquote models get``."""
    models.add_argument("--json", action="store_true", help="print JSON lines")
    models.set_defaults(run=_list)
    commands = models.add_subparsers(metavar="COMMAND", prog="pullquote models")
    get = commands.add_parser(
        "get",
        usage="pullquote models get [OPTIONS] NAME ...",
        help="download the newest commit of models, and replace damaged files",
        description="Download the newest commit of models, and replace damaged files. Private and gated models need the "
        "environment variable HF_TOKEN.",
    )
    get.add_argument("names", nargs="+", metavar="NAME", help="for example BAAI/bge-small-en-v1.5")
    get.add_argument("--revision", help="branch, tag or commit (default: main)")
    get.set_defaults(run=_get)


def _list(options: argparse.Namespace) -> int:
    cache = cache_directory()
    models = _native.cached_models(cache)
    for model in models:
        # Its files are named without their directory, which is the same for all.
        directory = snapshot_directory(cache, model.name, model.revision)
        problem = model.problem and model.problem.replace(f"{directory}{os.sep}", "")
        if options.json:
            row = {"name": model.name, "revision": model.revision, "refs": model.refs, "bytes": model.bytes}
            row["problem"] = problem
            print(json.dumps(row, ensure_ascii=False))
        else:
            shown = ", ".join(model.refs) or model.revision
            print(f"{model.name}  {shown}  {model.bytes / 1e6:,.1f} MB  {problem or 'loads'}")
    if not models and not options.json:
        print(f"no models in {cache}; the embedded model needs no download")
    return 0


def _get(options: argparse.Namespace) -> int:
    from pullquote._models.hub_download import fetch  # noqa: PLC0415 - only downloads need it

    for given in options.names:
        if (name := hub_name(given)) is None:
            message = f"{given!r} is a path; name a model of the Hugging Face Hub, such as BAAI/bge-small-en-v1.5"
            raise InvalidArgumentError(message)
        if options.revision is None and name.lower() == EMBEDDED_HUB_NAME.lower() and has_embedded_model():
            # As wherever a model is named.
            directory = embedded_model()
        else:
            directory = fetch(name, HubOptions(options.revision))
        if options.json:
            print(json.dumps({"name": name, "revision": directory.name, "directory": str(directory)}))
        else:
            print(directory)
    return 0
