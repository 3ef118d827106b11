"""The command line, in subprocesses."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pullquote
from pullquote import _native, errors
from pullquote._document_formats import READABLE
from pullquote._models.choice import embedded_model
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
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
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


def test_question_may_be_the_first_word_and_files_may_follow_options(page: Path) -> None:
    expected = run("highlight", "-q", "How is bread made?", "-k", "1", page, page)
    assert expected.returncode == 0, expected.stderr
    assert run("highlight", "How is bread made?", page, "-k", "1", page).stdout == expected.stdout
    piped = run("highlight", "-k", "1", "How is bread made?", stdin=PAGE.encode())
    assert piped.stdout.decode() == expected.stdout.decode().partition("\n\n")[0].replace(str(page), "-") + "\n\n"


def test_exit_code_says_whether_anything_answers(page: Path, tmp_path: Path) -> None:
    cats = tmp_path / "cats.txt"
    cats.write_text("Cats sleep.")
    nothing = run("highlight", "How is bread made?", cats)
    assert (nothing.returncode, nothing.stderr) == (1, b"")
    assert "no passage says it in these words; the nearest:" in nothing.stdout.decode()
    assert run("highlight", "How is bread made?", "--exit-zero", cats).stdout == nothing.stdout
    assert run("highlight", "How is bread made?", "--exit-zero", cats).returncode == 0
    assert run("highlight", "How is bread made?", cats, page).returncode == 0
    assert run("highlight", "How is bread made?", cats, tmp_path / "nowhere").returncode == 66
    small = run("highlight", "How is bread made?", "--max-chars", "5", page)
    assert (small.returncode, "no passage is within --max-chars=5" in small.stdout.decode()) == (1, True)


def test_recursive_reads_folders(page: Path, tmp_path: Path) -> None:
    deep, hidden = tmp_path / "notes" / "deep", tmp_path / "notes" / ".git"
    for folder in (deep, hidden):
        folder.mkdir(parents=True)
        (folder / "page.txt").write_text(PAGE)
    (deep / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    (deep / "program").write_bytes(bytes(range(256)) * 8)
    (deep / "empty.txt").write_text("")
    (deep / "latin.txt").write_bytes("Brötchen sind rund. Käse ist gelb.".encode("latin-1"))
    done = run("highlight", "-r", "How is bread made?", tmp_path / "notes", page, "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["id"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert list(rows) == [*(str(deep / f"{name}.txt") for name in ("empty", "latin", "page")), str(page)]
    assert rows[str(deep / "latin.txt")]["highlights"][0]["text"] == "Brötchen sind rund."
    assert names_all(done.stderr.decode(), "latin.txt", "windows-1252", "--encoding", "skipped 2 files")
    # Bytes that are no text in any encoding are an error, and other files continue.
    (deep / "broken.txt").write_bytes(b"The moon \xff\xfe\x80 is far.")
    done = run("highlight", "-r", "How is bread made?", tmp_path / "notes")
    assert (done.returncode, names_all(done.stderr.decode(), "broken.txt", "utf-8")) == (65, True)
    (deep / "broken.txt").unlink()
    shown = run("highlight", "-r", "How is bread made?", tmp_path / "notes").stdout.decode()
    assert "empty.txt" not in shown
    # What has no text to read has not been looked through.
    (tmp_path / "bare").mkdir()
    done = run("highlight", "-r", "bread", tmp_path / "bare")
    assert (done.returncode, "bare" in done.stderr.decode(), done.stdout) == (66, True, b"")
    # A file that is named is not skipped.
    assert run("highlight", "-r", "bread", deep / "image.png").returncode == 65


def test_context_and_matches_in_a_pipe(page: Path) -> None:
    asked: list[str | Path] = ["highlight", "How is bread made?", "-k", "1", "--highlight-length", "1", "-C", "1", page]
    lines = run(*asked, "--explain").stdout.decode().splitlines()
    assert lines[2:6] == [
        "  | The moon is white.",
        "    Bread is baked from flour.",
        "  | Ovens are hot.",
        "    (words: Bread)",
    ]
    assert "(words" not in run(*asked).stdout.decode()


# Commands that print, with what they print to nothing.
PRINTING = [
    ["highlight", "bread", __file__],
    ["embed", __file__, "-o", "-"],
    ["--version"],
    [],
    ["--help"],
    *([command, "--help"] for command in ("highlight", "embed", "serve", "job", "mcp", "models", "completion")),
    ["completion", "bash"],
    ["models", "get", "all-MiniLM-L6-v2"],
    ["serve", "--port", "0"],
]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
@pytest.mark.parametrize("redirection", [">/dev/full", ">&-", ">&- 2>&-", ">/dev/full 2>/dev/full"])
def test_output_that_cannot_be_written_is_exit_code_73(arguments: list[str], redirection: str) -> None:
    command = shlex.join([sys.executable, "-m", "pullquote", *arguments])
    done = subprocess.run(["/bin/sh", "-c", f"exec {command} {redirection}"], stderr=subprocess.PIPE, check=False)
    assert done.returncode == 73
    reason = "No space left on device" if "full" in redirection else "Bad file descriptor"
    told = [line for line in done.stderr.decode().splitlines() if line.startswith("pullquote: ")]
    assert told == ([] if "2>" in redirection else [f"pullquote: standard output: {reason}"])
    assert "Traceback" not in done.stderr.decode()


@pytest.mark.parametrize("arguments", [each for each in PRINTING if each[:1] != ["serve"]], ids=" ".join)
def test_reader_that_leaves_is_no_error(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as output:
        command = [sys.executable, "-m", "pullquote", *arguments]
        done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_twins_are_named_with_their_files(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("My gift card never came. Bread is baked.", encoding="utf-8")
    files = [str(tmp_path / name) for name in ("a.txt", "b.txt")]
    asked = ["highlight", "Did the gift card come?", *files, "--dedupe", "answer", "--highlight-length", "1"]
    shown = run(*asked).stdout.decode()
    assert f"(1 like it left out: {tmp_path / 'b.txt'})" in shown
    rows = [json.loads(line) for line in run(*asked, "--json").stdout.decode().splitlines()]
    kept = rows[0]["highlights"][0]
    assert kept["twins"] == [{"id": str(tmp_path / "b.txt"), "start": 0, "end": 24}]
    assert rows[1]["highlights"] == []


def test_embedded_model_needs_no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    done = run("models", "get", "all-MiniLM-L6-v2")
    assert (done.returncode, Path(done.stdout.decode().strip())) == (0, embedded_model()), done.stderr


def test_highlight_json(page: Path) -> None:
    done = run("highlight", "--json", "-q", "bread", "--highlight-length", "1", page, "-", stdin="Brot.漢字。".encode())
    rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [row["id"] for row in rows] == [str(page), "-"]
    assert [row["page"] for row in rows] == [0, 1]
    for row, text in zip(rows, [PAGE, "Brot.漢字。"], strict=True):
        assert row["highlights"]
        assert all(text[h["start"] : h["end"]] == h["text"] for h in row["highlights"])


def test_highlight_shows_header_of_table(tmp_path: Path) -> None:
    table = tmp_path / "prices.csv"
    rows = "\n".join(f"bun {number},{number % 7},{number % 5}" for number in range(60))
    table.write_text(f"name,price,stock\n{rows}\n")
    asked: list[str | Path] = ["highlight", "-q", "bun 44", "-k", "1", table]
    lines = [line.strip() for line in run(*asked).stdout.decode().splitlines()]
    assert lines.index("| name,price,stock") < lines.index("bun 44,2,4")
    (found,) = json.loads(run(*asked, "--json").stdout)["highlights"]
    assert found["header"] == "name,price,stock"
    assert "bun 44,2,4" in found["text"]


def test_unreadable_file_does_not_stop_others(page: Path, tmp_path: Path, letters: list[str]) -> None:
    latin, broken = tmp_path / "latin.txt", tmp_path / "broken.txt"
    latin.write_bytes("Brötchen sind rund.".encode("latin-1"))
    broken.write_bytes(b"a \xff\xfe\x80 b")
    done = run("highlight", *letters, "--json", "-q", "bread", tmp_path / "nowhere.txt", broken, page)
    assert done.returncode == 66
    assert b"nowhere.txt" in done.stderr
    assert names_all(done.stderr.decode(), "broken.txt", "utf-8", 2, "--encoding")
    assert json.loads(done.stdout)["id"] == str(page)
    again = run("highlight", *letters, "--json", "--encoding", "latin-1", "-q", "bread", latin)
    assert json.loads(again.stdout)["highlights"][0]["text"] == "Brötchen sind rund."


def test_embed_read_and_write_failures(server: ServerProcess, tmp_path: Path) -> None:
    texts, output = tmp_path / "texts", tmp_path / "vectors.npy"
    texts.write_text("a\nb\n")
    wrong: list[tuple[list[str | Path], int, Path]] = [
        ([tmp_path / "nothing", "-o", output], 66, tmp_path / "nothing"),
        ([texts, "-o", tmp_path / "no folder" / "x.npy"], 73, tmp_path / "no folder" / "x.npy"),
        ([texts, "-o", tmp_path], 73, tmp_path),
        ([texts, "-o", "/dev/full"], 73, Path("/dev/full")),
        ([texts, "-o", texts], 2, texts),
    ]
    for arguments, code, path in wrong:
        done = run("embed", "--server", server.url, *arguments)
        assert (done.returncode, done.stdout) == (code, b"")
        assert names_all(done.stderr.decode(), path)
        assert b"Traceback" not in done.stderr
    assert Path("/dev/full").is_char_device(), "it is written, not replaced"
    assert texts.read_text() == "a\nb\n"
    # UnauthorizedError is a PermissionError too, but not a failure to write.
    with fake_server(lambda request: raw_vectors(request) if len(request.texts) == 1 else Answer(401)) as refusing:
        done = run("embed", "--server", refusing.url, texts, "-o", output)
        assert (done.returncode, done.stdout) == (errors.UnauthorizedError.exit_code, b"")
        assert b"401" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["texts"]


@pytest.mark.parametrize(
    ("own", "arguments", "code", "names"),
    [
        (True, ["--top-k", "0"], 2, ["--top-k", 0]),
        (True, ["--context", "-1"], 2, ["--context", -1]),
        (True, ["--step-size", "5"], 2, ["--step-size", 5, "--highlight-length", "--allow-gaps"]),
        (False, ["--device", "tpu"], 69, ["tpu"]),
        (False, ["--model", "/nowhere"], 66, ["/nowhere"]),
        (True, ["--encoding", "klingon"], 2, ["klingon"]),
        (True, ["--format", "pdf"], 2, ["--format", "pdf", "leave it out"]),
        (True, ["--mark", "<b>"], 2, ["--mark", "page.txt"]),
        (True, ["-", "-"], 2, ["-", "standard input"]),
        (False, ["--fetch-allow", "here", "http://localhost"], 2, ["--fetch-allow", "here"]),
        (True, ["www.example.org"], 66, ["https://www.example.org"]),
        (True, ["ftp://example.org"], 66, ["ftp://example.org", "https://"]),
        (False, ["--threads", "0"], 2, ["--threads must be at least 1, not 0"]),
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


def test_embed_writes_npy_to_standard_output(letters: list[str]) -> None:
    done = run("embed", *letters, "--json", "-o", "-", stdin=b"a\nb\n")
    assert done.returncode == 0, done.stderr
    assert np.load(io.BytesIO(done.stdout)).shape[0] == 2


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
    for their, our in zip(theirs.stdout.splitlines(), ours.stdout.splitlines(), strict=True):
        expected = json.loads(our)
        answer = json.loads(their)
        # A server normalizes vectors after its encoder, so the last digit of a score may differ.
        for found, same in zip(answer["highlights"], expected["highlights"], strict=True):
            for name in ("score", "cosine"):
                assert found.pop(name) == pytest.approx(same.pop(name), abs=1e-6)
        assert answer == expected
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
        (["--api-key", "a"], 2, ["--api-key", "--server"]),
        (["--timeout", "1e-9"], 75, []),
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
        asked = ["highlight", "-q", "bread", "--exit-zero", "--server", own.url]
        assert run(*asked, page).returncode == 77
        assert run(*asked, "--api-key", "right", page).returncode == 0
        monkeypatch.setenv("PULLQUOTE_API_KEY", "right")
        assert run(*asked, page).returncode == 0


COMMANDS = ["highlight", "embed", "serve", "job", "completion"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_describes_with_examples_and_exit_codes(command: str) -> None:
    shown = run(command, "--help").stdout.decode()
    assert shown.startswith(f"usage: pullquote {command} ")
    assert f"  pullquote {command} " in shown.partition("examples:")[2]
    codes = {
        error.exit_code for error in vars(errors).values() if isinstance(error, type) and hasattr(error, "exit_code")
    }
    listed = {int(code) for code in re.findall(r"^  (\d+) ", shown.partition("exit codes:")[2], re.MULTILINE)}
    assert codes - listed <= {70}


def test_help_has_each_option_in_a_group() -> None:
    shown = run("highlight", "--help").stdout.decode()
    assert READABLE in shown
    for group in (
        "which passages:",
        "how pages are read:",
        "how passages are scored:",
        "input and output:",
        "model and devices:",
    ):
        assert f"\n{group}\n" in shown


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["highlight", "-q", "x", "--topk", "3", "a.txt"], ["--topk", "--top-k"]),
        (["highlight", "-q", "x", "--formt=html", "a.txt"], ["--formt", "--format"]),
        (["highlight"], ["--query"]),
        (["highlight", __file__], ["no question", "--query"]),
        (["highlite", "a.txt"], ["highlite", "did you mean 'highlight'"]),
        (["highlight", "-q", "x", "-k", "some", "a.txt"], ["--top-k", "whole number", "some"]),
        (["highlight", "-q", "x", "--min-score", "high", "a.txt"], ["--min-score", '"auto" or a number', "high"]),
        (["models", "get"], ["pullquote models get", "NAME"]),
        (["highlight", "-q", "x", "--limit", "3", "a.txt"], ["--limit", "--top-k"]),
        (["serve", "--prot", "1"], ["--prot", "--port"]),
        (["embed", "-o", "x.npy", "a.txt", "b.txt"], ["'b.txt'", "unexpected"]),
        (["--verison"], ["--verison", "--version"]),
    ],
)
def test_wrong_arguments_print_one_usage_line_and_what_was_meant(arguments: list[str], names: list[object]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    usage, error = done.stderr.decode().splitlines()
    assert usage.startswith("usage: pullquote ")
    assert names_all(error, *names), error


def test_no_command_prints_help() -> None:
    done = run()
    assert done.returncode == 2
    assert all(command in done.stdout.decode() for command in COMMANDS)


def test_piped_standard_input_is_the_default_file(letters: list[str], tmp_path: Path) -> None:
    done = run("highlight", *letters, "--json", "-q", "bread", stdin=PAGE.encode())
    assert json.loads(done.stdout)["id"] == "-"
    done = run("embed", *letters, "-o", tmp_path / "out.npy", stdin=b"a\nb\n")
    assert (done.returncode, len(np.load(tmp_path / "out.npy"))) == (0, 2)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8"])
def test_encodings_that_a_file_shows(encoding: str, letters: list[str], tmp_path: Path) -> None:
    path = tmp_path / "page.txt"
    path.write_bytes("Brötchen sind rund. Und gut.".encode(encoding))
    done = run("highlight", *letters, "--json", "-q", "Brötchen", "-k", "1", "--highlight-length", "1", path)
    [found] = json.loads(done.stdout)["highlights"]
    assert (found["start"], found["text"]) == (0, "Brötchen sind rund.")


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"%PDF-1.7 \xff", ["PDF"]),
        (b"PK\x03\x04....word/document.xml", ["DOCX"]),
        (b"PK\x03\x04....", ["ZIP"]),
        (b"\x89PNG\r\n\x1a\n\0", ["PNG"]),
        (b"\xff\xd8\xff\xe0", ["JPEG"]),
        (b"abc\0\xff\xfe\xfd", ["not text"]),
    ],
)
def test_other_files_than_text_are_named(data: bytes, names: list[object], letters: list[str], tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(data)
    done = run("highlight", *letters, "-q", "bread", path)
    # 69 without the readers of documents.
    assert done.returncode in {65, 69}
    assert names_all(done.stderr.decode().replace("\n", " "), *names), done.stderr
    piped = run("highlight", *letters, "-q", "bread", stdin=data)
    assert piped.returncode == done.returncode
    assert names_all(piped.stderr.decode().replace("\n", " "), "standard input", *names), piped.stderr


def test_directory_is_named(letters: list[str], tmp_path: Path) -> None:
    done = run("highlight", *letters, "-q", "bread", tmp_path)
    assert done.returncode == 66
    assert names_all(done.stderr.decode(), tmp_path, "directory")


def test_mark(letters: list[str], page: Path) -> None:
    asked = ["highlight", *letters, "-q", "bread flour", "--highlight-length", "1", "-k", "1"]
    assert "<b>Bread</b> is baked from <b>flour</b>." in run(*asked, "--mark", "<b>", "</b>", page).stdout.decode()
    [found] = json.loads(run(*asked, "--json", "--mark", "**", "**", page).stdout)["highlights"]
    assert found["marked"] == "**Bread** is baked from **flour**."


def test_format_is_detected_and_shown(letters: list[str], tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_text("# Bread\n\nIt is **baked** from [flour](https://flour.example).\n")
    assert json.loads(run("highlight", *letters, "--json", "-q", "bread", path).stdout)["format"] == "markdown"
    assert "(markdown)" in run("highlight", *letters, "-q", "bread", path).stdout.decode()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_has_all_commands_and_options(shell: str) -> None:
    script = run("completion", shell).stdout.decode()
    for name in [*COMMANDS, "max-total-highlights", "effort", "full fast auto"]:
        assert name in script


def test_bash_completes_options_and_values(tmp_path: Path) -> None:
    script = tmp_path / "complete"
    script.write_bytes(run("completion", "bash").stdout)

    def completed(*words: str) -> list[str]:
        line = " ".join(f"'{word}'" for word in words)
        code = f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _pullquote; echo ${{COMPREPLY[@]}}"
        return subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert completed("pullquote", "hi") == ["highlight"]
    assert completed("pullquote", "highlight", "--max-total-h") == ["--max-total-highlights"]
    assert completed("pullquote", "highlight", "--effort", "f") == ["full", "fast"]
    assert completed("pullquote", "completion", "z") == ["zsh"]
    assert completed("pullquote", "models", "g") == ["get"]
    assert completed("pullquote", "highlight", "a") == []


def test_cite_marks_unsupported_sentences_and_exits_with_1(page: Path, tmp_path: Path) -> None:
    answer = tmp_path / "answer.md"
    answer.write_text(
        "# Bread\n\nBread is baked from flour [1]. Whales sing in the deep ocean [1].\n", encoding="utf-8"
    )
    done = run("cite", answer, page)
    assert done.returncode == 1, done.stderr
    out = done.stdout.decode()
    assert "✓ Bread is baked from flour [1]." in out
    assert "✗ Whales sing in the deep ocean [1]." in out
    assert "Bread is baked from flour." in out
    assert run("cite", "--exit-zero", answer, page).returncode == 0
    supported = run("cite", "--json", "-", page, stdin=b"Bread is baked from flour.")
    assert supported.returncode == 0, supported.stderr
    assert json.loads(supported.stdout)["sentences"][0]["passages"][0]["id"] == str(page)
    assert run("cite", answer, tmp_path / "none.txt").returncode == 66
