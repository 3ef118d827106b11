"""The resources that Ray assigned to an actor or task, as arguments of `Highlighter`."""

from __future__ import annotations

from typing import Any

import ray

__all__ = ["assigned_resources"]


def assigned_resources(encoder: object = None) -> dict[str, Any]:
    """`devices` and `threads` for a `Highlighter` in the calling actor or task.

    Devices are the GPUs that Ray assigned, which are numbered from 0 there, or the CPU if it assigned none. Threads are its CPUs,
    rounded down, but at least one. With a custom `encoder`, only `threads`.
    """
    context = ray.get_runtime_context()
    gpus = context.get_accelerator_ids().get("GPU", [])
    cpus = context.get_assigned_resources().get("CPU", 0)
    devices = [f"cuda:{number}" for number in range(len(gpus))] or ["cpu"]
    return {"threads": max(1, int(cpus))} | ({"devices": devices} if encoder is None or encoder == "torch" else {})
