"""The use of the cores during a measurement: by the side itself, and by all other processes of this machine.

Threads that wait for each other, as torch's do, lose far more to a busy neighbour than threads that do not. So a ratio
measured on a busy machine is worth nothing, and the record must show it. Read from Linux's `/proc`.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

QUIET = 0.2  # cores that others may use during a run before its record warns of it

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class CoreUse:
    """Mean number of busy cores over a time: with this process and its children, and with other processes.

    `others` includes the time that a virtual machine's host took away. Ticks of 10 ms make it exact to about 0.1.
    """

    own: float
    others: float

    def remark(self) -> str:
        """Return a remark if other processes disturbed the run, else an empty string."""
        return f", WHILE OTHERS USED {self.others:.1f} CORES" if self.others > QUIET else ""


class Meter:
    """Measures the use of the cores from its construction until `stop`."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._own = _own_seconds()
        self._all = _all_seconds()

    def stop(self) -> CoreUse:
        """Read the counters again. Processes that were not started with `multiprocessing` must have ended."""
        elapsed = time.perf_counter() - self._start
        own = (_own_seconds() - self._own) / elapsed
        return CoreUse(own, max(0.0, (_all_seconds() - self._all) / elapsed - own))


def quietness(uses: Iterable[CoreUse]) -> str:
    """A record's line about the run that other processes disturbed most."""
    others = max(use.others for use in uses)
    warning = "**the machine was not quiet, so these numbers are noise:** " if others > QUIET else ""
    return f"{warning}other processes used at most {others:.2f} cores during a run"


def cores() -> int:
    """The number of cores that this process, and so every side, may run on."""
    return len(os.sched_getaffinity(0))


def _own_seconds() -> float:
    """The processor time of this process and all processes that it started, including those that ended."""
    ticks = 0
    for process in [os.getpid(), *(child.pid for child in multiprocessing.active_children())]:
        # The name, in brackets, may hold spaces; user and system time are the 14th and 15th fields, and the next two
        # those of the children that were waited for.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS_A_SECOND


def _all_seconds() -> float:
    """The busy time of the cores that this process may run on: all but idle time and waiting for input and output."""
    ours = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    ticks = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name in ours:
            user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = map(int, fields[:8])
            ticks += user + nice + system + interrupts + soft_interrupts + stolen
    return ticks / _TICKS_A_SECOND
