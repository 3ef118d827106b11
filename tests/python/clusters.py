"""A Ray cluster of three nodes on this machine, for as long as a module of tests needs it."""

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest

ray = pytest.importorskip("ray", reason="pullquote[ray] is not installed")

# Bytes: what travels in tests is small.
STORE = 80 * 1024 * 1024
# What Ray says against itself is not ours to mend.
RAY_WARNS = [pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("DeprecationWarning", "ResourceWarning")]


class Nodes:
    """A head that does no work, and two nodes of one core that do; a node that was killed can be replaced."""

    def __init__(self) -> None:
        # Nobody is told of it.
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False}
        from ray.cluster_utils import Cluster

        self._cluster: Any = Cluster(initialize_head=True, head_node_args=head)
        self.workers: list[Any] = [self._add(), self._add()]
        ray.init(self._cluster.address, log_to_driver=False, logging_level=logging.ERROR)

    def _add(self) -> Any:
        return self._cluster.add_node(num_cpus=1, object_store_memory=STORE)

    def kill(self, keeper: int) -> None:
        """Kill a working node, named by the process that keeps it, and all that runs on it, without a word to anybody."""
        node = next(node for node in self.workers if node.all_processes["raylet"][0].process.pid == keeper)
        self._cluster.remove_node(node, allow_graceful=False)
        self.workers.remove(node)

    def replace(self) -> None:
        """Have two working nodes again."""
        while len(self.workers) < 2:
            self.workers.append(self._add())
        self._cluster.wait_for_nodes(60)

    def close(self) -> None:
        ray.shutdown()
        self._cluster.shutdown()


@contextlib.contextmanager
def three_nodes() -> Iterator[Nodes]:
    nodes = Nodes()
    try:
        yield nodes
    finally:
        nodes.close()
