"""Jobs and data sets on Ray write the bytes of a local job, even when actors and nodes die."""

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pullquote import Highlighter, errors
from support import crashing_encoder, fake_letter_encoder
from support.job_files import Files, arguments, lines, outputs, pages, records, run, write_input
from support.messages import names_all, raises
from support.ray_cluster import RAY_MARKS, Nodes, ray

pytestmark = RAY_MARKS

DOOM = {"id": "doom", "text": "The doom of the moon. Bread is far.", "other": 0}


@pytest.fixture(scope="module")
def joined(cluster: Nodes) -> Iterator[None]:
    with cluster.joined():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("ray") / "input"
    write_input(made, 20)
    (made / "doom.jsonl").write_bytes(lines([*pages(5, 6), DOOM, *pages(5, 7)]))
    return made


@pytest.fixture(scope="module")
def local(folder: Path) -> Path:
    output = folder.parent / "local"
    assert run(*arguments(folder, output)) == 0
    return output


def run_on_ray(folder: Path, output: Path, *more: object) -> int:
    return run(*arguments(folder, output), "--engine", "ray", "--encoder", "support.crashing_encoder:letters", *more)


def manifest(output: Path) -> Files:
    """A job's records, without the encoder's name, which differs in these tests."""
    found = {name.removeprefix(str(output)): content for name, content in records(output).items()}
    settings = json.loads((output / "_pullquote" / "job.json").read_bytes())
    del settings["model"], settings["encoder"]
    return found | {"job": json.dumps(settings).encode(), "files": (output / "_pullquote" / "files.json").read_bytes()}


def check_same(output: Path, local: Path) -> None:
    assert outputs(output) == outputs(local)
    assert manifest(output) == manifest(local)
    assert not list((output / "_pullquote").glob("unfinished/*"))


def test_import_loads_no_ray() -> None:
    program = "import sys, pullquote, pullquote._cli, pullquote._cli.job_run; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.usefixtures("nodes", "joined")
def test_ray_job_output_matches_local_job(folder: Path, local: Path, tmp_path: Path) -> None:
    assert run_on_ray(folder, tmp_path) == 0
    check_same(tmp_path, local)


@pytest.mark.usefixtures("nodes", "joined")
def test_ray_job_resumes_local_job(folder: Path, local: Path, tmp_path: Path) -> None:
    begun, output = tmp_path / "input", tmp_path / "output"
    shutil.copytree(folder, begun)
    rest = [begun / "deep" / "b.jsonl", begun / "doom.jsonl"]
    kept = [path.read_bytes() for path in rest]
    for path in rest:
        path.unlink()
    assert run(*arguments(begun, output), "--encoder", "support.crashing_encoder:letters") == 0
    before = {path: path.stat().st_mtime_ns for path in output.rglob("*.parquet")}
    for path, content in zip(rest, kept, strict=True):
        path.write_bytes(content)
    assert run_on_ray(begun, output) == 0
    assert outputs(output) == outputs(local)
    assert {path: path.stat().st_mtime_ns for path in output.rglob("*.parquet")} == before


@pytest.mark.usefixtures("joined")
def test_ray_job_survives_killed_actor_and_node(nodes: Nodes, folder: Path, local: Path, tmp_path: Path) -> None:
    """Both die during the same file. The node's actor has no other core until the other actor is done."""
    crashing_encoder.schedule_crash("process")
    crashing_encoder.schedule_crash("node")
    killed: list[int] = []
    over = threading.Event()

    def kill() -> None:
        while not over.wait(0.01):
            if (node := crashing_encoder.node_to_kill()) is not None:
                nodes.kill(node)
                killed.append(node)
                return

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        assert run_on_ray(folder, tmp_path) == 0
    finally:
        over.set()
        killer.join()
    assert not crashing_encoder.is_crash_pending("process")
    assert len(killed) == 1
    check_same(tmp_path, local)


@pytest.mark.usefixtures("nodes", "joined")
def test_actor_failure_ends_ray_job(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # A file is in the place of the output's folder.
    tmp_path.joinpath("deep").write_text("in the way")
    assert run_on_ray(folder, tmp_path) == errors.StoreFullError.exit_code
    assert names_all(capsys.readouterr().err, "deep")
    assert run_on_ray(folder, tmp_path / "other", "--actor-cpus", 2) == errors.InvalidArgumentError.exit_code
    assert names_all(capsys.readouterr().err, "2 cores")
    assert run_on_ray(folder, tmp_path / "other", "--actors", 0) == errors.InvalidArgumentError.exit_code
    assert names_all(capsys.readouterr().err, "actors", 0)


def test_options_of_other_engine_are_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_on_ray(folder, tmp_path, "--threads", 2) == errors.InvalidArgumentError.exit_code
    assert names_all(capsys.readouterr().err, "--threads", "--engine local")
    assert run(*arguments(folder, tmp_path), "--actors", 2) == errors.InvalidArgumentError.exit_code
    assert names_all(capsys.readouterr().err, "--actors", "--engine ray")


def test_actors_with_different_settings_are_refused() -> None:
    from pullquote.jobs._ray import _check_settings

    _check_settings({"version": "1", "dtype": "float32"}, {"dtype": "float32", "version": "1"})
    with raises(errors.InvalidArgumentError, "dtype", "bfloat16", "float32"):
        _check_settings({"version": "1", "dtype": "float32"}, {"version": "1", "dtype": "bfloat16"})


@pytest.mark.usefixtures("nodes", "joined")
def test_page_highlighter_in_map_batches_matches_highlights_arrow() -> None:
    import ray.data

    from pullquote.ray import PageHighlighter

    table = pa.Table.from_pylist([*pages(50, 8), {"id": "null", "text": None, "other": 0}])
    asked: dict[str, Any] = {"query": ["How far is the moon?", "bread"], "id": "id", "top_k": 2}
    # Actors cannot import this module.
    ray.cloudpickle.register_pickle_by_value(fake_letter_encoder)
    data = ray.data.from_arrow([table.slice(0, 30), table.slice(30)])
    found = data.map_batches(
        PageHighlighter,
        fn_constructor_kwargs={"encoder": fake_letter_encoder.letters, **asked},
        batch_format="pyarrow",
        batch_size=16,
        compute=ray.data.ActorPoolStrategy(size=2),
        num_cpus=1,
    )
    rows = pa.concat_tables(ray.get(found.to_arrow_refs())).to_pylist()
    with Highlighter(encoder=fake_letter_encoder.letters) as highlighter:
        expected = pa.table(highlighter.highlights_arrow(table, **asked)).to_pylist()

    def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(rows, key=lambda row: (row["id"], row["query"]))

    assert ordered(rows) == ordered(expected)


@pytest.mark.usefixtures("nodes", "joined")
def test_actor_uses_assigned_resources() -> None:
    from pullquote.ray import assigned_resources

    asks = ray.remote(num_cpus=1)(assigned_resources)
    assert ray.get([asks.remote(None), asks.remote("own")]) == [{"threads": 1, "devices": ["cpu"]}, {"threads": 1}]
