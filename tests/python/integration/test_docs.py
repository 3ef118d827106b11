"""The documentation: every example prints its output, every link leads somewhere, and tables name what the code has.

A Python block is a whole program, followed by a block of its output. The console blocks of a page are one session, each command
followed by what it prints. `<!-- not run: why -->` before a block says that it needs something that the tests lack;
`<!-- server -->` gives a program a server in place of `http://127.0.0.1:8080`. `support.doc_blocks` writes new
outputs into the pages.
"""

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from pullquote import errors
from support.doc_blocks import PROGRAM, commands, fits, mark_before, sessions, shell
from support.server_process import ServerProcess

ROOT = Path(__file__).parents[3]
DOCS = sorted(ROOT.glob("docs/**/*.md"))
TOP = [ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "SECURITY")]
PAGES = [*TOP, *DOCS]
MOST_WORDS = {"README": 900, "ARCHITECTURE": 3000}

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)
LINK = re.compile(r"(?<!`)\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
NAMED_PATH = re.compile(r"(?:rust|python|tests|bench|demo|docs|packages|\.ci)/[\w./*-]+")
SERVER = "http://127.0.0.1:8080"
# Ray warns of its own code.
WARNINGS = {"ray.md": ["-W", "ignore::DeprecationWarning"]}
# Pages whose programs need the environment of the frameworks.
FRAMEWORK_PAGES = {"documents.md", "integrations.md", "mcp.md"}
FRAMEWORKS = ROOT / ".make/frameworks/bin/python"
# Comments of Rust and Python, and docstrings.
COMMENT = re.compile(r'^ *(?://|#)[^\n]*|""".*?"""', re.MULTILINE | re.DOTALL)
# Words that hide the actor, or for which the field has a term.
UNPLAIN = re.compile(
    r"\b(nobody|whoever|so many|so much|lets? go of|beside|is told|are told|is asked|is looked at)\b", re.IGNORECASE
)


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def examples() -> Sequence[object]:
    """Each program, its output, whether it needs a server, its warnings, and its Python."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for number, match in enumerate(PROGRAM.finditer(text)):
            mark = mark_before(text, match.start())
            if not mark.startswith("<!-- not run"):
                python = FRAMEWORKS if page.name in FRAMEWORK_PAGES else Path(sys.executable)
                example = (*match.groups(), mark == "<!-- server -->", WARNINGS.get(page.name, []), python)
                found.append(pytest.param(*example, id=f"{named(page)}:{number}"))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("program", "printed", "needs_server", "warnings", "python"), examples())
def test_example_prints_its_output(
    program: str,
    printed: str,
    needs_server: bool,
    warnings: list[str],
    python: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    if not python.exists():
        pytest.skip(f"needs {python}, which make test installs")
    if needs_server:
        server: ServerProcess = request.getfixturevalue("server")
        assert SERVER in program
        program = program.replace(SERVER, server.url)
    script = tmp_path / "example.py"
    script.write_text(program, encoding="utf-8")
    command = [str(python), "-W", "error", *warnings, str(script)]
    # An example starts its own cluster, even if another one runs.
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_ADDRESS": "local"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    assert fits(printed.splitlines(), done.stdout.splitlines()), done.stdout


def test_pip_install_leads_to_the_wheels() -> None:
    """Until there is a release, README's section is the one place that says where wheels come from."""
    installs = [page for page in DOCS if 'pip install "pullquote[' in page.read_text(encoding="utf-8")]
    assert len(installs) >= 8
    assert [named(page) for page in installs if "README.md#install" not in page.read_text(encoding="utf-8")] == []
    assert "PIP_FIND_LINKS" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_python_blocks_are_run_or_marked(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    run = {match.start() for match in PROGRAM.finditer(text)}
    for match in FENCED.finditer(text):
        mark = mark_before(text, match.start())
        assert match[1] != "python" or match.start() in run or mark.startswith("<!-- not run: "), match[2]
        assert "..." not in match[2] or match.start() not in run, "a sample has a real text"


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if sessions(page.read_text(encoding="utf-8"))], ids=named)
def test_console_prints_what_page_shows(page: Path, tmp_path: Path) -> None:
    with shell(tmp_path) as opened:
        for session in sessions(page.read_text(encoding="utf-8")):
            for command in commands(session[1]):
                printed = opened.run(command)
                assert fits(command.shown, printed), f"$ {command.typed}\n" + "\n".join(printed)


@cache
def site_pages() -> set[Path]:
    """The pages that `make docs` builds."""
    patterns = runpy.run_path(str(ROOT / "docs" / "conf.py"))["include_patterns"]
    # Only in Sphinx, two stars match files too.
    return {page for pattern in patterns for page in ROOT.glob(pattern + "/*" * pattern.endswith("**"))}


def slugs(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = (title for _, title in HEADING.findall(prose(page)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [*PAGES, *sorted(ROOT.glob("bench/notes/*.md")), ROOT / "bench/README.md"], ids=named)
def test_links_exist(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        address, _, anchor = link.partition("#")
        if address.startswith(("http:", "https:")):
            continue
        target = (page.parent / address).resolve() if address else page
        assert target.exists(), link
        assert target.suffix != ".md" or target in site_pages(), f"{link} is not part of the site (docs/conf.py)"
        assert not anchor or anchor in slugs(target), link


def test_index_lists_all_pages() -> None:
    for folder in (ROOT / "docs", ROOT / "docs" / "decisions"):
        listed = set(LINK.findall((folder / "index.md").read_text(encoding="utf-8")))
        assert {page.name for page in folder.glob("*.md")} - {"index.md"} <= listed


def test_bench_readme_lists_all_measurements() -> None:
    text = (ROOT / "bench" / "README.md").read_text(encoding="utf-8")
    listed = CODE.findall(text)
    files = {path.name for path in (ROOT / "bench").glob("*.py")} - {"__init__.py"}
    assert {name for name in listed if name.endswith(".py")} == files
    # Those without a star, which `make bench` runs (bench/all.py), state a claim.
    table = "".join(re.findall(r"^\|.*\n", text.partition("The other files")[0], re.MULTILINE))
    measurements = re.findall(r"`(\w+\.py)`(\*?)", table)
    claims = {path.name for path in (ROOT / "bench").glob("*.py") if path.read_text().startswith('"""Claim')}
    assert claims <= {name for name, _ in measurements}
    assert {name for name, star in measurements if not star} <= claims


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_named_files_exist(page: Path) -> None:
    for code in CODE.findall(prose(page)):
        path = code.partition("::")[0]
        if re.fullmatch(r"\w+/test_[\w*]+\.py", path):
            path = f"tests/python/{path}"
        if NAMED_PATH.fullmatch(path):
            assert any(ROOT.glob(path.rstrip("/"))), code


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_prose_has_plain_words(page: Path) -> None:
    assert not UNPLAIN.findall(CODE.sub("", prose(page)))


def test_comments_have_plain_words() -> None:
    sources = [*ROOT.glob("rust/*/src/**/*.rs"), *(ROOT / "python").rglob("*.py"), *(ROOT / "bench").glob("*.py")]
    comments = {path: "\n".join(COMMENT.findall(path.read_text(encoding="utf-8"))) for path in sources}
    assert len(comments) > 200
    assert {named(path): found for path, text in comments.items() if (found := UNPLAIN.findall(text))} == {}


@pytest.mark.parametrize(("name", "most"), MOST_WORDS.items())
def test_page_word_limits(name: str, most: int) -> None:
    """Comments are not read."""
    text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
    assert len(re.sub(r"<!--.*?-->", "", text).split()) <= most


def test_invariant_tests_exist() -> None:
    invariants = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Invariants")[2]
    tests = [code.split("::") for code in CODE.findall(invariants) if "::" in code and "/" in code]
    assert len(tests) > 20
    for path, name in tests:
        source = (ROOT / ("" if path.startswith("rust/") else "tests/python") / path).read_text(encoding="utf-8")
        assert re.search(rf"\b(def|fn) {name}\b", source), f"{path}::{name}"


@pytest.mark.parametrize(
    "folder",
    [*(f"rust/{crate}/src" for crate in ("core", "cpu", "torch", "server", "client", "python")), "python/pullquote"],
)
def test_architecture_lists_all_modules(folder: str) -> None:
    heading = f"### `{folder}`\n"
    section = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition(heading)[2].partition("\n#")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    modules = {code.rstrip("/") for cell in cells for code in CODE.findall(cell)}
    there = {path.stem for path in (ROOT / folder).iterdir() if path.is_dir() or path.suffix in {".rs", ".py"}}
    assert modules == there - {"lib", "__init__", "__main__", "__pycache__"}


def first_cells(page: str, *, options: bool = False) -> set[str]:
    """The code in the first cells of a page's tables."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    return {code for cell in cells for code in CODE.findall(cell) if code.startswith("--") == options}


def test_server_options_are_documented() -> None:
    command = [sys.executable, "-m", "pullquote", "serve", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    known = set(re.findall(r"^  (--[\w-]+)", done.stdout, re.MULTILINE))
    assert known - first_cells("server.md", options=True) == set()


def test_errors_are_documented() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+Error)` \| `(\w+)` \| (\d+) \| (\d+) \| (yes|no) \|", text, re.MULTILINE)
    classes = [
        getattr(errors, name) for name in errors.__all__ if not name.endswith("Warning") and name != "PullquoteError"
    ]
    expected = [
        (made.__name__, made.__bases__[1].__name__, made.http_status, made.exit_code, made.retryable)
        for made in classes
    ]
    told = [(name, base, int(status), int(code), again == "yes") for name, base, status, code, again in rows]
    assert sorted(told) == sorted(expected)
