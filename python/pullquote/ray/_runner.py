"""``pullquote job --engine ray``: the files of a job are the rows of a Ray Data set, done by a pool of actors.

Only names and records travel through Ray: an actor reads its files and writes their outputs by itself, so all nodes must reach
both by the same addresses. Ray does the rest: which actor gets which file, actors again that died, files again that died with
them. A file that was done before it is asked for again is not done again, so that whoever did it, and how often it was tried,
leaves the same bytes.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray
import ray.data
from fsspec.core import url_to_fs

from pullquote._highlighter import Highlighter
from pullquote.errors import InvalidArgumentError, PullquoteError, UnavailableError
from pullquote.jobs._inputs import InputFile
from pullquote.jobs._job import Job
from pullquote.jobs._records import Record, recorded
from pullquote.jobs._run import Progress, Told, work
from pullquote.ray._resources import given

__all__ = ["RayEngine"]

# Files that an actor has at once: while one is begun or ended, the other keeps the devices busy.
FILES_AT_ONCE = 2
# Blocks that a data set is cut into at most; a file each, where there are fewer files.
MOST_BLOCKS = 100_000
MOST_CPUS = 32


@dataclass(frozen=True, slots=True)
class RayEngine:
    """How a job is spread over a cluster: the one that Ray finds (`RAY_ADDRESS`, or a node here), or a new one of this machine.

    At most `actors` (default: as many as there is room for), each with `cpus` cores and `gpus` cards. Without, an actor has a
    card where there is any, and a node's cores are shared by its cards; or else it has all of the smallest node's cores.
    `arguments` are further ones of `Highlighter` which change no answer.
    """

    actors: int | None = None
    cpus: int | None = None
    gpus: float | None = None
    arguments: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("actors", 1), ("cpus", 1), ("gpus", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                message = f"{name} must be at least {least}, not {value}"
                raise InvalidArgumentError(message)

    def __call__(self, highlighter: Highlighter, job: Job, files: list[InputFile], told: Told) -> None:
        """Do the files of a job, which all actors do with the settings that it has here."""
        if not files:
            return
        job = _everywhere(job if job.encoder else replace(job, dtype=highlighter.dtype))
        with _cluster():
            cpus, gpus = self._share()
            kept = {
                "job": job,
                "settings": job.settings(highlighter),
                "arguments": dict(self.arguments),
                "modules": [str(Path(path).resolve()) for path in sys.path],
            }
            # The largest first, so that none is begun last.
            rows = [{"file": json.dumps(asdict(file))} for file in sorted(files, key=lambda file: -file.bytes)]
            given_out = ray.data.from_items(rows, override_num_blocks=min(len(rows), MOST_BLOCKS))
            _be_quiet(given_out.context)
            pool = ray.data.ActorPoolStrategy(
                min_size=1,
                max_size=self.actors,
                initial_size=max(1, min(self.actors or len(rows), len(rows), _room(cpus, gpus))),
                max_tasks_in_flight_per_actor=FILES_AT_ONCE,
                max_concurrent_calls_per_actor=FILES_AT_ONCE,
                enable_true_multi_threading=True,
            )
            done = given_out.map_batches(
                _FileWorker,
                batch_format="pyarrow",
                batch_size=None,
                fn_constructor_kwargs=kept,
                compute=pool,
                num_cpus=cpus,
                num_gpus=gpus or None,
            )
            try:
                by_name = {file.name: file for file in files}
                for row in done.iter_rows():
                    record = Record(**json.loads(row["record"]))
                    told(Progress(by_name[record.name], record.rows, record.bytes, record))
            except ray.exceptions.RayError as error:
                raise _meant(error) from error
        job.place.sweep()

    def _share(self) -> tuple[float, float]:
        """Cores and cards of an actor. Raises `InvalidArgumentError` where no node has them."""
        nodes = _nodes()
        gpus = self.gpus
        if gpus is None:
            gpus = 1 if any(node.get("GPU", 0) >= 1 for node in nodes) else 0
        able = [node for node in nodes if node.get("CPU", 0) >= (self.cpus or 1) and node.get("GPU", 0) >= gpus]
        if not able:
            message = f"no node of the cluster has {self.cpus or 1} cores and {gpus} cards for an actor, but {nodes}"
            raise InvalidArgumentError(message)
        if self.cpus is not None:
            return self.cpus, gpus
        shares = [node["CPU"] // (node["GPU"] // gpus if gpus else 1) for node in able]
        return max(1, int(min(*shares, MOST_CPUS))), gpus


class _FileWorker:
    """One engine, which does files; made in each actor."""

    def __init__(self, job: Job, settings: dict[str, Any], arguments: dict[str, Any], modules: list[str]) -> None:
        self._job = job
        # Where the driver finds `job.encoder`.
        sys.path.extend(path for path in modules if path not in sys.path)
        self._failure: Exception | None = None
        try:
            self._highlighter = job.highlighter(**(given(job.encoder) | arguments))
            _check_settings(settings, job.settings(self._highlighter))
        except Exception as error:
            # Of what is raised here Ray would tell the text only.
            self._failure = error

    def __call__(self, files: pa.Table) -> Iterator[pa.Table]:
        if self._failure is not None:
            raise self._failure
        for row in files["file"].to_pylist():
            file = InputFile(**json.loads(row))
            yield pa.table({"record": [json.dumps(asdict(self._do(file)))]})

    def _do(self, file: InputFile) -> Record:
        if (record := recorded(self._job.place, file)) is not None:
            # By an actor that died before it could say so.
            return record
        ended: list[Record] = []

        def told(progress: Progress) -> None:
            if progress.record is not None:
                ended.append(progress.record)

        work(self._highlighter, self._job, [file], told)
        return ended[0]


def _check_settings(settings: dict[str, Any], here: dict[str, Any]) -> None:
    if other := sorted(name for name in settings if settings[name] != here.get(name)):
        name, node = other[0], ray.util.get_node_ip_address()
        message = f"{name} is {here.get(name)!r} on node {node}, and {settings[name]!r} where the job began"
        raise InvalidArgumentError(message)


@contextmanager
def _cluster() -> Iterator[None]:
    """A connection to Ray: that of the caller, or one of our own."""
    if ray.is_initialized():
        yield
        return
    # A cluster that we start tells nobody of itself.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(logging_level=logging.WARNING, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


def _nodes() -> list[dict[str, float]]:
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _room(cpus: float, gpus: float) -> int:
    """How many actors the cluster has room for."""
    by_cpus = [node.get("CPU", 0) // cpus for node in _nodes()]
    by_gpus = [node.get("GPU", 0) // gpus if gpus else by for node, by in zip(_nodes(), by_cpus, strict=True)]
    return int(sum(map(min, by_cpus, by_gpus)))


def _everywhere(job: Job) -> Job:
    """The same job for processes that begin in another directory."""
    system, path = url_to_fs(job.output)
    model = job.model
    if model is not None and Path(model).is_dir():
        model = str(Path(model).resolve())
    return replace(job, output=system.unstrip_protocol(path), model=model)


def _be_quiet(context: ray.data.DataContext) -> None:
    """Progress is ours to show."""
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)


def _meant(error: ray.exceptions.RayError) -> Exception:
    """What an actor raised, where it is ours or the system's; or that Ray failed."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, PullquoteError | OSError):
            return seen
        seen = getattr(seen, "cause", None) or seen.__cause__
    return UnavailableError(f"Ray could not do the job: {error}")
