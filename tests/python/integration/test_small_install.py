"""What `pip install pullquote pullquote-minilm` gives: an environment of these two and numpy, without torch."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

WHEELS = Path(__file__).parents[3] / ".make"
SMOKE = Path(__file__).parents[2] / "release" / "smoke.py"
PAGE = "Bread is made of flour. The Moon is 384,400 km away from Earth. Cats sleep for most of the day."
QUESTION = "How far is the moon?"
ANSWER = "The Moon is 384,400 km away from Earth."


class Environment:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._uv("venv", "--python", sys.executable, str(folder))

    def _uv(self, *arguments: str) -> None:
        uv = str(Path(sys.executable).with_name("uv"))
        done = subprocess.run([uv, "--quiet", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def install(self, *packages: str) -> None:
        self._uv("pip", "install", "--python", str(self.folder / "bin" / "python"), *packages)

    def command(self, *arguments: str) -> list[str]:
        return [str(self.folder / "bin" / arguments[0]), *arguments[1:]]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # Without variables that lead to this test's environment.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, check=False, timeout=120, env=environment
        )

    def packages(self) -> set[str]:
        [site] = (self.folder / "lib").glob("python*/site-packages")
        return {path.name.split("-")[0].lower() for path in site.glob("*.dist-info")}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("small") / "environment")
    environment.install(*map(str, (WHEELS / "wheels-pullquote").glob("*.whl")))
    assert environment.packages() == {"numpy", "pullquote"}
    program = (
        "import pullquote\n"
        "try: pullquote.highlights('q', ['t'])\n"
        "except pullquote.PullquoteError as error: print(repr(error))"
    )
    done = environment.run("python", "-c", program)
    assert "ModelNotFoundError" in done.stdout, done.stderr
    assert "pip install pullquote-minilm" in done.stdout
    environment.install(*map(str, (WHEELS / "wheels-minilm").glob("*.whl")))
    assert environment.packages() == {"numpy", "pullquote", "pullquote_minilm"}
    return environment


def test_installed_size_is_under_150_mb(small: Environment) -> None:
    [site] = (small.folder / "lib").glob("python*/site-packages")
    own = [path for path in site.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in own) < 150_000_000


def test_import_starts_no_threads_and_loads_little(small: Environment) -> None:
    program = (
        "import sys, os, numpy\n"
        "before = len(os.listdir('/proc/self/task'))  # numpy's own\n"
        "import pullquote\n"
        "print(len(os.listdir('/proc/self/task')) - before, sorted({'torch', 'asyncio', 'pyarrow', 'ssl'} & sys.modules.keys()))\n"
        "print(pullquote.Client.__name__, pullquote.AsyncHighlighter.__name__, 'asyncio' in sys.modules)"
    )
    done = small.run("python", "-c", program)
    assert done.stdout == "0 []\nClient AsyncHighlighter True\n", done.stderr


def test_highlights_without_torch(small: Environment) -> None:
    program = f"import pullquote, sys; print(pullquote.highlights({QUESTION!r}, [{PAGE!r}], top_k=1)[0][0].text)"
    done = small.run("python", "-c", program)
    assert done.stdout == f"{ANSWER}\n", done.stderr


def test_cli_without_torch(small: Environment, tmp_path: Path) -> None:
    page = tmp_path / "page.txt"
    page.write_text(PAGE, encoding="utf-8")
    done = small.run("pullquote", "highlight", "--json", "--top-k", "1", "-q", QUESTION, str(page))
    assert ANSWER in done.stdout, done.stderr
    done = small.run("pullquote", "embed", "-o", str(tmp_path / "vectors.npy"), str(page))
    assert done.returncode == 0, done.stderr
    done = small.run("pullquote", "--version")
    assert "pullquote-torch not installed\ntorch not installed\ninstruction set " in done.stdout, done.stderr


def test_serve_without_torch(small: Environment) -> None:
    command = small.command("pullquote", "serve", "--json", "--port", "0")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        body = json.dumps({"query": QUESTION, "documents": [PAGE], "top_k": 1}).encode()
        asked = urllib.request.Request(f"{url}/highlights", body, {"Content-Type": "application/json"})  # noqa: S310
        with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310
            found = json.load(answer)
        loaded = Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8")
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert ANSWER in json.dumps(found)
    assert process.returncode == 0
    assert not re.search(r"libtorch|libgomp|libmkl", loaded)


def test_job_needs_jobs_extra(small: Environment, tmp_path: Path) -> None:
    source, output = tmp_path / "pages.jsonl", tmp_path / "found"
    source.write_text(json.dumps({"text": PAGE}) + "\n", encoding="utf-8")
    command = ["pullquote", "job", "--input", str(source), "--output", str(output), "-q", QUESTION, "--top-k", "1"]
    done = small.run(*command)
    assert done.returncode == 69
    assert 'pip install "pullquote[jobs]"' in done.stderr
    small.install("pyarrow", "fsspec")
    done = small.run(*command)
    assert done.returncode == 0, done.stderr
    assert ANSWER in (output / "pages.jsonl").read_text(encoding="utf-8")
    assert "torch" not in small.packages()


def test_smoke_test_of_releases_passes(small: Environment) -> None:
    done = small.run("python", "-I", str(SMOKE))
    assert done.returncode == 0, done.stderr
    assert "library, client, command line" in done.stdout
