"""A Ray cluster of three nodes on this machine, shared by all tests; each module connects to it as a driver."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import crashing_encoder

ray = pytest.importorskip("ray", reason="pullquote[ray] is not installed")

# Bytes.
STORE = 80 * 1024 * 1024
# Ray declares a node dead after five missed probes of half a second each, instead of after 15 seconds. A live but slow node
# still has ten seconds for each answer.
DEATH = {"health_check_period_ms": 500, "health_check_failure_threshold": 5}
# Seconds that Ray Serve waits for its proxy before it kills it: 5 and 10 by default, too few where all cores are busy.
PROXY_PATIENCE = {"RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "120", "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "60"}
# Marks of a module that uses Ray, which warns of its own code.
RAY_MARKS = [
    pytest.mark.ray,
    pytest.mark.slow,
    *(pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("DeprecationWarning", "ResourceWarning")),
]


class Nodes:
    """A head node without cores, and two worker nodes of one core each, which `replace` restores after a kill."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        # Without the processes for autoscaling and logs.
        idle = {"include_dashboard": False, "no_monitor": True, "include_log_monitor": False}
        head = {"num_cpus": 0, "object_store_memory": STORE, "_system_config": DEATH, **idle}
        self._cluster: Any = Cluster(initialize_head=True, head_node_args=head)
        self._workers: list[Any] = []
        self.replace()

    @contextlib.contextmanager
    def joined(self) -> Iterator[None]:
        """Connect as a driver; its jobs and actors end with the connection."""
        ray.init(self._cluster.address, log_to_driver=False, logging_level=logging.ERROR)
        try:
            yield
        finally:
            ray.shutdown()

    def kill(self, raylet: int) -> None:
        """Kill a worker node, given its raylet's process id, with all its processes and without a graceful shutdown."""
        node = next(node for node in self._workers if node.all_processes["raylet"][0].process.pid == raylet)
        self._cluster.remove_node(node, allow_graceful=False)
        self._workers.remove(node)

    def replace(self) -> None:
        """Start nodes until there are two workers."""
        while len(self._workers) < 2:
            self._workers.append(self._cluster.add_node(num_cpus=1, object_store_memory=STORE))
        self._cluster.wait_for_nodes(60)

    def close(self) -> None:
        self._cluster.shutdown()


@contextlib.contextmanager
def three_nodes(folder: Path) -> Iterator[Nodes]:
    """A cluster whose processes read the schedule of `crashing_encoder` in `folder`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(crashing_encoder.FOLDER, str(folder))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        for name, seconds in PROXY_PATIENCE.items():
            patch.setenv(name, seconds)
        nodes = Nodes()
        try:
            yield nodes
        finally:
            nodes.close()
