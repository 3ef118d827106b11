"""The blocks of code in the documentation: programs and console sessions, and what they print.

``python -m support.doc_blocks README.md docs/*.md`` (in ``tests/python``) writes what they print now into the pages.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAM = re.compile(r"^```python\n(.*?)^```\n\n^```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# The last line of an output of which a page shows the start.
REST = "…"
SCORE = re.compile(r"(?<![\d.])0\.\d{2,}")
PORT = "8080"


@dataclass(frozen=True)
class Command:
    """A command of a console session, as typed, and the lines that the page shows below it."""

    typed: str
    shown: list[str]


def mark_before(text: str, start: int) -> str:
    """The line before a block, which may say that it is not run, or needs a server."""
    return text[:start].rstrip().rpartition("\n")[2]


def sessions(text: str) -> list[re.Match[str]]:
    """The console sessions of a page that are run, in order."""
    blocks = CONSOLE.finditer(text)
    return [block for block in blocks if not mark_before(text, block.start()).startswith("<!-- not run: ")]


def commands(session: str) -> list[Command]:
    """The commands of a session; a line goes on after a backslash, and within quotation marks."""
    found: list[Command] = []
    typed: list[str] = []
    for line in session.splitlines():
        if line.startswith("$ "):
            typed = [line[2:]]
        elif typed and not is_complete("\n".join(typed)):
            typed.append(line)
        else:
            found[-1].shown.append(line)
            continue
        if is_complete("\n".join(typed)):
            found.append(Command("\n".join(typed), []))
    return found


def is_complete(typed: str) -> bool:
    if typed.endswith("\\"):
        return False
    try:
        shlex.split(typed, comments=True)
    except ValueError:
        return False
    return True


class Shell:
    """Runs commands of a page in one directory, which has the demo's pages and the command `pullquote`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "demo").symlink_to(ROOT / "demo")
        bin_directory = directory / ".bin"
        bin_directory.mkdir()
        for name, words in (("pullquote", "-m pullquote "), ("python", "")):
            script = bin_directory / name
            script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -W error {words}"$@"\n')
            script.chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{bin_directory}:{os.environ['PATH']}", "COLUMNS": "100"}
        self._servers: list[subprocess.Popen[str]] = []
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = str(free.getsockname()[1])

    def run(self, command: Command) -> list[str]:
        """The lines that a command prints; a server goes on running."""
        typed = command.typed.replace(PORT, self._port)
        if typed.startswith("pullquote serve"):
            # Fewer log lines than a person sees.
            server = subprocess.Popen(
                ["bash", "-c", f"exec {typed}"],
                cwd=self.directory,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            self._servers.append(server)
            assert server.stdout is not None
            return [server.stdout.readline().rstrip("\n").replace(self._port, PORT)]
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", typed],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        # 1: nothing answers. 23: curl's reader went away, like `head`.
        assert done.returncode in {0, 1, 23}, f"{typed}\n{done.stdout}{done.stderr}"
        # A reader's terminal has a bar instead.
        errors = re.sub(r"^pullquote: \d+%, .*\n", "", done.stderr)
        assert not errors, f"{typed}\n{errors}"
        return done.stdout.rstrip("\n").replace(self._port, PORT).splitlines()

    def close(self) -> None:
        for server in self._servers:
            server.terminate()
            server.communicate()


@contextmanager
def shell(directory: Path) -> Iterator[Shell]:
    opened = Shell(directory)
    try:
        yield opened
    finally:
        opened.close()


def fits(shown: list[str], printed: list[str]) -> bool:
    """Whether a page shows what a command prints; a last line of ``…`` stands for all others.

    Scores may differ by 0.02: processors round int8 differently.
    """
    if shown and shown[-1] == REST:
        return len(printed) >= len(shown) and fits(shown[:-1], printed[: len(shown) - 1])
    (left, left_scores), (right, right_scores) = (_without_scores("\n".join(lines)) for lines in (shown, printed))
    if left != right:
        return False
    return all(abs(score - other) <= 0.02 for score, other in zip(left_scores, right_scores, strict=True))


def _without_scores(text: str) -> tuple[str, list[float]]:
    return SCORE.sub("0.…", text), [float(score) for score in SCORE.findall(text)]


def updated_session(session: str, opened: Shell) -> str:
    lines: list[str] = []
    for command in commands(session):
        printed = opened.run(command)
        if command.shown and command.shown[-1] == REST:
            printed = [*printed[: len(command.shown) - 1], REST]
        lines += [f"$ {command.typed}", *printed]
    return "".join(f"{line}\n" for line in lines)


def updated(text: str, directory: Path) -> str:
    """A page with what its blocks print now."""
    with shell(directory) as opened:
        position, parts = 0, []
        for session in sessions(text):
            parts += [text[position : session.start(1)], updated_session(session[1], opened)]
            position = session.end(1)
        text = "".join([*parts, text[position:]])
    position, parts = 0, []
    for program in PROGRAM.finditer(text):
        if mark_before(text, program.start()).startswith("<!--"):
            continue
        command = [sys.executable, "-W", "error", "-c", program[1]]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        parts += [text[position : program.start(2)], done.stdout]
        position = program.end(2)
    return "".join([*parts, text[position:]])


def main(names: list[str]) -> None:
    import tempfile

    for name in names:
        path = Path(name)
        before = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as directory:
            after = updated(before, Path(directory))
        if after != before:
            path.write_text(after, encoding="utf-8")
            sys.stdout.write(f"{name} is updated\n")


if __name__ == "__main__":
    main(sys.argv[1:])
