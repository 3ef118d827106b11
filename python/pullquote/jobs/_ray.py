"""``pullquote job --engine ray``: a pool of actors processes a job's files, which are the rows of a Ray Data set.

Ray carries only names and records: an actor reads its files and writes their outputs itself, so all nodes need the same URLs. Ray
assigns files to actors, and restarts actors that die and their files. An actor skips files that are done, so the outputs do not
depend on which actor did a file, or how often it was tried.
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

from pullquote._engine.highlighter import Highlighter
from pullquote._engine.ray_resources import assigned_resources
from pullquote._models.hub import is_snapshot
from pullquote.errors import InvalidArgumentError, PullquoteError, UnavailableError
from pullquote.jobs._inputs import InputFile
from pullquote.jobs._job import Job
from pullquote.jobs._records import FileRecord, finished_record
from pullquote.jobs._run import FileProgress, OnProgress, run_files

__all__ = ["RayRunner"]

# Files in progress in an actor: while one starts or ends, the other keeps the devices busy.
FILES_AT_ONCE = 2
# Maximum blocks of a data set; fewer files have a block each.
MAX_BLOCKS = 100_000
MAX_CPUS = 32


@dataclass(frozen=True, slots=True)
class RayRunner:
    """Runs a job on the cluster that Ray finds (`RAY_ADDRESS`, or a local node), or on a new one on this machine.

    At most `actors` actors (default: as many as fit), each with `cpus` cores and `gpus` GPUs. By default an actor has one GPU if
    the cluster has any, and an equal share of its node's cores; else all cores of the smallest node. `arguments` are further
    arguments of `Highlighter` that change no answer.
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

    def __call__(self, highlighter: Highlighter, job: Job, files: list[InputFile], on_progress: OnProgress) -> None:
        """Process the files of a job. All actors have the settings of this process."""
        if not files:
            return
        job = _with_absolute_paths(job if job.encoder else replace(job, dtype=highlighter.dtype))
        if is_snapshot(highlighter.model):
            # All nodes take the commit that this process found.
            job = replace(job, revision=highlighter.model.name)
        with _cluster():
            cpus, gpus = self._actor_resources()
            constructor_arguments = {
                "job": job,
                "settings": job.settings(highlighter),
                "arguments": dict(self.arguments),
                "modules": [str(Path(path).resolve()) for path in sys.path],
            }
            # The largest first, so that no large file is the last to start.
            rows = [{"file": json.dumps(asdict(file))} for file in sorted(files, key=lambda file: -file.bytes)]
            dataset = ray.data.from_items(rows, override_num_blocks=min(len(rows), MAX_BLOCKS))
            _silence(dataset.context)
            pool = ray.data.ActorPoolStrategy(
                min_size=1,
                max_size=self.actors,
                initial_size=max(1, min(self.actors or len(rows), len(rows), _actors_that_fit(cpus, gpus))),
                max_tasks_in_flight_per_actor=FILES_AT_ONCE,
                max_concurrent_calls_per_actor=FILES_AT_ONCE,
                enable_true_multi_threading=True,
            )
            done = dataset.map_batches(
                _FileWorker,
                batch_format="pyarrow",
                batch_size=None,
                fn_constructor_kwargs=constructor_arguments,
                compute=pool,
                num_cpus=cpus,
                num_gpus=gpus or None,
            )
            try:
                by_name = {file.name: file for file in files}
                for row in done.iter_rows():
                    record = FileRecord(**json.loads(row["record"]))
                    on_progress(FileProgress(by_name[record.name], record.rows, record.bytes, record))
            except ray.exceptions.RayError as error:
                raise _cause(error) from error
        job.store.remove_temporary()

    def _actor_resources(self) -> tuple[float, float]:
        """Cores and GPUs of an actor. Raises `InvalidArgumentError` if no node has them."""
        nodes = _nodes()
        gpus = self.gpus
        if gpus is None:
            gpus = 1 if any(node.get("GPU", 0) >= 1 for node in nodes) else 0
        able = [node for node in nodes if node.get("CPU", 0) >= (self.cpus or 1) and node.get("GPU", 0) >= gpus]
        if not able:
            message = f"an actor needs {self.cpus or 1} cores and {gpus} GPUs, but the nodes have {nodes}"
            raise InvalidArgumentError(message)
        if self.cpus is not None:
            return self.cpus, gpus
        shares = [node["CPU"] // (node["GPU"] // gpus if gpus else 1) for node in able]
        return max(1, int(min(*shares, MAX_CPUS))), gpus


class _FileWorker:
    """An actor's engine, which processes files."""

    def __init__(self, job: Job, settings: dict[str, Any], arguments: dict[str, Any], modules: list[str]) -> None:
        self._job = job
        # The driver may find `job.encoder` there.
        sys.path.extend(path for path in modules if path not in sys.path)
        self._failure: Exception | None = None
        try:
            self._highlighter = job.highlighter(**(assigned_resources(job.encoder) | arguments))
            _check_settings(settings, job.settings(self._highlighter))
        except Exception as error:
            # Raised later: of an error in a constructor, Ray passes on only the text.
            self._failure = error

    def __call__(self, files: pa.Table) -> Iterator[pa.Table]:
        if self._failure is not None:
            raise self._failure
        for row in files["file"].to_pylist():
            file = InputFile(**json.loads(row))
            yield pa.table({"record": [json.dumps(asdict(self._do(file)))]})

    def _do(self, file: InputFile) -> FileRecord:
        if (record := finished_record(self._job.store, file)) is not None:
            # An actor did it, and died before it returned the record.
            return record
        records: list[FileRecord] = []

        def on_progress(progress: FileProgress) -> None:
            if progress.record is not None:
                records.append(progress.record)

        run_files(self._highlighter, self._job, [file], on_progress)
        return records[0]


def _check_settings(settings: dict[str, Any], here: dict[str, Any]) -> None:
    if different := sorted(name for name in settings if settings[name] != here.get(name)):
        name, node = different[0], ray.util.get_node_ip_address()
        message = (
            f"{name} is {here.get(name)!r} on node {node}, but {settings[name]!r} in the process that started the job"
        )
        raise InvalidArgumentError(message)


@contextmanager
def _cluster() -> Iterator[None]:
    """The caller's connection to Ray, or a new one."""
    if ray.is_initialized():
        yield
        return
    # No usage reports from clusters that pullquote starts.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(logging_level=logging.WARNING, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


def _nodes() -> list[dict[str, float]]:
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _actors_that_fit(cpus: float, gpus: float) -> int:
    by_cpus = [node.get("CPU", 0) // cpus for node in _nodes()]
    by_gpus = [node.get("GPU", 0) // gpus if gpus else by for node, by in zip(_nodes(), by_cpus, strict=True)]
    return int(sum(map(min, by_cpus, by_gpus)))


def _with_absolute_paths(job: Job) -> Job:
    """The same job for processes with another working directory."""
    system, path = url_to_fs(job.output)
    model = job.model
    if model is not None and Path(model).is_dir():
        model = str(Path(model).resolve())
    return replace(job, output=system.unstrip_protocol(path), model=model)


def _silence(context: ray.data.DataContext) -> None:
    """Disable Ray's progress bars, since `pullquote job` shows its own."""
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)


def _cause(error: ray.exceptions.RayError) -> Exception:
    """The error that an actor raised, if it is pullquote's or the system's; else an `UnavailableError`."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, PullquoteError | OSError):
            return cause
        cause = getattr(cause, "cause", None) or cause.__cause__
    return UnavailableError(f"Ray could not do the job: {error}")
