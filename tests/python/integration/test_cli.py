"""The command line, in subprocesses."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pullquote
from pullquote import _native, errors
from support.fake_http_server import Answer, fake_server, raw_vectors
from support.messages import names_all
from support.server_process import ServerProcess, letter_server

PAGE = "The moon is white.\n\nBread is baked from flour. Ovens are hot.\n\nCats sleep."


def run(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "pullquote", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, check=False)


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Options for the fake letter encoder."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    return ["--encoder", "support.fake_letter_encoder:letters"]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.txt"
    path.write_text(PAGE, encoding="utf-8")
    return path


def test_highlight_prints_passages(page: Path) -> None:
    done = run("highlight", "-q", "How is bread made?", "--highlight-length", "1", "-k", "1", page)
    assert done.returncode == 0, done.stderr
    out = done.stdout.decode()
    assert str(page) in out
    assert "Bread is baked from flour." in out
    assert "characters 20-46" in out
    assert "\x1b" not in out


def test_highlight_json(page: Path) -> None:
    done = run("highlight", "--json", "-q", "bread", "--highlight-length", "1", page, "-", stdin="Brot.漢字。".encode())
    rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [row["page"] for row in rows] == [str(page), "-"]
    for row, text in zip(rows, [PAGE, "Brot.漢字。"], strict=True):
        assert row["highlights"]
        assert all(text[h["start"] : h["end"]] == h["text"] for h in row["highlights"])


def test_unreadable_file_does_not_stop_others(page: Path, tmp_path: Path, letters: list[str]) -> None:
    latin = tmp_path / "latin.txt"
    latin.write_bytes("Brötchen sind rund.".encode("latin-1"))
    done = run("highlight", *letters, "--json", "-q", "bread", tmp_path / "nowhere.txt", latin, page)
    assert done.returncode == 66
    assert b"nowhere.txt" in done.stderr
    assert names_all(done.stderr.decode(), "latin.txt", "utf-8", 2, "--encoding")
    assert json.loads(done.stdout)["page"] == str(page)
    again = run("highlight", *letters, "--json", "--encoding", "latin-1", "-q", "bread", latin)
    assert json.loads(again.stdout)["highlights"][0]["text"] == "Brötchen sind rund."


def test_embed_read_and_write_failures(server: ServerProcess, tmp_path: Path) -> None:
    texts, output = tmp_path / "texts", tmp_path / "vectors.npy"
    texts.write_text("a\nb\n")
    wrong: list[tuple[list[str | Path], int, Path]] = [
        ([tmp_path / "nothing", "-o", output], 66, tmp_path / "nothing"),
        ([texts, "-o", tmp_path / "no folder" / "x.npy"], 73, tmp_path / "no folder" / "x.npy"),
        ([texts, "-o", tmp_path], 73, tmp_path),
    ]
    for arguments, code, path in wrong:
        done = run("embed", "--server", server.url, *arguments)
        assert (done.returncode, done.stdout) == (code, b"")
        assert names_all(done.stderr.decode(), path)
        assert b"Traceback" not in done.stderr
    # UnauthorizedError is a PermissionError too, but not a failure to write.
    with fake_server(lambda request: raw_vectors(request) if len(request.texts) == 1 else Answer(401)) as refusing:
        done = run("embed", "--server", refusing.url, texts, "-o", output)
        assert (done.returncode, done.stdout) == (errors.UnauthorizedError.exit_code, b"")
        assert b"401" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["texts"]


@pytest.mark.parametrize(
    ("own", "arguments", "code", "names"),
    [
        (True, ["--top-k", "0"], 2, ["top_k", 0]),
        (False, ["--device", "tpu"], 69, ["tpu"]),
        (False, ["--model", "/nowhere"], 66, ["/nowhere"]),
        (True, ["--encoding", "klingon"], 65, ["klingon"]),
        (False, ["--unit", "page"], 2, ["--unit", "page", "sentence", "word", "token"]),
    ],
)
def test_exit_codes(
    page: Path, letters: list[str], own: bool, arguments: list[str], code: int, names: list[object]
) -> None:
    done = run("highlight", "-q", "bread", *(letters if own else []), *arguments, page)
    assert done.returncode == code, done.stderr
    assert names_all(done.stderr.decode(), *names), done.stderr
    assert b"Traceback" not in done.stderr


def test_embed_writes_npy(tmp_path: Path) -> None:
    out = tmp_path / "vectors.npy"
    done = run("embed", "--json", "--dtype", "float32", "-o", out, "-", stdin=b"first line\nsecond line\n")
    assert json.loads(done.stdout) == {"output": str(out), "shape": [2, 384], "dtype": "float32"}
    vectors = np.load(out)
    assert vectors.dtype == np.float32
    with pullquote.Highlighter(devices="cpu", dtype="float32") as highlighter:
        assert np.abs(vectors - highlighter.embed(["first line", "second line"])).max() < 1e-5
    assert list(tmp_path.iterdir()) == [out]


def test_embed_of_no_lines_writes_empty_npy(tmp_path: Path) -> None:
    out = tmp_path / "vectors"
    done = run("embed", "-o", out, "-")
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == [out]
    assert np.load(out).shape == (0, 384)


def test_version_lists_wheels_and_instruction_set(monkeypatch: pytest.MonkeyPatch) -> None:
    best = _native.instruction_sets()[0]
    out = run("--version").stdout.decode().splitlines()
    assert out[:3] == [f"pullquote {pullquote.__version__}", "pullquote-minilm 0.1.0", "pullquote-torch 0.1.0"]
    assert out[3].startswith("torch 2.11")
    assert out[4] == f"instruction set {best}"
    monkeypatch.setenv("PULLQUOTE_CPU", "portable")
    assert run("--version").stdout.decode().splitlines()[4] == "instruction set portable"
    monkeypatch.setenv("PULLQUOTE_CPU", "avx1024")
    assert "avx1024" in run("--version").stdout.decode().splitlines()[4]


def test_server_option_matches_local(page: Path, tmp_path: Path, server: ServerProcess) -> None:
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
    ("arguments", "code", "names"),
    [
        (["--server", "http://127.0.0.1:1"], 69, ["http://127.0.0.1:1"]),
        (["--server", "nowhere"], 2, ["nowhere"]),
        (["--server", "http://127.0.0.1:1", "--device", "cpu"], 2, ["--device"]),
        (["--server", "http://127.0.0.1:1", "--ca-certs", "/nowhere"], 2, ["/nowhere"]),
    ],
)
def test_unusable_server_option_exit_codes(page: Path, arguments: list[str], code: int, names: list[object]) -> None:
    done = run("highlight", "-q", "bread", *arguments, page)
    assert done.returncode == code, done.stderr
    assert names_all(done.stderr.decode(), *names), done.stderr
    assert b"Traceback" not in done.stderr


def test_api_key_from_environment(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with letter_server("--api-key", "right") as own:
        asked = ["highlight", "-q", "bread", "--server", own.url]
        assert run(*asked, page).returncode == 77
        assert run(*asked, "--api-key", "right", page).returncode == 0
        monkeypatch.setenv("PULLQUOTE_API_KEY", "right")
        assert run(*asked, page).returncode == 0
