"""Writes the tables of README.md and docs/benchmarks.md from the records under bench/record.

On a page, a comment names the measurement and the columns to show, and everything down to the second comment is written:

    <!-- record: encoder, 640 rows | side | least cosine -->
    <!-- end of record -->

For each machine's record, the newest first, that is a line with the processor, the date and the commit, and every table of
the record that has all these columns, in this order, and whose introduction begins with what the comment has after the
comma, if anything. `pages/s = pages a second` shows a column with another title. With `newest record`, it is the newest
alone, for readers who do not know the contenders: `SIDES` has their names, and the last column their order.
`<!-- value: quality | pullquote | share -->0.8<!-- end -->` is a cell of the newest record of a claim: its row and its column.
`<!-- goals missed -->` and `<!-- goals met -->` write the goals of all records. A missed goal needs a reason in bench/goals.py.

    .venv/bin/python bench/tables.py
    .venv/bin/python bench/tables.py --check
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.goals import REASONS

REPOSITORY = Path(__file__).resolve().parents[1]
RECORDS = REPOSITORY / "bench" / "record"
PAGES = [REPOSITORY / "README.md", REPOSITORY / "docs" / "benchmarks.md", REPOSITORY / "docs" / "quality.md"]

# What README calls the sides of records.
SIDES = {
    "pullquote": "pullquote, defaults",
    "pullquote, effort full": 'pullquote, `effort="full"`',
    "OpenVINO bfloat16": "OpenVINO in bfloat16",
    "ONNX Runtime float32": "ONNX Runtime in float32",
    "pipeline bfloat16": "sentence-transformers in bfloat16",
    "pipeline float32": "sentence-transformers in float32, as installed",
    "fastembed float32": "fastembed",
}

BLOCK = re.compile(
    r"<!-- (?P<kind>record|newest record|goals missed|goals met)(?:: (?P<names>[^\n]+))? -->\n"
    r"(?:(?!<!-- ).*\n)*?<!-- end of record -->"
)
VALUE = re.compile(r"(<!-- value: (\w+) \| ([^|\n]+) \| ([^|\n]+) -->)[^<\n]*(<!-- end -->)")
GOAL = re.compile(r"- goal (met|\*\*missed\*\*): (.+): (\S+) \((at .+)\)")


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal as a record states it."""

    what: str
    measured: str
    bounds: str
    is_met: bool


@dataclass(frozen=True, slots=True)
class Record:
    """What one machine measured of one claim."""

    path: Path
    claim: str
    date: str
    machine: str
    commit: str
    lines: list[str]

    def circumstances(self) -> str:
        """The processor, its instruction set, the day and the code; and whether other processes disturbed the run."""
        noise = ", not quiet" if any("the machine was not quiet" in line for line in self.lines) else ""
        return f"{self.machine}{noise}, {self.date[:10]}, commit {self.commit}"

    def link(self, page: Path, text: str) -> str:
        """A link from a page."""
        return f"[{text}]({os.path.relpath(self.path, page.parent)})"

    def goals(self) -> list[Goal]:
        """The goals, in the record's order."""
        found = filter(None, map(GOAL.fullmatch, self.lines))
        return [Goal(goal[2], goal[3], goal[4], goal[1] == "met") for goal in found]


def read_records(directory: Path) -> list[Record]:
    """All records, by claim, the newest first."""
    records = []
    for machine in sorted(path for path in directory.iterdir() if path.is_dir()):
        read = {path: _circumstances(path) for path in sorted(machine.glob("*.json"))}
        # Older records have a shorter name of the same processor.
        cpu = max((str(around["cpu"]) for around in read.values()), key=len, default="")
        for path, around in read.items():
            instructions = around.get("instruction_set")
            commit, *changes = str(around["commit"]).split(" ", 1)
            where = [
                cpu,
                f"`{instructions}`" if instructions else "instruction set not recorded",
                _cores(machine.name),
            ]
            lines = path.with_suffix(".md").read_text(encoding="utf-8").splitlines()
            code = " ".join([commit[:8], *changes])
            records.append(
                Record(path.with_suffix(".md"), path.stem, str(around["date"]), ", ".join(where), code, lines)
            )
    return sorted(sorted(records, key=lambda record: record.date, reverse=True), key=lambda record: record.claim)


def _circumstances(path: Path) -> dict[str, object]:
    raw: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    nested = raw.get("circumstances")
    return nested if isinstance(nested, dict) else raw


def _cores(machine: str) -> str:
    found = re.search(r"-(\d+)-cores", machine)
    return f"{found[1]} cores" if found else "cores not recorded"


def tables(record: Record, introduced_by: str, columns: list[tuple[str, str]], *, for_newcomers: bool) -> list[str]:
    """The tables with these columns, given as name and title, each after the line that introduces it.

    Newcomers get the rows in the order of the last column, with names that say what the sides are.
    """
    found: list[str] = []
    introduction, at = "", 0
    while at < len(record.lines):
        if not record.lines[at].startswith("|"):
            introduction = record.lines[at] or introduction
            at += 1
            continue
        end = next((end for end in range(at, len(record.lines)) if record.lines[end][:1] != "|"), len(record.lines))
        header, rule, *rows = (_cells(line) for line in record.lines[at:end])
        chosen = _positions(header, [name for name, _ in columns])
        if chosen and introduction.startswith(introduced_by):
            found += ["", introduction] if introduction.endswith(":") else []
            found += [
                "",
                f"| {' | '.join(title for _, title in columns)} |",
                f"|{'|'.join(rule[index] for index in chosen)}|",
            ]
            cells = [[row[index] for index in chosen] for row in rows]
            if for_newcomers:
                cells = [[SIDES.get(side, side), *others] for side, *others in sorted(cells, key=_number)]
            found += [f"| {' | '.join(row)} |" for row in cells]
        at = end
    return found


def _number(row: list[str]) -> float:
    """The number that the last cell begins with."""
    found = re.match(r"[\d.]+", row[-1])
    return float(found[0]) if found else 0.0


def _positions(header: list[str], columns: Iterable[str]) -> list[int]:
    """Where a header has the columns, from left to right; nothing if it lacks one. Two may have the same name."""
    found: list[int] = []
    start = 0
    for column in columns:
        if column not in header[start:]:
            return []
        found.append(header.index(column, start))
        start = found[-1] + 1
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def filled(page: Path, text: str, records: list[Record]) -> str:
    """The page's text with its tables as the records have them. Raises `SystemExit` if no record has one of them."""

    def block(found: re.Match[str]) -> str:
        first, last = found[0].splitlines()[0], found[0].splitlines()[-1]
        if found["kind"].startswith("goals"):
            lines = list(_goals(page, records, are_met=found["kind"] == "goals met"))
        else:
            lines = list(_blocks(page, records, found["names"], newest=found["kind"] == "newest record"))
        return "\n".join([first, "", *lines, "", last])

    def value(found: re.Match[str]) -> str:
        start, claim, row, column, end = found.groups()
        return start + _value(page, records, claim, (row, column)) + end

    return VALUE.sub(value, BLOCK.sub(block, text))


def _value(page: Path, records: list[Record], claim: str, at: tuple[str, str]) -> str:
    """The cell of a row and a column in the newest record that has them."""
    row, column = at
    for record in records:
        columns: list[str] = []
        for line in record.lines if record.claim == claim else []:
            cells = _cells(line) if line.startswith("|") else []
            if column in cells:
                columns = cells
            elif len(cells) == len(columns) and cells[:1] == [row]:
                return cells[columns.index(column)]
    sys.exit(f"{page.name}: no record of {claim} has a row {row!r} with a column {column!r}")


def _blocks(page: Path, records: list[Record], names: str, *, newest: bool) -> Iterator[str]:
    source, *parts = names.split(" | ")
    claim, _, introduced_by = source.partition(", ")
    columns = [(name, title or name) for name, _, title in (part.partition(" = ") for part in parts)]
    having = [
        (record, found)
        for record in records
        if record.claim == claim and (found := tables(record, introduced_by, columns, for_newcomers=newest))
    ]
    if not having:
        sys.exit(f"{page.name}: no record of {source} has a table with the columns {', '.join(parts)}")
    for number, (record, found) in enumerate(having[:1] if newest else having):
        yield from ([""] if number else [])
        yield f"**{record.circumstances()}** ({record.link(page, 'record')})"
        yield from found


def _goals(page: Path, records: list[Record], *, are_met: bool) -> Iterator[str]:
    yield f"| measurement | goal | measured | wanted | {'' if are_met else 'reason | '}measured on |"
    yield f"|---|---|---:|---|---|{'' if are_met else '---|'}"
    for record, goal in _all_goals(records):
        if goal.is_met == are_met:
            reason = [] if are_met else [REASONS.get(record.claim, {}).get(goal.what, "**none yet**")]
            name = record.link(page, record.claim)
            yield f"| {' | '.join([name, goal.what, goal.measured, goal.bounds, *reason, record.circumstances()])} |"


def _all_goals(records: Iterable[Record]) -> list[tuple[Record, Goal]]:
    return [(record, goal) for record in records for goal in record.goals()]


def wrong_reasons(records: list[Record]) -> list[str]:
    """Missed goals without a reason, and reasons of goals that no record misses."""
    missed = {(record.claim, goal.what) for record, goal in _all_goals(records) if not goal.is_met}
    reasons = {(claim, what) for claim, of_claim in REASONS.items() for what in of_claim}
    return [
        *(f"{claim}: the missed goal {what!r} needs a reason" for claim, what in sorted(missed - reasons)),
        *(f"{claim}: {what!r} has a reason, but no record misses it" for claim, what in sorted(reasons - missed)),
    ]


def main() -> None:
    """Write the pages, or compare them with the records."""
    parser = argparse.ArgumentParser(description="Write the tables of README and docs/benchmarks from the records.")
    parser.add_argument("--check", action="store_true", help="change nothing, and fail where a page differs")
    arguments = parser.parse_args()
    records = read_records(RECORDS)
    wrong = [f"bench/goals.py: {line}" for line in wrong_reasons(records)]
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        made = filled(page, text, records)
        if arguments.check and made != text:
            wrong.append(f"{page.name} differs from the records: run bench/tables.py")
        elif made != text:
            page.write_text(made, encoding="utf-8")
            print(f"wrote {page.name}")
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
