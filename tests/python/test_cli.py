"""The command line, as a shell sees it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pullquote
from pullquote import _native, errors
from serving import Serving, serving_letters
from wires import Answer, raw, wire

PAGE = "The moon is white.\n\nBread is baked from flour. Ovens are hot.\n\nCats sleep."


def run(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "pullquote", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, check=False)


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Options of an encoder that is there at once, where no model is asked for."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    return ["--encoder", "lettering:letters"]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.txt"
    path.write_text(PAGE, encoding="utf-8")
    return path


def test_highlights_are_printed_for_people(page: Path) -> None:
    done = run("highlight", "-q", "How is bread made?", "--highlight-length", "1", "-k", "1", page)
    assert done.returncode == 0, done.stderr
    out = done.stdout.decode()
    assert str(page) in out
    assert "Bread is baked from flour." in out
    assert "characters 20-46" in out
    assert "\x1b" not in out


def test_highlights_are_printed_for_machines(page: Path) -> None:
    done = run("highlight", "--json", "-q", "bread", "--highlight-length", "1", page, "-", stdin="Brot.漢字。".encode())
    rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [row["page"] for row in rows] == [str(page), "-"]
    for row, text in zip(rows, [PAGE, "Brot.漢字。"], strict=True):
        assert row["highlights"]
        assert all(text[h["start"] : h["end"]] == h["text"] for h in row["highlights"])


def test_a_file_that_cannot_be_read_does_not_stop_the_others(page: Path, tmp_path: Path, letters: list[str]) -> None:
    latin = tmp_path / "latin.txt"
    latin.write_bytes("Brötchen sind rund.".encode("latin-1"))
    done = run("highlight", *letters, "--json", "-q", "bread", tmp_path / "nowhere.txt", latin, page)
    assert done.returncode == 66
    assert b"nowhere.txt: No such file" in done.stderr
    assert b"latin.txt: not utf-8 at byte 2; name its encoding, for instance --encoding latin-1" in done.stderr
    assert json.loads(done.stdout)["page"] == str(page)
    again = run("highlight", *letters, "--json", "--encoding", "latin-1", "-q", "bread", latin)
    assert json.loads(again.stdout)["highlights"][0]["text"] == "Brötchen sind rund."


def test_embed_says_what_it_cannot_read_or_write(server: Serving, tmp_path: Path) -> None:
    texts, output = tmp_path / "texts", tmp_path / "vectors.npy"
    texts.write_text("a\nb\n")
    wrong: list[tuple[list[str | Path], int, bytes]] = [
        ([tmp_path / "nothing", "-o", output], 66, b"nothing: No such file or directory"),
        ([texts, "-o", tmp_path / "no folder" / "x.npy"], 73, b"x.npy: No such file or directory"),
        ([texts, "-o", tmp_path], 73, b"Is a directory"),
    ]
    for arguments, code, message in wrong:
        done = run("embed", "--server", server.url, *arguments)
        assert (done.returncode, done.stdout) == (code, b"")
        assert message in done.stderr
        assert b"Traceback" not in done.stderr
    # What a server says in the middle is no failure to write, though the system has an error of that class too.
    with wire(lambda request: raw(request) if len(request.texts) == 1 else Answer(401)) as refusing:
        done = run("embed", "--server", refusing.url, texts, "-o", output)
        assert (done.returncode, done.stdout) == (errors.UnauthorizedError.exit_code, b"")
        assert b"answered 401" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["texts"]


@pytest.mark.parametrize(
    ("own", "arguments", "code", "message"),
    [
        (True, ["--top-k", "0"], 2, b"top_k must be at least 1, not 0"),
        (False, ["--device", "tpu"], 69, b"tpu"),
        (False, ["--model", "/nowhere"], 66, b"/nowhere"),
        (True, ["--encoding", "klingon"], 65, b"klingon"),
        (False, ["--unit", "page"], 2, b"invalid choice"),
    ],
)
def test_exit_codes_are_those_of_the_table(
    page: Path, letters: list[str], own: bool, arguments: list[str], code: int, message: bytes
) -> None:
    done = run("highlight", "-q", "bread", *(letters if own else []), *arguments, page)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr
    assert b"Traceback" not in done.stderr


def test_embed_writes_an_array(tmp_path: Path) -> None:
    out = tmp_path / "vectors.npy"
    done = run("embed", "--json", "--dtype", "float32", "-o", out, "-", stdin=b"first line\nsecond line\n")
    assert json.loads(done.stdout) == {"output": str(out), "shape": [2, 384], "dtype": "float32"}
    vectors = np.load(out)
    assert vectors.dtype == np.float32
    with pullquote.Highlighter(devices="cpu", dtype="float32") as highlighter:
        assert np.abs(vectors - highlighter.embed(["first line", "second line"])).max() < 1e-5
    assert list(tmp_path.iterdir()) == [out]


def test_embed_writes_an_array_of_no_lines_where_it_was_told_to(tmp_path: Path) -> None:
    out = tmp_path / "vectors"
    done = run("embed", "-o", out, "-")
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == [out]
    assert np.load(out).shape == (0, 384)


def test_the_version_names_the_wheels_and_the_instruction_set(monkeypatch: pytest.MonkeyPatch) -> None:
    best = _native.instruction_sets()[0]
    out = run("--version").stdout.decode().splitlines()
    assert out[:3] == [f"pullquote {pullquote.__version__}", "pullquote-minilm 0.1.0", "pullquote-torch 0.1.0"]
    assert out[3].startswith("torch 2.11")
    assert out[4] == f"instruction set {best}"
    monkeypatch.setenv("PULLQUOTE_CPU", "portable")
    assert run("--version").stdout.decode().splitlines()[4] == "instruction set portable"
    monkeypatch.setenv("PULLQUOTE_CPU", "avx1024")
    assert "avx1024" in run("--version").stdout.decode().splitlines()[4]


def test_a_server_does_the_work_where_one_is_named(page: Path, tmp_path: Path, server: Serving) -> None:
    asked: list[str | Path] = ["highlight", "--json", "-q", "How is bread made?", "-q", "moon", page]
    ours, theirs = run(*asked, "--dtype", "float32"), run(*asked, "--server", server.url)
    assert theirs.returncode == 0, theirs.stderr
    assert theirs.stdout == ours.stdout
    out = tmp_path / "vectors.npy"
    done = run("embed", "--json", "--server", server.url, "-o", out, "-", stdin=b"first line\nsecond line\n")
    assert json.loads(done.stdout) == {"output": str(out), "shape": [2, 384], "dtype": "float32"}
    with pullquote.Client(server.url) as client:
        assert np.array_equal(np.load(out), client.embed(["first line", "second line"]))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--server", "http://127.0.0.1:1"], 69, b"cannot be reached"),
        (["--server", "nowhere"], 2, b"nowhere"),
        (["--server", "http://127.0.0.1:1", "--device", "cpu"], 2, b"--device"),
        (["--server", "http://127.0.0.1:1", "--ca-certs", "/nowhere"], 2, b"/nowhere"),
    ],
)
def test_a_server_that_cannot_be_asked_is_an_exit_code(
    page: Path, arguments: list[str], code: int, message: bytes
) -> None:
    done = run("highlight", "-q", "bread", *arguments, page)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr
    assert b"Traceback" not in done.stderr


def test_the_key_of_a_server_may_stand_in_the_environment(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving_letters("--api-key", "right") as own:
        asked = ["highlight", "-q", "bread", "--server", own.url]
        assert run(*asked, page).returncode == 77
        assert run(*asked, "--api-key", "right", page).returncode == 0
        monkeypatch.setenv("PULLQUOTE_API_KEY", "right")
        assert run(*asked, page).returncode == 0
