"""The examples of the documentation: whole programs, each of which prints what stands below it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n\n^```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^## (.*)$", re.MULTILINE)


# What Ray says against itself is not ours to mend.
PAGES = {"hosts.md": ["-W", "error"], "ray.md": ["-W", "error", "-W", "ignore::DeprecationWarning"]}


def examples(name: str) -> list[tuple[str, str, str]]:
    """Of each example the heading that it stands under, the program and what it prints."""
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    found = [(HEADING.findall(page[: match.start()])[-1], *match.groups()) for match in EXAMPLE.finditer(page)]
    assert len(found) == page.count("```python")
    return found


@pytest.mark.parametrize(
    ("program", "printed", "warnings"),
    [
        pytest.param(*example[1:], warnings, id=example[0])
        for name, warnings in PAGES.items()
        for example in examples(name)
    ],
)
def test_an_example_prints_what_stands_below_it(
    program: str, printed: str, warnings: list[str], tmp_path: Path
) -> None:
    script = tmp_path / "example.py"
    script.write_text(program, encoding="utf-8")
    command = [sys.executable, *warnings, str(script)]
    # An example begins a cluster of its own, whatever else runs on this machine.
    told = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_ADDRESS": "local"}
    done = subprocess.run(command, cwd=ROOT, env=told, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
