"""A Ray cluster of three nodes on this machine: begun once, joined by each module of tests that needs it."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import crashing_encoder as doomed

ray = pytest.importorskip("ray", reason="pullquote[ray] is not installed")

# Bytes: what travels in tests is small.
STORE = 80 * 1024 * 1024
# A node is dead when nobody has been at its address for so long, and not after 15 seconds as elsewhere. One that is there but
# slow still has ten seconds for each of its five answers.
DEATH = {"health_check_period_ms": 500, "health_check_failure_threshold": 5}
# What Ray says against itself is not ours to mend.
RAY_WARNS = [pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("DeprecationWarning", "ResourceWarning")]


class Nodes:
    """A head that does no work, and two nodes of one core that do; those that were killed can be replaced."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        # Processes that no test asks for: what scales a cluster, and what brings logs here.
        idle = {"include_dashboard": False, "no_monitor": True, "include_log_monitor": False}
        head = {"num_cpus": 0, "object_store_memory": STORE, "_system_config": DEATH, **idle}
        self._cluster: Any = Cluster(initialize_head=True, head_node_args=head)
        self._workers: list[Any] = []
        self.replace()

    @contextlib.contextmanager
    def joined(self) -> Iterator[None]:
        """Be a driver of the cluster: what it began ends with it."""
        ray.init(self._cluster.address, log_to_driver=False, logging_level=logging.ERROR)
        try:
            yield
        finally:
            ray.shutdown()

    def kill(self, keeper: int) -> None:
        """Kill a working node, named by the process that keeps it, and all that runs on it, without a word to anybody."""
        node = next(node for node in self._workers if node.all_processes["raylet"][0].process.pid == keeper)
        self._cluster.remove_node(node, allow_graceful=False)
        self._workers.remove(node)

    def replace(self) -> None:
        """Have two working nodes, whatever became of those before."""
        while len(self._workers) < 2:
            self._workers.append(self._cluster.add_node(num_cpus=1, object_store_memory=STORE))
        self._cluster.wait_for_nodes(60)

    def close(self) -> None:
        self._cluster.shutdown()


@contextlib.contextmanager
def three_nodes(doom: Path) -> Iterator[Nodes]:
    """A cluster in which `doomed` finds its announcements in the folder `doom`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(doomed.DOOM, str(doom))
        # Nobody is told of it.
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        nodes = Nodes()
        try:
            yield nodes
        finally:
            nodes.close()
