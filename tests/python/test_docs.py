"""The examples of the documentation: whole programs, each of which prints what stands below it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n\n^```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^## (.*)$", re.MULTILINE)


def examples() -> list[tuple[str, str, str]]:
    """Of each example the heading that it stands under, the program and what it prints."""
    page = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")
    found = [(HEADING.findall(page[: match.start()])[-1], *match.groups()) for match in EXAMPLE.finditer(page)]
    assert len(found) == page.count("```python")
    return found


@pytest.mark.parametrize(
    ("program", "printed"), [example[1:] for example in examples()], ids=[e[0] for e in examples()]
)
def test_an_example_prints_what_stands_below_it(program: str, printed: str, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(program, encoding="utf-8")
    command = [sys.executable, "-W", "error", str(script)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
