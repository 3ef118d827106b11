"""Every module can be imported where the names that only Unix has are missing, and a job there says what it needs."""

import subprocess
import sys
from pathlib import Path

import pytest

from pullquote.errors import InvalidArgumentError

PROGRAM = """
import builtins, importlib, os, pkgutil, signal, sys

import pullquote

UNIX = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "select", "syslog", "termios", "tty"}
names = [module.name for module in pkgutil.walk_packages(pullquote.__path__, "pullquote.")]
importable = []
for name in names:
    # vLLM runs only on Unix, and its metrics can be registered once.
    if name.startswith(("pullquote._native", "pullquote.vllm")) or name.endswith("__main__"):
        continue
    try:
        importlib.import_module(name)
    except ImportError:
        # An adapter without its framework.
        continue
    importable.append(name)

# What others import is imported by now; the extension can be initialized once in a process.
for name in [name for name in sys.modules if name.partition(".")[0] == "pullquote" and name != "pullquote._native"]:
    del sys.modules[name]
real = builtins.__import__

def without(name, variables=None, *arguments):
    importer = (variables or {}).get("__name__", "")
    if name in UNIX and importer.startswith("pullquote"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return real(name, variables, *arguments)

builtins.__import__ = without
for name in ("fork", "getuid", "killpg", "register_at_fork", "sched_getaffinity", "sched_setaffinity", "O_DIRECTORY", "sysconf"):
    delattr(os, name)
for name in ("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "pthread_sigmask"):
    delattr(signal, name)
for name in ["pullquote", *importable]:
    importlib.import_module(name)
print(len(importable))
"""


def test_modules_import_without_unix_names() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 60


def test_local_job_without_file_locks_says_what_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = pytest.importorskip("pullquote.jobs._store")
    monkeypatch.setattr(store, "fcntl", None)
    with pytest.raises(InvalidArgumentError, match="file locks") as raised, store.OutputStore(str(tmp_path)).lock():
        pass
    assert str(tmp_path) in str(raised.value)
    assert "s3://" in str(raised.value)
    assert list(tmp_path.iterdir()) == []
