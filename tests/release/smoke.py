"""Uses an installed pullquote as a person does: highlights of a page, a server, its client, the command line, a job.

    pip install pullquote pullquote-minilm && python smoke.py

`make smoke` runs it on the wheels of `dist/` in a fresh environment of each Python of this machine. It needs nothing of the
repository. Without pyarrow, which a job reads files with, it says that it ran no job.
"""

import importlib.util
import json
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pullquote

PAGE = "Cats sleep a lot. The moon is 384,400 km away. Bread is baked from flour."
QUESTION = "How far is the moon?"
PASSAGE = "The moon is 384,400 km away."
SECONDS = 120


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pullquote", *arguments]


def library() -> None:
    highlight = pullquote.highlights(QUESTION, [PAGE], top_k=1)[0][0]
    assert (highlight.text, PAGE[highlight.start : highlight.end]) == (PASSAGE, PASSAGE), highlight
    assert highlight.score > pullquote.highlights("Who wrote Faust?", [PAGE], top_k=1)[0][0].score
    with pullquote.Highlighter() as highlighter:
        assert highlighter.embed([PAGE]).shape == (1, 384)


@contextmanager
def server() -> Iterator[str]:
    with subprocess.Popen(
        command("serve", "--port", "0", "--json", "--log-level", "warn"), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()
            # A server that ends by itself within its time ends well.
            assert process.wait(SECONDS) == 0, process.returncode


def client() -> None:
    with server() as url, pullquote.Client(url) as client:
        assert client.highlights(QUESTION, [PAGE], top_k=1)[0][0].text == PASSAGE
        assert client.embed([PAGE]).shape == (1, 384)


def command_line() -> None:
    done = subprocess.run(
        command("highlight", QUESTION, "-k", "1", "--json"),
        input=PAGE,
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS,
    )
    assert PASSAGE in done.stdout, done.stdout


def job() -> None:
    with tempfile.TemporaryDirectory() as folder:
        pages, found = Path(folder, "pages.jsonl"), Path(folder, "found")
        pages.write_text(json.dumps({"url": "a", "text": PAGE}) + "\n", encoding="utf-8")
        arguments = ("--input", str(pages), "--output", str(found), "-q", QUESTION, "--id", "url", "-k", "1")
        subprocess.run(command("job", *arguments), check=True, capture_output=True, timeout=SECONDS)
        row = json.loads((found / "pages.jsonl").read_text(encoding="utf-8"))
        assert (row["id"], row["highlights"][0]["text"]) == ("a", PASSAGE), row


def main() -> None:
    steps = [library, client, command_line]
    if importlib.util.find_spec("pyarrow"):
        steps.append(job)
    os.environ.pop("PYTHONPATH", None)
    for step in steps:
        step()
    threads = ", free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    left_out = "" if job in steps else "; no job, which needs pyarrow"
    done = ", ".join(step.__name__.replace("_", " ") for step in steps)
    print(
        f"pullquote {pullquote.__version__}, Python {platform.python_version()}{threads}, {platform.machine()}: {done}{left_out}"
    )


if __name__ == "__main__":
    main()
