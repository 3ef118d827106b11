"""The threads of a test's process, or of a script that a test runs in `SCRIPT_ENVIRONMENT`."""

import contextlib
import os
from pathlib import Path

# Scripts can import `support` in it, and what the caller's own PYTHONPATH names.
_FOLDERS = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
SCRIPT_ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, _FOLDERS))}


def thread_names() -> dict[int, str]:
    """Names by thread id; Linux keeps 15 characters of each."""
    names = {}
    for task in Path("/proc/self/task").iterdir():
        # A thread may end after it was listed.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            names[int(task.name)] = (task / "comm").read_text().strip()
    return names


def own_threads() -> list[str]:
    """The names of pullquote's threads, sorted."""
    return sorted(name for name in thread_names().values() if name.startswith("pullquote"))
