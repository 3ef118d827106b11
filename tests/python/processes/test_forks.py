"""Forks, worker processes and the interpreter's exit: right answers or ForkedError, and never a hang."""

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.threads import SCRIPT_ENVIRONMENT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

HEAD = """
import multiprocessing, os, signal, sys, threading, time, warnings
import numpy as np
import pullquote.engine
from pullquote import errors
warnings.filterwarnings("ignore", category=DeprecationWarning)
MOON = "Cats sleep a lot. The moon is 384,400 km away. Bread is baked."
LONG = " ".join(f"Sentence {n} is here." for n in range(20000))
def encode(texts):
    return np.array([[len(text), text.count("e"), 1.0] for text in texts], np.float32)
begun = threading.Event()
def signals(texts):
    if len(texts) > 1:
        begun.set()
    return encode(texts)
def ask(highlighter):
    return highlighter.highlights("How far is the moon?", [MOON])[0][0].text
def in_child(work):
    \"\"\"What a fork prints; one that hangs is killed.\"\"\"
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        try:
            work()
            sys.stdout.flush()
        except BaseException as error:
            print(f"raised {error!r}", flush=True)
        os._exit(0)
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.perf_counter() - began > 60:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            print("hung", flush=True)
            break
        time.sleep(0.01)
"""


def run(code: str, tmp_path: Path) -> list[str]:
    """Run a script file, because spawn and forkserver import it again."""
    script = tmp_path / "script.py"
    script.write_text(HEAD + textwrap.dedent(code), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=600, env=SCRIPT_ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "Fatal" not in done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_multiprocessing_workers(method: str, tmp_path: Path) -> None:
    code = f"""
    def work(_):
        return pullquote.highlights("How far is the moon?", [MOON])[0][0].text
    if __name__ == "__main__":
        print(pullquote.highlights("moon", [MOON])[0][0].text)
        with multiprocessing.get_context({method!r}).Pool(2) as pool:
            print(set(pool.map(work, range(4))))
    """
    assert run(code, tmp_path) == ["The moon is 384,400 km away.", "{'The moon is 384,400 km away.'}"]


def test_preforked_workers_load_their_own_highlighter(tmp_path: Path) -> None:
    """As gunicorn does: the parent imports, and each worker loads."""
    code = """
    def worker():
        with pullquote.Highlighter(devices="cpu") as highlighter:
            os.write(1, f"{ask(highlighter)}\\n".encode())  # one write, so that lines of processes do not mix
    children = [os.fork() or (worker(), os._exit(0)) for _ in range(3)]
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    """
    assert run(code, tmp_path) == ["The moon is 384,400 km away."] * 3


def test_forked_error_of_each_class(tmp_path: Path) -> None:
    code = """
    import asyncio
    highlighter = pullquote.Highlighter(devices="cpu")
    own = pullquote.Highlighter(encoder=encode)
    awaited = pullquote.AsyncHighlighter.sharing(own)
    engine = pullquote.engine.Engine(encoder=encode)
    def main():
        return awaited.highlights("cat", [MOON])
    ask(highlighter), ask(own), asyncio.run(main())
    engine.add_request("a", "cat", [LONG]); engine.step()
    def work():
        for call in (lambda: ask(highlighter), lambda: ask(own), lambda: asyncio.run(main()), lambda: engine.step(),
                     lambda: engine.add_request("b", "cat", [MOON]), lambda: highlighter.embed(["a"])):
            try:
                call()
            except errors.ForkedError as error:
                print(type(error).__name__)
        print(ask(pullquote.Highlighter(encoder=encode)) in MOON)
    in_child(work)
    print(ask(highlighter))
    """
    assert run(code, tmp_path) == ["ForkedError"] * 6 + ["True", "The moon is 384,400 km away."]


@pytest.mark.slow
def test_fork_during_calls_does_not_hang(tmp_path: Path) -> None:
    code = """
    highlighter = pullquote.Highlighter(encoder=signals, max_batch_size=8)
    stop = threading.Event()
    def go_on():
        while not stop.is_set():
            highlighter.highlights("cat", [LONG[:4000]], effort="full")
    callers = [threading.Thread(target=go_on) for _ in range(8)]
    for caller in callers: caller.start()
    begun.wait()
    def work():
        try:
            ask(highlighter)
        except errors.ForkedError:
            print("forked")
        print(ask(pullquote.Highlighter(encoder=encode)) in MOON)
        highlighter.close()
    for _ in range(5): in_child(work)
    stop.set()
    for caller in callers: caller.join()
    """
    assert run(code, tmp_path) == ["forked", "True"] * 5


def test_highlighter_dropped_in_fork_leaves_parent_usable(tmp_path: Path) -> None:
    code = """
    highlighter = pullquote.Highlighter(devices="cpu")
    page = "The moon is far away. Cats sleep. " * 5000
    highlighter.highlights("moon", [page], effort="fast")
    def work():
        global highlighter
        del highlighter
        print("gone")
    in_child(work)
    print(ask(highlighter))
    """
    assert run(code, tmp_path) == ["gone", "The moon is 384,400 km away."]


@pytest.mark.slow
def test_torch_data_loader_workers(tmp_path: Path) -> None:
    code = """
    import torch
    class Pages(torch.utils.data.Dataset):
        def __init__(self, made): self.made = made
        def __len__(self): return 4
        def __getitem__(self, place):
            if self.made is None:
                self.made = pullquote.Highlighter(devices="cpu", threads=1)
            return ask(self.made)
    if __name__ == "__main__":
        for context in ("fork", "spawn"):
            loader = torch.utils.data.DataLoader(Pages(None), num_workers=2, multiprocessing_context=context)
            print({text for batch in loader for text in batch})
        made = pullquote.Highlighter(devices="cpu")
        ask(made)
        try:
            list(torch.utils.data.DataLoader(Pages(made), num_workers=1, multiprocessing_context="fork"))
        except errors.ForkedError as error:
            print(type(error).__name__)
    """
    assert run(code, tmp_path) == ["{'The moon is 384,400 km away.'}"] * 2 + ["ForkedError"]


def test_import_starts_no_threads_and_opens_no_files() -> None:
    code = """
import os, sys
sys.path_importer_cache.clear()
import numpy, inspect, tqdm, asyncio, warnings, weakref, threading, importlib.util, dataclasses
opened = []
def hook(event, arguments):
    if event == "open" and not str(arguments[0]).endswith((".py", ".pyc", ".so")):
        opened.append(arguments[0])
sys.addaudithook(hook)
files = lambda: {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")}
before, threads = files(), len(os.listdir("/proc/self/task"))
import pullquote
print(len(os.listdir("/proc/self/task")) - threads, sorted(files() - before), opened, "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0 [] [] False"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["caller's thread", "asyncio", "step", "cpu"])
def test_interpreter_exits_during_calls(kind: str) -> None:
    """`bench/processes.py` measures the exit."""
    work = {
        "caller's thread": "made = pullquote.Highlighter(encoder=encode)\ncall = lambda: made.highlights('cat', [LONG])",
        "asyncio": (
            "import asyncio\nmade = pullquote.AsyncHighlighter(encoder=encode)\n"
            "async def main(): await asyncio.gather(*[made.highlights('cat', [LONG]) for _ in range(50)])\n"
            "call = lambda: asyncio.run(main())"
        ),
        "step": (
            "made = pullquote.engine.Engine(encoder=encode)\n"
            "def call():\n    made.add_request('a', 'cat', [LONG])\n"
            "    while made.has_unfinished_requests(): made.step()"
        ),
        "cpu": "made = pullquote.Highlighter(devices='cpu')\ncall = lambda: made.highlights('cat', [LONG], effort='full')",
    }[kind]
    code = f"""{HEAD}
{work}
def calls():
    while True:
        call()
for _ in range(1 if {kind!r} == "step" else 4):
    threading.Thread(target=calls, daemon=True).start()
while not made.device_states[0].batches:
    time.sleep(0.001)
"""

    def end(_: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)

    with ThreadPoolExecutor(3) as side_by_side:
        for done in side_by_side.map(end, range(3)):
            assert done.returncode == 0, done.stderr
            assert "Fatal" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("later_handler_sleeps", [0, 0.3])
def test_interpreter_exits_while_a_thread_is_in_python_called_from_rust(later_handler_sleeps: float) -> None:
    """The library asks `threading` for the main thread in each call; a handler registered before it runs after its own."""
    code = f"""import _thread, atexit, time
atexit.register(time.sleep, {later_handler_sleeps})
{HEAD}
made = pullquote.Highlighter(encoder=encode)
def slow_main_thread(real=threading.main_thread):
    main = real()
    if _thread.get_ident() != main.ident:
        begun.set()
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            time.sleep(0.001)  # takes Python's lock again, while the interpreter ends
    return main
threading.main_thread = slow_main_thread
def calls():
    while True:
        try:
            made.highlights("cat", [MOON])
        except errors.ClosedError:
            pass
threading.Thread(target=calls, daemon=True).start()
assert begun.wait(60)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_thousand_instances_leak_no_threads_files_or_memory(tmp_path: Path) -> None:
    code = """
    import asyncio, resource
    from support.threads import own_threads
    def once():
        with pullquote.Highlighter(encoder=encode) as made:
            ask(made)
            awaited = pullquote.AsyncHighlighter.sharing(made)
            async def main():
                await awaited.highlights("cat", [MOON])
            asyncio.run(main())
        engine = pullquote.engine.Engine(encoder=encode)
        engine.add_request("a", "cat", [MOON])
        engine.step()
    def resident():
        return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
    for _ in range(200): once()
    before = resident()
    for _ in range(1000): once()
    grown = resident() - before
    deadline = time.time() + 60
    while own_threads() and time.time() < deadline: time.sleep(0.01)
    print(own_threads(), len(os.listdir("/proc/self/fd")) < 20, grown < 20_000_000)
    print(grown)
    """
    found = run(code, tmp_path)
    assert found[0] == "[] True True", found
