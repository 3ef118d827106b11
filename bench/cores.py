"""Who used the cores while something was timed: the side itself, and all others on this machine.

Threads that wait for each other, as torch's do, lose far more to a busy neighbour than threads that do not. A run on a
machine that others use thus says nothing about the sides, and the record must show it. Read from Linux's `/proc`.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class CoreUse:
    """How many cores were busy, averaged over a time: with this process and its children, and with anything else.

    `others` includes what the host of a virtual machine took away; ticks of 10 ms make it good to about 0.1.
    """

    own: float
    others: float


class Meter:
    """Started when made; `stop` says what the cores did since."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._own = _own_seconds()
        self._all = _all_seconds()

    def stop(self) -> CoreUse:
        """Read the counters again; the children must be those there were at the start."""
        elapsed = time.perf_counter() - self._start
        own = (_own_seconds() - self._own) / elapsed
        return CoreUse(own, max(0.0, (_all_seconds() - self._all) / elapsed - own))


def cores() -> int:
    """Count the cores this process may run on, and so those of every side."""
    return len(os.sched_getaffinity(0))


def _own_seconds() -> float:
    """Add up the processor time of this process and the processes it started."""
    ticks = 0
    for process in [os.getpid(), *(child.pid for child in multiprocessing.active_children())]:
        # The name, in brackets, may hold spaces; user and system time are the 14th and 15th fields.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
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
