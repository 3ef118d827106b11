"""Who used the cores while something was timed: the side itself, and all others on this machine.

Threads that wait for each other, as torch's do, lose far more to a busy neighbour than threads that do not. A run on a
machine that others use thus says nothing about the sides, and the record must show it. Read from Linux's `/proc`.
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
    """How many cores were busy, averaged over a time: with this process and its children, and with anything else.

    `others` includes what the host of a virtual machine took away; ticks of 10 ms make it good to about 0.1.
    """

    own: float
    others: float

    def remark(self) -> str:
        """Return a remark if other processes disturbed the run, else an empty string."""
        return f", WHILE OTHERS USED {self.others:.1f} CORES" if self.others > QUIET else ""


class Meter:
    """Started when made; `stop` says what the cores did since."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._own = _own_seconds()
        self._all = _all_seconds()

    def stop(self) -> CoreUse:
        """Read the counters again; a process that was started by other means than `multiprocessing` must have ended."""
        elapsed = time.perf_counter() - self._start
        own = (_own_seconds() - self._own) / elapsed
        return CoreUse(own, max(0.0, (_all_seconds() - self._all) / elapsed - own))


def quietness(uses: Iterable[CoreUse]) -> str:
    """Write how quiet the machine was during the run that others disturbed most, as a record says it."""
    others = max(use.others for use in uses)
    warning = "**the machine was not quiet, so these numbers are noise:** " if others > QUIET else ""
    return f"{warning}other processes used at most {others:.2f} cores during a run"


def cores() -> int:
    """Count the cores this process may run on, and so those of every side."""
    return len(os.sched_getaffinity(0))


def _own_seconds() -> float:
    """Add up the processor time of this process and the processes it started, those that ended included."""
    ticks = 0
    for process in [os.getpid(), *(child.pid for child in multiprocessing.active_children())]:
        # The name, in brackets, may hold spaces; user and system time are the 14th and 15th fields, and the next two
        # those of the children that were waited for.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS_A_SECOND


def _all_seconds() -> float:
    """Add up the busy time of the cores this process may run on: all but idle and waiting for input and output."""
    ours = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    ticks = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name in ours:
            user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = map(int, fields[:8])
            ticks += user + nice + system + interrupts + soft_interrupts + stolen
    return ticks / _TICKS_A_SECOND
