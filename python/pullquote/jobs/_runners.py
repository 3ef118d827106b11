"""Runners: where a job's files are processed, and how many at a time."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeAlias

from pullquote._engine.highlighter import Highlighter
from pullquote.errors import InvalidArgumentError
from pullquote.jobs._inputs import InputFile
from pullquote.jobs._job import Job
from pullquote.jobs._run import OnProgress, run_files

__all__ = ["RUNNERS", "Runner"]

# Processes a job's files, in any order, with the behaviour of `run_files`. The highlighter is the one that determined the job's
# settings; a runner with other processes makes its own there (`Job.highlighter`).
Runner: TypeAlias = Callable[[Highlighter, Job, list[InputFile], OnProgress], None]

RAY_OPTIONS = ("actors", "actor_cpus", "actor_gpus")


def _local(options: argparse.Namespace) -> Runner:
    if given := [name for name in RAY_OPTIONS if getattr(options, name) is not None]:
        message = f"--{given[0].replace('_', '-')} is for --engine ray"
        raise InvalidArgumentError(message)
    return run_files


def _ray(options: argparse.Namespace) -> Runner:
    if given := [name for name in ("threads", "device") if getattr(options, name)]:
        message = f"--{given[0]} is for --engine local; an actor has --actor-cpus and --actor-gpus"
        raise InvalidArgumentError(message)
    try:
        from pullquote.ray._runner import RayRunner  # noqa: PLC0415 - it needs what `pullquote[ray]` installs
    except ModuleNotFoundError as error:
        message = f'--engine ray needs {error.name}; run: pip install "pullquote[ray]"'
        raise InvalidArgumentError(message) from None
    arguments = {
        name: getattr(options, name) for name in ("cache_bytes", "max_batch_tokens", "max_batch_size", "cuda_graphs")
    }
    return RayRunner(options.actors, options.actor_cpus, options.actor_gpus, tuple(arguments.items()))


RUNNERS: dict[str, Callable[[argparse.Namespace], Runner]] = {"local": _local, "ray": _ray}
