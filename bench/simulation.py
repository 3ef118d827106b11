"""Simulates files processed by actors on machines, as with `pullquote job --engine ray`: the schedule, and failures.

An actor imports and loads before its first file, has two files at once, and computes with its cores. If all actors need more
cores than the cluster has, all get an equal part. An actor that fails loses its work on its files, which go to the next free
actor, and starts again after a while. Not simulated: disks, networks and Ray's own work.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Cluster", "Outcome", "simulate"]

FILES_AT_ONCE = 2
# The work of an actor without a file or a start: it never ends.
EMPTY = np.inf


@dataclass(frozen=True, slots=True)
class Cluster:
    """`actors` of `actor_cores` each, on `cores` in all; `start` is the work of an actor's start, in seconds of a core.

    Actors begin after `before` seconds. An actor fails every `fails_every` seconds on average, and is back `gone` seconds
    later.
    """

    actors: int
    cores: float
    actor_cores: float = 1.0
    start: float = 0.0
    before: float = 0.0
    fails_every: float = np.inf
    gone: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds until all is done; work lost by failures, in seconds of a core; the number of failures; the use of cores."""

    seconds: float
    lost: float
    failures: int
    busy: float


def simulate(work: Sequence[float], cluster: Cluster, seed: int = 0) -> Outcome:
    """Simulate files with this `work` each, in seconds of a core, the largest first."""
    rng = random.Random(seed)  # noqa: S311 - nothing is kept secret by it
    queue = deque(sorted(work, reverse=True))
    count = cluster.actors
    # For each actor: the remaining work of its start and of its files, all work of those, and when it fails or is back.
    starts = np.full(count, cluster.start)
    left = np.full((count, FILES_AT_ONCE), EMPTY)
    whole = np.zeros((count, FILES_AT_ONCE))
    back = np.zeros(count)
    fails = np.array([_next_failure(rng, cluster) for _ in range(count)])
    now, lost, failures, done, total = cluster.before, 0.0, 0, 0, len(queue)
    computed = 0.0
    while done < total:
        here = back <= now
        ready = here & (starts <= 0)
        for slot in range(FILES_AT_ONCE):
            for actor in np.flatnonzero(ready & np.isinf(left[:, slot])):
                if queue:
                    left[actor, slot] = whole[actor, slot] = queue.popleft()
        files = np.isfinite(left).sum(axis=1)
        starting = here & (starts > 0)
        wanting = starting | (files > 0)
        share = min(1.0, cluster.cores / max(wanting.sum() * cluster.actor_cores, 1e-9)) * cluster.actor_cores
        rates = np.where(files > 0, share / np.maximum(files, 1), share)
        # A start is done by one core.
        until = [
            np.min(np.where(starting, starts / min(share, 1.0), EMPTY)),
            np.min(left / rates[:, None]),
            np.min(np.where(here, fails, EMPTY)) - now,
            np.min(np.where(here, EMPTY, back)) - now,
        ]
        step = max(0.0, float(min(until)))
        now += step
        starts[starting] = np.maximum(starts[starting] - step * min(share, 1.0), 0.0)
        computed += step * float(share) * int((files > 0).sum())
        left -= step * rates[:, None]
        ended = left <= 1e-9
        done += int(ended.sum())
        left[ended] = EMPTY
        starts[starts <= 1e-9] = 0.0
        for actor in np.flatnonzero(here & (fails <= now + 1e-9)):
            failures += 1
            held = np.isfinite(left[actor])
            lost += float((whole[actor] - left[actor])[held].sum())
            queue.extendleft(whole[actor][held])
            left[actor], starts[actor] = EMPTY, cluster.start
            back[actor] = now + cluster.gone
            fails[actor] = back[actor] + _next_failure(rng, cluster)
    return Outcome(now, lost, failures, computed / (now * min(cluster.cores, count * cluster.actor_cores)))


def _next_failure(rng: random.Random, cluster: Cluster) -> float:
    return rng.expovariate(1 / cluster.fails_every) if np.isfinite(cluster.fails_every) else np.inf
