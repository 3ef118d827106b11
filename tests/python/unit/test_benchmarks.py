"""`make bench`: which benchmarks run, how a run goes on, and the tables that are made of records."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from bench import all as runner  # noqa: E402 - needs the path
from bench import goals, tables  # noqa: E402

# Writes its record with the commit, as `bench.record.publish` does.
BENCHMARK = """
import json, pathlib, subprocess
commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
record = pathlib.Path("record/{name}.json")
record.parent.mkdir(exist_ok=True)
record.write_text(json.dumps({{"commit": commit, "duration": 90}}))
with open("record/runs", "a") as runs:
    runs.write("{name} ")
"""
README = """Of these, `fast.py` is fast.

| `fast.py`, `slow.py` | two |
| `broken.py` | one that fails |
| `starred.py`* | needs a card |

The other files are shared: `record.py`.
"""
DRIVER = """
import pathlib, sys
sys.path.insert(0, {root!r})
from bench import all
all.main(pathlib.Path.cwd(), pathlib.Path("record").absolute())
"""


def git(repository: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=repository, check=True, capture_output=True)


def drive(repository: Path, *names: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", DRIVER.format(root=str(ROOT)), *names]
    return subprocess.run(command, cwd=repository, check=False, capture_output=True, text=True)


def runs(repository: Path) -> list[str]:
    return (repository / "record/runs").read_text().split()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with benchmarks that take no time; one of them fails."""
    tmp_path = tmp_path / "repository"
    (tmp_path / "bench").mkdir(parents=True)
    (tmp_path / "rust").mkdir()
    (tmp_path / "rust/lib.rs").write_text("1\n")
    (tmp_path / "bench/README.md").write_text(README)
    for name in ("fast", "slow"):
        (tmp_path / f"bench/{name}.py").write_text(BENCHMARK.format(name=name))
    (tmp_path / "bench/broken.py").write_text("import sys; sys.exit('wrk is missing')\n")
    (tmp_path / "bench/tables.py").write_text("print('tables')\n")
    (tmp_path / ".gitignore").write_text("record/\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    return tmp_path


def test_run_goes_on_after_a_failure_and_is_resumed(repository: Path) -> None:
    first = drive(repository)
    assert first.returncode == 1
    assert runs(repository) == ["fast", "slow"]
    assert "wrk is missing" in first.stderr
    assert "failed: broken" in first.stderr
    assert "tables" in first.stdout
    (repository / "bench/broken.py").write_text(BENCHMARK.format(name="broken"))
    second = drive(repository)
    assert second.returncode == 0, second.stderr
    assert runs(repository) == ["fast", "slow", "broken"]
    assert "1 of 3 benchmarks" in second.stderr


def test_benchmark_that_never_ends_is_stopped(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "bench/fast.py").write_text("import time; time.sleep(600)\n")
    monkeypatch.setattr(runner, "LONGEST", 0.5)
    assert runner.run("fast", repository) == 124


def test_records_of_other_code_are_replaced(repository: Path) -> None:
    drive(repository)
    (repository / "README.md").write_text("text changes no number\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "text")
    assert drive(repository).stderr.startswith("1 of 3 benchmarks")
    (repository / "bench/fast.py").write_text(BENCHMARK.format(name="fast") + "\n")
    assert drive(repository).stderr.startswith("2 of 3 benchmarks to run, last time 90 s for 1 of them, 1 never timed")
    (repository / "rust/lib.rs").write_text("2\n")
    assert drive(repository).stderr.startswith("3 of 3 benchmarks")


@pytest.mark.parametrize("commit", ["unknown", "0" * 40, "HEAD and changes not committed"])
def test_record_of_unknown_code_is_not_current(commit: str, repository: Path) -> None:
    (repository / "record").mkdir()
    (repository / "record/fast.json").write_text(json.dumps({"commit": commit}))
    assert not runner.is_current("fast", repository, repository / "record")


def test_only_what_is_named_runs(repository: Path) -> None:
    assert drive(repository, "slow").returncode == 0
    assert drive(repository, "slow").returncode == 0
    assert runs(repository) == ["slow", "slow"]
    assert drive(repository, "starred").returncode == 2


def test_evaluation_sets_are_taken_where_they_are(repository: Path) -> None:
    sets = repository / runner.SETS
    program = "import sys; open('record/arguments', 'w').write(' '.join(sys.argv[1:]))\n"
    (repository / "record").mkdir()
    (repository / "bench/whole_pages.py").write_text(program)
    assert runner.run("whole_pages", repository) == 0
    assert (repository / "record/arguments").read_text() == ""
    sets.mkdir(parents=True)
    (sets / "a.jsonl.gz").touch()
    assert runner.run("whole_pages", repository) == 0
    assert (repository / "record/arguments").read_text() == f"--pages {sets / 'a.jsonl.gz'}"


def test_benchmark_that_needs_sets_is_left_out_without_them(repository: Path) -> None:
    (repository / "bench/README.md").write_text("| `quality.py`, `fast.py` | sets |\n")
    (repository / "bench/quality.py").write_text(BENCHMARK.format(name="quality"))
    git(repository, "commit", "--quiet", "-am", "needs sets")
    drive(repository)
    assert runs(repository) == ["fast"]
    sets = repository / runner.SETS
    sets.mkdir(parents=True)
    (sets / "a.jsonl.gz").touch()
    drive(repository)
    assert runs(repository) == ["fast", "quality"]


def test_ctrl_c_stops_the_benchmark_and_the_next_call_goes_on(repository: Path) -> None:
    sleeps = "import time; open('record/started', 'w').close(); time.sleep(600)\n"
    (repository / "bench/slow.py").write_text(sleeps)
    git(repository, "commit", "--quiet", "-am", "sleeps")
    command = [sys.executable, "-c", DRIVER.format(root=str(ROOT))]
    with subprocess.Popen(command, cwd=repository, stderr=subprocess.PIPE, text=True) as driver:
        while not (repository / "record/started").exists():
            assert driver.poll() is None
            time.sleep(0.01)
        driver.send_signal(signal.SIGINT)
        _, errors = driver.communicate(timeout=30)
    assert driver.returncode == 130
    assert "KeyboardInterrupt" in errors, "the benchmark could end its servers"
    (repository / "bench/slow.py").write_text(BENCHMARK.format(name="slow"))
    git(repository, "commit", "--quiet", "-am", "is fast")
    drive(repository)
    assert runs(repository) == ["fast", "slow"]


RECORD = """# speed

640 rows:

| side | tokens | least |
|---|---:|---:|
| ours | 9 | 1.0 |

| ours | ratio | ratio |
|---|---:|---:|
| a | 2 | 3 |

320 rows:

| side | tokens | least |
|---|---:|---:|
| ours | 8 | 0.9 |

- goal met: texts: a second: 9.0 (at least 5.0)
- goal **missed**: least: 0.9% (at least 1.0% and at most 2.0%)
- **the machine was not quiet, so these numbers are noise:** other processes used at most 0.73 cores during a run
"""
CIRCUMSTANCES = {"cpu": "AMD EPYC", "commit": "0123456789abcdef and changes not committed"}


@pytest.fixture
def records(tmp_path: Path) -> list[tables.Record]:
    """A record of an older processor with all that is known, and a newer one without instruction set."""
    for machine, around in {
        "old-4-cores": {"date": "2026-11-21T01:00:00", "instruction_set": "avx2", "cpu": "AMD EPYC Zen 3"},
        "new-2-cores": {"date": "2026-11-22T01:00:00"},
    }.items():
        folder = tmp_path / "record" / machine
        folder.mkdir(parents=True)
        (folder / "speed.json").write_text(json.dumps(CIRCUMSTANCES | around))
        (folder / "speed.md").write_text(RECORD)
    return tables.read_records(tmp_path / "record")


def fill(marker: str, records: list[tables.Record], tmp_path: Path) -> list[str]:
    text = f"before\n\n<!-- {marker} -->\nstale\n<!-- end of record -->\n\nafter\n"
    filled = tables.filled(tmp_path / "docs/page.md", text, records)
    assert tables.filled(tmp_path / "docs/page.md", filled, records) == filled
    lines = filled.splitlines()
    assert lines[:3] == ["before", "", f"<!-- {marker} -->"]
    assert lines[-3:] == ["<!-- end of record -->", "", "after"]
    assert "stale" not in lines
    return [line for line in lines[3:-3] if line]


def test_tables_say_processor_instruction_set_date_and_commit(records: list[tables.Record], tmp_path: Path) -> None:
    assert fill("record: speed, 640 | side | least = worst", records, tmp_path) == [
        "**AMD EPYC, instruction set not recorded, 2 cores, not quiet, 2026-11-22, commit 01234567 and changes not committed** "
        "([record](../record/new-2-cores/speed.md))",
        "640 rows:",
        "| side | worst |",
        "|---|---:|",
        "| ours | 1.0 |",
        "**AMD EPYC Zen 3, `avx2`, 4 cores, not quiet, 2026-11-21, commit 01234567 and changes not committed** "
        "([record](../record/old-4-cores/speed.md))",
        "640 rows:",
        "| side | worst |",
        "|---|---:|",
        "| ours | 1.0 |",
    ]


def test_columns_of_the_same_name_are_told_apart(records: list[tables.Record], tmp_path: Path) -> None:
    lines = fill("newest record: speed | ours | ratio | ratio", records, tmp_path)
    assert lines[1:] == ["640 rows:", "| ours | ratio | ratio |", "|---|---:|---:|", "| a | 2 | 3 |"]
    assert len(fill("newest record: speed | side | tokens", records, tmp_path)) == 9


def test_value_in_a_sentence_is_that_of_the_newest_record(records: list[tables.Record], tmp_path: Path) -> None:
    page = tmp_path / "docs/page.md"
    text = "It takes <!-- value: speed | ours | least -->2.0<!-- end --> s, and <!-- value: speed | a | ratio --><!-- end -->.\n"
    filled = tables.filled(page, text, records)
    assert filled == text.replace("2.0", "1.0").replace("ratio --><", "ratio -->2<")
    assert tables.filled(page, filled, records) == filled
    for marker in ("speed | theirs | least", "speed | ours | most", "other | ours | least"):
        with pytest.raises(SystemExit, match=r"page\.md"):
            tables.filled(page, f"<!-- value: {marker} -->1<!-- end -->", records)


def test_table_without_a_record_is_an_error(records: list[tables.Record], tmp_path: Path) -> None:
    for marker in ("record: speed | side | nothing", "record: other | side", "record: speed, 100 rows | side"):
        with pytest.raises(SystemExit, match=r"page\.md"):
            fill(marker, records, tmp_path)


def test_goals_are_listed_with_reasons(
    records: list[tables.Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "REASONS", {"speed": {"least": "a slow disk"}})
    missed = fill("goals missed", records, tmp_path)
    assert len(missed) == 4
    assert "| least | 0.9% | at least 1.0% and at most 2.0% | a slow disk | AMD EPYC, " in missed[2]
    met = fill("goals met", records, tmp_path)
    assert "| texts: a second | 9.0 | at least 5.0 | AMD EPYC, " in met[2]
    assert tables.wrong_reasons(records) == []


def test_missed_goals_need_reasons_and_met_ones_have_none(
    records: list[tables.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "REASONS", {"speed": {"texts: a second": "met meanwhile"}})
    assert [line.split(":")[0] for line in tables.wrong_reasons(records)] == ["speed", "speed"]


def test_pages_have_the_tables_of_the_records() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench/tables.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_goal_is_read_as_it_is_written(tmp_path: Path) -> None:
    goal = goals.Goal("a: ratio", 0.5, least=1, most=2)
    record = tables.Record(tmp_path, "speed", "", "", "", [goal.line()])
    assert record.goals() == [tables.Goal("a: ratio", "0.50", "at least 1.00 and at most 2.00", False)]
