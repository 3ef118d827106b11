"""Jobs: every row is answered once, even after kills, and finished files are not done again."""

import errno
import json
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from pullquote import Highlighter, _cli, errors
from pullquote._models.choice import embedded_model
from pullquote._progress_bar import ProgressBar
from pullquote.jobs._inputs import Columns, find_files
from pullquote.jobs._job import Job
from pullquote.jobs._records import job_status, start_job
from pullquote.jobs._run import FileProgress, run_files
from pullquote.jobs._store import OutputStore, UnwritableOutputError
from support.fake_letter_encoder import letters
from support.job_files import (
    QUESTIONS,
    arguments,
    command,
    ids,
    lines,
    outputs,
    pages,
    read_lines,
    records,
    run,
    write_input,
)
from support.messages import names_all, raises

KILLS = 10
# Forks of a process that has imported everything start within 10 ms.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["pullquote._cli.job_run", "pytest.__main__"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("jobs") / "input"
    write_input(made, 40)
    return made


@pytest.fixture(scope="module")
def undisturbed(folder: Path) -> Path:
    output = folder.parent / "undisturbed"
    assert run(*arguments(folder, output)) == 0
    return output


def test_each_row_has_answer_or_error(undisturbed: Path) -> None:
    found = outputs(undisturbed)
    names = ["a.parquet", "d.ndjson.zst", "deep/b.jsonl", "deep/deeper/c.jsonl.gz", "empty.jsonl"]
    assert sorted(found) == ["_errors/a.parquet.jsonl", "_errors/deep/b.jsonl.jsonl", *names]
    for name, seed in zip(names[:4], [1, 5, 2, 4], strict=True):
        expected = pages(40, seed) + (pages(3, 3) if seed == 2 else [])
        assert ids(name, found[name]) == [row["id"] for row in expected for _ in QUESTIONS]
    wrong = read_lines("", found["_errors/a.parquet.jsonl"])
    assert [(row["row"], row["id"], row["query"]) for row in wrong] == [(40, "null", query) for query in QUESTIONS]
    assert all(names_all(row["error"], "InvalidTextError", "text", "null") for row in wrong)
    wrong = read_lines("", found["_errors/deep/b.jsonl.jsonl"])
    assert [(row["row"], row["id"]) for row in wrong] == [(40, None), (41, None), (42, 7)]
    assert all(names_all(row["error"], name) for row, name in zip(wrong, ["JSON", "object", "string"], strict=True))


def test_job_answers_match_highlights(undisturbed: Path) -> None:
    found = outputs(undisturbed)
    rows = parquet.read_table(pa.BufferReader(found["a.parquet"])).to_pylist() + read_lines("", found["deep/b.jsonl"])
    texts = {row["id"]: row["text"] for seed in (1, 2) for row in pages(40, seed)}
    with Highlighter(encoder=letters) as highlighter:
        for row in rows[:20] + rows[-40:-20]:
            alone = highlighter.highlights(row["query"], [texts[row["id"]]])
            told = [(h["text"], h["start"], h["end"], h["score"]) for h in row["highlights"]]
            assert told == [(h.text, h.start, h.end, pytest.approx(h.score, abs=1e-5)) for h in alone[0]]
            assert row["windows"] == alone.work.windows


@pytest.mark.slow
def test_killed_job_resumes(tmp_path: Path) -> None:
    write_input(tmp_path / "input", 100)
    rng = random.Random(8)
    expected_in = tmp_path / "expected"
    assert run(*arguments(tmp_path / "input", expected_in)) == 0
    expected, expected_records = outputs(expected_in), records(expected_in)

    def begun(number: int) -> tuple[Path, Any]:
        output = tmp_path / f"output-{number}"
        process = FORKS.Process(target=_cli.main, args=(command(*arguments(tmp_path / "input", output)),))
        process.start()
        return output, process

    for number in (0, 1):
        # The first one also waits for the fork server.
        began = time.monotonic()
        _, process = begun(number)
        process.join(120)
        assert process.exitcode == 0
        whole = time.monotonic() - began

    number, kills = 2, 0
    done: dict[str, tuple[int, int]] = {}
    while kills < KILLS:
        output, process = begun(number)
        process.join(rng.uniform(0.0, whole))
        if process.exitcode is None:
            process.kill()
            process.join(60)
            kills += process.exitcode == -signal.SIGKILL
        assert process.exitcode in {0, -signal.SIGKILL}
        now = finished(output)
        # Finished files are not written again.
        assert {name: now[name] for name in done} == done
        assert all(content == expected[name] for name, content in outputs(output).items())
        done = now
        if process.exitcode == 0:
            assert outputs(output) == expected
            number, done = number + 1, {}
    output, process = begun(number)
    process.join(120)
    assert process.exitcode == 0
    assert {name: finished(output)[name] for name in done} == done
    assert outputs(output) == expected
    assert {
        name.replace(output.name, "expected"): content for name, content in records(output).items()
    } == expected_records


def finished(output: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of each finished output, which change if it is written again."""
    names = [json.loads(record)["output"] for record in records(output).values()]
    found = [(name, (output / name).stat()) for name in names]
    return {name: (status.st_ino, status.st_mtime_ns) for name, status in found}


def test_rerun_redoes_only_changed_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_input(tmp_path / "input", 5)
    job = arguments(tmp_path / "input", tmp_path / "output")
    assert run(*job) == 0
    before = finished(tmp_path / "output")
    # A new time with the same content.
    os.utime(tmp_path / "input" / "d.ndjson.zst", (1, 1))
    (tmp_path / "input" / "deep" / "b.jsonl").write_bytes(lines(pages(2, 9)))
    (tmp_path / "input" / "new.jsonl").write_bytes(lines(pages(1, 10)))
    (tmp_path / "output" / "empty.jsonl").unlink()
    capsys.readouterr()
    assert run(*job, "--json") == 0
    assert json.loads(capsys.readouterr().out)["pages_now"] == 3
    after = finished(tmp_path / "output")
    assert {name for name in after if after[name] != before.get(name)} == {"deep/b.jsonl", "new.jsonl", "empty.jsonl"}
    assert not (tmp_path / "output" / "_errors" / "deep" / "b.jsonl.jsonl").exists()


def test_unreadable_file_is_retried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_input(tmp_path / "input", 5)
    cut = tmp_path / "input" / "deep" / "deeper" / "c.jsonl.gz"
    whole = cut.read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    parquet.write_table(pa.table({"id": [1], "body": ["x"]}), tmp_path / "input" / "other.parquet")
    parquet.write_table(pa.table({"id": [1], "text": [7]}), tmp_path / "input" / "wrong [1] #2.parquet")
    job = arguments(tmp_path / "input", tmp_path / "output")
    assert run(*job) == errors.InvalidTextError.exit_code
    captured = capsys.readouterr()
    assert names_all(captured.err, "other.parquet: InvalidTextError", "text", "id", "body")
    assert names_all(captured.err, "wrong [1] #2.parquet", "text", "Int64")
    assert names_all(captured.out, "4 of 7")
    failed = {"deep/deeper/c.jsonl.gz", "other.parquet", "wrong [1] #2.parquet"}
    assert not failed & outputs(tmp_path / "output").keys()
    assert job_status(OutputStore(str(tmp_path / "output"))).failed.keys() == failed
    cut.write_bytes(whole)
    (tmp_path / "input" / "other.parquet").unlink()
    parquet.write_table(pa.table({"id": [1], "text": ["x"]}), tmp_path / "input" / "wrong [1] #2.parquet")
    assert run(*job) == 0
    assert ids("x.parquet", outputs(tmp_path / "output")["wrong [1] #2.parquet"]) == [1, 1]


@pytest.mark.parametrize("option", ["--text", "--id", "--title", "--query-column"])
def test_missing_column_is_named_before_anything_is_written(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(lines([*pages(2, 1), {"body": "only here"}]))
    job = ["--input", tmp_path / "*.jsonl", "--output", tmp_path / "found", option, "boddy"]
    job += [] if option == "--query-column" else ["-q", "bread"]
    assert run(*job) == errors.InvalidTextError.exit_code
    assert names_all(capsys.readouterr().err, "a.jsonl", "'boddy'", "'id', 'text', 'other', 'body'")
    assert not (tmp_path / "found").exists()


def test_job_without_an_answer_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines([{"text": None}, {"text": 7}]))
    job = ["--input", tmp_path / "a.jsonl", "--output", f"{tmp_path}/found/", "-q", "bread"]
    for _ in range(2):
        assert run(*job) == errors.InvalidTextError.exit_code
        printed = capsys.readouterr().out
        assert names_all(printed, "1 of 1 files done", "2 rows with an error", f"{tmp_path}/found/_errors")
        assert "running" not in printed


@pytest.mark.parametrize("source", [".", "*.jsonl", "a.jsonl"])
def test_folder_of_the_input_is_no_output(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(pages(1, 1)))
    job = ["--input", tmp_path / source, "--output", tmp_path, "-q", "bread"]
    assert run(*job) == errors.InvalidArgumentError.exit_code
    assert names_all(capsys.readouterr().err, "--input", "--output", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize("output", ["./in/../in", "link", "in/x/..", "linked"])
def test_input_is_never_overwritten(output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = '{"text": "Bread is baked."}\n'
    for name in ("in/x/a.jsonl", "in/b.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(page)
    (tmp_path / "link").symlink_to(tmp_path / "in")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/x").symlink_to(tmp_path / "in/x")
    assert run("--input", tmp_path / "in", "--output", f"{tmp_path}/{output}", "-q", "bread") == 2
    assert "--output" in capsys.readouterr().err or output == "linked"
    assert [(tmp_path / name).read_text() for name in ("in/x/a.jsonl", "in/b.jsonl")] == [page, page]


def test_links_to_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "real.jsonl").write_text('{"text": "Bread is baked."}\n')
    (tmp_path / "in/a.jsonl").symlink_to("../real.jsonl")
    for source in ("in", "in/*.jsonl"):
        assert [file.name for file in find_files(str(tmp_path / source))] == ["a.jsonl"]
    (tmp_path / "in/lost.jsonl").symlink_to("nowhere")
    with raises(errors.NotFoundError, "lost.jsonl", "nowhere"):
        find_files(str(tmp_path / "in"))


def test_files_that_no_job_wrote_are_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("in", "mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jsonl").write_text('{"text": "Bread is baked."}\n')
    assert run("--input", tmp_path / "in", "--output", tmp_path / "mine", "-q", "bread") == 2
    assert names_all(capsys.readouterr().err, "a.jsonl", "mine")
    assert (tmp_path / "mine/a.jsonl").read_text() == '{"text": "Bread is baked."}\n'


def test_model_with_other_files_does_not_continue_job(tmp_path: Path) -> None:
    model, output = tmp_path / "model", tmp_path / "output"
    model.mkdir()
    for file in embedded_model().iterdir():
        (model / file.name).symlink_to(file)
    job = Job("input", str(output), questions=("moon?",), model=str(model))
    with job.highlighter() as highlighter:
        start_job(job.store, job.settings(highlighter), [])
    (model / "config_sentence_transformers.json").unlink()
    (model / "config_sentence_transformers.json").write_text('{"prompts": {"query": "ask: "}}')
    with job.highlighter() as changed, raises(errors.InvalidArgumentError, "model_id", changed.model_id):
        start_job(job.store, job.settings(changed), [])


def test_interrupted_job_says_that_it_continues(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pullquote._cli.job_run.run_files", interrupted)
    assert run(*arguments(folder, tmp_path)) == 130
    assert names_all(capsys.readouterr().err, "interrupted", "same command")


def test_job_without_a_terminal_writes_a_line_at_once(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(*arguments(folder, tmp_path))
    assert capsys.readouterr().err.startswith("pullquote: 0%")


def test_progress_without_a_terminal_is_a_line_each_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("pullquote._progress_bar.time", SimpleNamespace(monotonic=lambda: now[0]))
    bar = ProgressBar(200, "byte", writes_lines=True)
    for now[0], count in ((0.0, 0), (30.0, 20), (61.0, 40), (119.0, 20), (122.0, 20)):
        bar.update(count)
    bar.clear()
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0] for line in lines] == ["pullquote: 0%", "pullquote: 30%", "pullquote: 50%"]
    assert "122 s left" in lines[-1]


def test_output_of_another_job_is_refused(folder: Path, undisturbed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = outputs(undisturbed)
    assert run(*arguments(folder, undisturbed), "-k", 5) == errors.InvalidArgumentError.exit_code
    assert names_all(capsys.readouterr().err, "options", "--top-k: null before, 5 now")
    with OutputStore(str(undisturbed)).lock():
        assert run(*arguments(folder, undisturbed)) == errors.OverloadedError.exit_code
        capsys.readouterr()
        assert run("--status", "--output", undisturbed, "--json") == 0
        assert json.loads(capsys.readouterr().out)["is_running"]
    assert outputs(undisturbed) == before


def test_status(undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--status", "--output", undisturbed) == 0
    printed = capsys.readouterr().out
    assert names_all(printed, "5 of 5 files", "100.0%", "167 pages", "326 answers", "5 rows")
    assert run("--status", "--output", tmp_path) == errors.NotFoundError.exit_code
    assert not any(tmp_path.iterdir())


def test_queries_file_and_query_column(tmp_path: Path) -> None:
    rows = [{"text": "Bread is baked. The moon is far.", "ask": ask, "name": "moon"} for ask in ("bread", None)]
    source = tmp_path / "pages.jsonl"
    source.write_bytes(lines(rows))
    job = ["--input", source, "--query-column", "ask", "--title", "name", "--output-format", "parquet"]
    assert run(*job, "--output", tmp_path / "columns", "--highlight-length", 1, "-k", 1, "--context", 1) == 0
    found = parquet.read_table(tmp_path / "columns" / "pages.jsonl.parquet").to_pylist()
    assert [(row["id"], row["query"]) for row in found] == [("0", "bread"), ("1", "moon")]
    assert [row["highlights"][0]["text"] for row in found] == ["Bread is baked.", "The moon is far."]
    assert found[0]["highlights"][0]["after"] == " The moon is far."
    questions = tmp_path / "questions.txt"
    questions.write_text("What is baked?\n\n  moon  \n")
    assert run("--input", source, "--queries", questions, "--output", tmp_path / "file") == 0
    found = read_lines("", (tmp_path / "file" / "pages.jsonl").read_bytes())
    assert [(row["id"], row["query"]) for row in found] == [
        (row, query) for row in (0, 1) for query in ("What is baked?", "moon")
    ]


def test_fsspec_input_and_output(folder: Path, undisturbed: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(folder), "memory://input", recursive=True)
    assert run(*arguments(Path("memory://input"), "memory://output")[2:], "--input", "memory://input/**/*.jsonl*") == 0
    for name in ("deep/b.jsonl", "deep/deeper/c.jsonl.gz"):
        assert memory.cat(f"memory://output/{name}") == (undisturbed / name).read_bytes()
    assert memory.find("memory://output/_pullquote/unfinished") == []
    assert job_status(OutputStore("memory://output")).files_done == 4


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--output", "x"], ["--input"]),
        (["--input", "x", "--output", "y"], ["--query-column"]),
        (["--input", "x", "--output", "y", "-q", "a", "--query-column", "b"], ["--query-column"]),
        (["--input", "*.txt", "--output", "y", "-q", "a"], ["empty.txt", "Parquet"]),
        (["--input", "x", "--output", "y", "--queries", "empty.txt"], ["empty.txt"]),
        (["--input", "a.*", "--output", "y", "-q", "a", "--output-format", "parquet"], ["a.jsonl.parquet"]),
        (["--input", "a.jsonl", "--output", "y", "-q", "a", "-k", "0"], ["--top-k", 0]),
        (["--input", "a.jsonl", "--output", "y", "-q", " "], ["query[0]"]),
    ],
)
def test_invalid_job_arguments_are_errors(
    arguments: list[str],
    names: list[object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "a.jsonl").write_bytes(lines(pages(1, 1)))
    (tmp_path / "a.jsonl.parquet").write_bytes(b"")
    assert run(*arguments) == errors.InvalidArgumentError.exit_code
    assert names_all(capsys.readouterr().err, *names)
    # Neither a lock nor a directory.
    assert not (tmp_path / "y").exists()


@pytest.mark.parametrize(
    ("arguments", "exit_code", "name"),
    [
        (["--input", "nowhere", "--output", "y", "-q", "a"], errors.NotFoundError.exit_code, "nowhere"),
        (["--input", "empty", "--output", "y", "-q", "a"], errors.NotFoundError.exit_code, "empty"),
        (["--input", "a.jsonl", "--output", "y", "--queries", "nowhere.txt"], 66, "nowhere.txt"),
        (["--input", "a.jsonl", "--output", "a.jsonl/y", "-q", "a"], UnwritableOutputError.exit_code, "a.jsonl/y"),
        (["--input", "a.jsonl", "--output", "/proc/y", "-q", "a"], 73, "/proc/y"),
    ],
)
def test_job_without_input_or_output_has_their_exit_codes(
    arguments: list[str],
    exit_code: int,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.jsonl").write_bytes(lines(pages(1, 1)))
    assert run(*arguments) == exit_code
    assert names_all(capsys.readouterr().err, name)


def test_full_disk_ends_a_job_with_the_exit_code_of_its_output(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    assert run(*arguments(folder, tmp_path / "found")) == UnwritableOutputError.exit_code
    assert names_all(capsys.readouterr().err, tmp_path / "found", os.strerror(errno.ENOSPC))


def test_failed_write_leaves_no_output(folder: Path, tmp_path: Path) -> None:
    job = Job(str(folder), str(tmp_path), tuple(QUESTIONS), Columns(id="id"))
    files = find_files(job.input)

    def full(progress: FileProgress) -> None:
        message = f"no room for {progress.rows} rows"
        raise OSError(message)

    with Highlighter(encoder=letters) as highlighter, job.store.lock(), raises(OSError, "no room"):
        run_files(highlighter, job, files, full)
    assert outputs(tmp_path) == {}
    assert not list((tmp_path / "_pullquote" / "unfinished").iterdir())


def test_chunks_are_joined_in_one_file(
    folder: Path, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pullquote.jobs import _inputs

    monkeypatch.setattr(_inputs, "CHUNK_ROWS", 7)
    assert run(*arguments(folder, tmp_path)) == 0
    expected, found = outputs(undisturbed), outputs(tmp_path)
    assert found.keys() == expected.keys()
    tables = [parquet.read_table(pa.BufferReader(of["a.parquet"])) for of in (expected, found)]
    assert tables[0].equals(tables[1])
    for name in found.keys() - {"a.parquet"}:
        assert read_lines(name, found[name]) == read_lines(name, expected[name]), name
    assert found["d.ndjson.zst"] != expected["d.ndjson.zst"], "its chunks are compressed one by one"


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_stopped_job_goes_on_inside_a_file(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pullquote.jobs import _inputs, _run

    (tmp_path / "input").mkdir()
    parquet.write_table(pa.Table.from_pylist(pages(60, 1)), tmp_path / "input/a.parquet")
    (tmp_path / "input/b.jsonl").write_bytes(lines(pages(60, 2)))
    # Of lines, a chunk in the last block may be the last one.
    monkeypatch.setattr(_inputs, "BLOCK_BYTES", 256)
    monkeypatch.setattr(_inputs, "CHUNK_ROWS", 7)
    real, left, answered = _run._highlights, 1000, list[pa.Table]()

    def counted(highlighter: Highlighter, job: Job, table: pa.Table) -> pa.Table:
        if len(answered) >= left:
            raise errors.ClosedError("stopped")
        if len(table):
            answered.append(table)
        return real(highlighter, job, table)

    monkeypatch.setattr(_run, "_highlights", counted)
    assert run(*arguments(tmp_path / "input", tmp_path / "whole")) == 0
    whole = len(answered)
    assert whole == 18
    runs, status = 0, 1
    stopped = f"{kind}://{tmp_path}/stopped"
    while status != 0 and runs < 8:
        left, runs = len(answered) + 3, runs + 1
        status = run(*arguments(tmp_path / "input", stopped))
    assert status == 0
    assert runs >= 6
    # Without the answers that were kept, none of these runs could finish a file.
    assert len(answered) - whole <= whole + 2
    system = fsspec.filesystem(kind)
    found = {name: system.cat_file(name) for name in system.find(f"{tmp_path}/stopped")}
    assert not [name for name in found if name.endswith(".arrow")]
    assert {
        name.partition("/stopped/")[2]: content for name, content in found.items() if "_pullquote" not in name
    } == outputs(tmp_path / "whole")


def test_answers_of_an_earlier_file_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pullquote.jobs import _inputs, _run

    monkeypatch.setattr(_inputs, "BLOCK_BYTES", 256)
    monkeypatch.setattr(_inputs, "CHUNK_ROWS", 4)
    (tmp_path / "input").mkdir()
    file = tmp_path / "input/a.jsonl"
    file.write_bytes(lines(pages(40, 1)))
    real = _run._write

    def stopped(*_: Any) -> None:
        raise errors.ClosedError("stopped")

    monkeypatch.setattr(_run, "_write", stopped)
    assert run(*arguments(file, tmp_path / "output")) != 0
    assert list((tmp_path / "output/_pullquote/parts").rglob("*.arrow"))
    monkeypatch.setattr(_run, "_write", real)
    file.write_bytes(lines(pages(40, 2)))
    assert run(*arguments(file, tmp_path / "output")) == 0
    assert run(*arguments(file, tmp_path / "fresh")) == 0
    assert outputs(tmp_path / "output") == outputs(tmp_path / "fresh")
    assert not list((tmp_path / "output/_pullquote").rglob("*.arrow"))


def test_chunk_rows_and_chunk_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pullquote.jobs import _inputs

    write_input(tmp_path, 100)
    whole = {file.name: list(_inputs.read_chunks(file, Columns(id="id"))) for file in find_files(str(tmp_path))}
    monkeypatch.setattr(_inputs, "CHUNK_ROWS", 7)
    monkeypatch.setattr(_inputs, "CHUNK_BYTES", 1500)
    for file in find_files(str(tmp_path)):
        chunks = list(_inputs.read_chunks(file, Columns(id="id")))
        assert [row for chunk in chunks for row in chunk.rows] == whole[file.name][0].rows
        assert pa.concat_tables(chunk.table for chunk in chunks).equals(whole[file.name][0].table)
        assert len(chunks) > 10 or file.name == "empty.jsonl"
        assert max(len(chunk.rows) for chunk in chunks) <= 7
        assert [chunk.share for chunk in chunks] == sorted(chunk.share for chunk in chunks)
        assert chunks[-1].share == 1.0


def test_output_that_is_a_file_is_named(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    code = _cli.main(["job", "--input", str(folder), "--output", str(taken), "-q", "cat", "--encoder", "builtins:len"])
    assert (code, names_all(capfd.readouterr().err, taken, "directory")) == (errors.StoreFullError.exit_code, True)
    assert taken.read_text() == "mine"
