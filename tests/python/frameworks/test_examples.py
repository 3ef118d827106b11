"""The programs in ``examples/`` run, and answer as their text says."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")
pytest.importorskip("pypdfium2")
pytest.importorskip("fastapi")

from fastapi.testclient import TestClient
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

EXAMPLES = Path(__file__).parents[3] / "examples"
DEMO = EXAMPLES.parent / "demo"
TESTED = {"rag_with_citations.py", "fastapi_app.py", "agent_over_mcp.py", "folder_of_pdfs.py", "notebook.ipynb"}


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == TESTED


def test_rag_cites_exact_characters() -> None:
    done = run("rag_with_citations.py")
    assert done.returncode == 0, done.stderr
    prompt, _, citations = done.stdout.partition("Question: ")
    cited = re.findall(r"^\[(\d+)\] (\S+), characters (\d+) to (\d+)", citations, re.MULTILINE)
    assert [int(number) for number, *_ in cited] == list(range(1, len(cited) + 1))
    assert cited
    for number, name, start, end in cited:
        text = (DEMO / "pages" / name).read_text(encoding="utf-8")[int(start) : int(end)]
        assert f"[{number}] {name}\n{text}" in prompt
    assert "German language" in prompt


def test_agent_answers_over_mcp() -> None:
    done = run("agent_over_mcp.py")
    assert done.returncode == 0, done.stderr
    assert "highlights takes files, max_passages, max_tokens, query, texts" in done.stdout
    assert "apollo_program.en.txt, characters" in done.stdout
    assert re.search(r"would have cost \d\d,\d\d\d tokens", done.stdout)


def test_folder_of_pdfs_links_to_pages(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "apollo.pdf").write_bytes((DEMO / "apollo_program.pdf").read_bytes())
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing")
    done = run("folder_of_pdfs.py", str(tmp_path), "What did Johnson's memo conclude?")
    assert done.returncode == 0, done.stderr
    assert f"{(tmp_path / 'below' / 'apollo.pdf').as_uri()}#page=2\n" in done.stdout
    assert "His memo concluded that a manned Moon landing was far enough in the future" in done.stdout
    assert "broken.pdf" in done.stderr
    assert "no passage says it in these words" not in done.stdout
    done = run("folder_of_pdfs.py", str(tmp_path), "How are sourdough loaves baked?")
    assert "no passage says it in these words" in done.stdout
    assert run("folder_of_pdfs.py", str(DEMO / "pages"), "Who?").returncode == 1
    assert "FOLDER QUESTION" in run("folder_of_pdfs.py").stderr


def test_fastapi_app_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    with TestClient(importlib.import_module("fastapi_app").app) as client:
        found = client.get("/passages", params={"question": "What caused the Apollo 1 cabin fire?", "count": 2})
        assert found.status_code == 200
        passages = found.json()
        assert client.get("/passages").status_code == 422
    assert len(passages) == 2
    assert passages[0]["score"] >= passages[1]["score"]
    for passage in passages:
        page = (DEMO / "pages" / passage["page"]).read_text(encoding="utf-8")
        assert page[passage["start"] : passage["end"]] == passage["text"]
        assert passage["link"].startswith(f"/pages/{passage['page']}#:~:text=")


def test_notebook_prints_its_outputs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    # IPython warns of an environment that is not its own, such as that of `make`.
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    cells = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    shell = InteractiveShell()
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        with capture_output() as captured:
            result = shell.run_cell("".join(cell["source"]))
        assert result.success, result.error_in_exec
        printed = captured.stdout.partition("Out[")[0]
        stored = {output["output_type"]: output for output in cell["outputs"]}
        assert printed == "".join(stored["stream"]["text"] if "stream" in stored else [])
        shown = stored.get("execute_result", {"data": {"text/plain": ["None"]}})["data"]["text/plain"]
        assert repr(result.result) == "".join(shown)
