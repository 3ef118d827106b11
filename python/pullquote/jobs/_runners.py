"""Engines: where the files of a job are done, and how many at a time."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeAlias

from pullquote._highlighter import Highlighter
from pullquote.errors import InvalidArgumentError
from pullquote.jobs._inputs import InputFile
from pullquote.jobs._job import Job
from pullquote.jobs._run import Told, work

__all__ = ["ENGINES", "Engine"]

# Does the files of a job, in any order, and tells of them as `work` does. The highlighter is what the caller has loaded to know the
# job's settings; an engine of other processes makes its own there (`Job.highlighter`).
Engine: TypeAlias = Callable[[Highlighter, Job, list[InputFile], Told], None]

# What is told of how to spread the work, and is for one engine only.
RAY = ("actors", "actor_cpus", "actor_gpus")


def _local(options: argparse.Namespace) -> Engine:
    if named := [name for name in RAY if getattr(options, name) is not None]:
        message = f"--{named[0].replace('_', '-')} is for --engine ray"
        raise InvalidArgumentError(message)
    return work


def _ray(options: argparse.Namespace) -> Engine:
    if named := [name for name in ("threads", "device", "trace") if getattr(options, name)]:
        message = f"--{named[0]} is for --engine local; an actor has --actor-cpus and --actor-gpus"
        raise InvalidArgumentError(message)
    try:
        from pullquote.ray._runner import RayEngine  # noqa: PLC0415 - it needs what `pullquote[ray]` brings
    except ModuleNotFoundError as error:
        message = f'--engine ray needs {error.name}; install it by: pip install "pullquote[ray]"'
        raise InvalidArgumentError(message) from None
    arguments = {name: getattr(options, name) for name in ("cache_bytes", "max_batch_tokens", "max_batch_size")}
    return RayEngine(options.actors, options.actor_cpus, options.actor_gpus, tuple(arguments.items()))


ENGINES: dict[str, Callable[[argparse.Namespace], Engine]] = {"local": _local, "ray": _ray}
