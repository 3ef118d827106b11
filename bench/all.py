"""Runs the benchmarks that have no record of the present code on this machine, one after the other, and writes the tables.

The list is that of bench/README.md: those without a star. A record is of the present code if nothing of what all benchmarks
measure, and not the benchmark's own file, differs from the record's commit. So a run that was stopped, or in which one
failed, goes on at the next call. A failure does not stop the others; the last lines name it.

    .venv/bin/python bench/all.py
    .venv/bin/python bench/all.py growth wire
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record

MEASURED = ["rust", "python", "packages", "Cargo.toml", "Cargo.lock"]
# The evaluation sets that these take, if they are there; else they take texts that every checkout has.
SETS = Path("../shared/eval/pages")
# What precedes them, and their names.
TAKES = {
    "whole_pages": (["--pages"], ["*.jsonl.gz"]),
    "stored_search": (["--pages"], [f"{name}.jsonl.gz" for name in ("squad_pages", "hotpot_pages", "clapnq", "selqa")]),
    "quality": (["--reference", str(SETS.parent / "reference.jsonl")], ["*.jsonl.gz"]),
}
# These measure nothing else.
NEED_SETS = {"quality"}
# Seconds in which a benchmark that is stopped may end its servers.
GRACE = 10.0
# Seconds after which one is stopped: three times what the longest took on a Zen 5. A rival may wait forever.
LONGEST = 2700.0


def listed(repository: Path) -> list[str]:
    """The names of the benchmarks in the first table of bench/README.md, without those that have a star."""
    text = (repository / "bench" / "README.md").read_text(encoding="utf-8").partition("The other files")[0]
    table = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    return [name for name, star in re.findall(r"`(\w+)\.py`(\*?)", table) if not star]


def read(path: Path) -> dict[str, object]:
    """A record's numbers; nothing if there is no record."""
    if not path.exists():
        return {}
    raw: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return raw


def is_current(name: str, repository: Path, records: Path) -> bool:
    """Whether a benchmark has a record of the present code. One of code that was not committed is of no known code."""
    commit = str(read(records / f"{name}.json").get("commit", ""))
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        return False
    paths = [*MEASURED, f"bench/{name}.py"]
    compared = subprocess.run(
        ["git", "diff", "--quiet", commit, "--", *paths], cwd=repository, check=False, stderr=subprocess.DEVNULL
    )
    return compared.returncode == 0


def estimate(names: list[str], records: Path) -> str:
    """How long the benchmarks took when their records were made."""
    known = [float(str(seconds)) for name in names if (seconds := read(records / f"{name}.json").get("duration"))]
    unknown = len(names) - len(known)
    return f"{minutes(sum(known))} for {len(known)} of them" + (f", {unknown} never timed" if unknown else "")


def minutes(seconds: float) -> str:
    """A time for people."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


def sets(name: str, repository: Path) -> list[str]:
    """The arguments that give a benchmark its evaluation sets; none if it takes none, or they are not there."""
    flags, patterns = TAKES.get(name, ([], []))
    files = [str(path) for pattern in patterns for path in sorted((repository / SETS).glob(pattern))]
    return [*flags, *files] if files else []


def run(name: str, repository: Path) -> int:
    """Run a benchmark, and return its exit status; 124 if it was stopped. Ctrl-C stops it with all of its processes."""
    command = [sys.executable, str(repository / "bench" / f"{name}.py"), *sets(name, repository)]
    # In a session of its own, so that Ctrl-C reaches it once, from here.
    process = subprocess.Popen(command, cwd=repository, start_new_session=True)
    try:
        return process.wait(LONGEST)
    except subprocess.TimeoutExpired:
        stop(process)
        return 124
    except KeyboardInterrupt:
        stop(process)
        raise


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a benchmark with all of its processes."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with suppress(ProcessLookupError, subprocess.TimeoutExpired, KeyboardInterrupt):
            os.killpg(process.pid, number)
            process.wait(GRACE)


def run_all(names: list[str], repository: Path) -> list[str]:
    """Run benchmarks in turn, and print the time of each; return what went wrong."""
    failures = []
    for number, name in enumerate(names, 1):
        print(f"[{number} of {len(names)}] {name}", file=sys.stderr)
        began = time.monotonic()
        status = run(name, repository)
        took = f"{name}: {minutes(time.monotonic() - began)}"
        print(took, file=sys.stderr)
        if status != 0:
            failures.append(f"{took}, exit status {status}")
    return failures


def main(repository: Path = record.REPOSITORY, records: Path | None = None) -> None:
    """Run what is named, or what has no record of the present code; then write the tables."""
    # A shell's background jobs start with Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    names = [name for name in listed(repository) if name not in NEED_SETS or sets(name, repository)]
    parser = argparse.ArgumentParser(description="Run the benchmarks that have no record of the present code.")
    parser.add_argument(
        "names", nargs="*", choices=[[], *names], metavar="name", help="run these, with a record or without"
    )
    chosen = parser.parse_args().names
    records = records or record.directory()
    # Both end a benchmark with its servers.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    todo = chosen or [name for name in names if not is_current(name, repository, records)]
    print(f"{len(todo)} of {len(names)} benchmarks to run, last time {estimate(todo, records)}", file=sys.stderr)
    try:
        failures = run_all(todo, repository)
    except KeyboardInterrupt:
        print("stopped; the next call goes on here", file=sys.stderr)
        sys.exit(130)
    written = subprocess.run([sys.executable, str(repository / "bench" / "tables.py")], cwd=repository, check=False)
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    sys.exit(1 if failures or written.returncode else 0)


if __name__ == "__main__":
    main()
