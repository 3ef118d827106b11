"""What Ray gave an actor, as a highlighter is told it."""

from __future__ import annotations

from typing import Any

import ray

__all__ = ["given"]


def given(encoder: object = None) -> dict[str, Any]:
    """`devices` and `threads` for a `Highlighter` in the actor or task that asks.

    Cards are those that Ray made visible to it, which are numbered from 0 there; without any it is the CPU, whatever the machine
    has. Threads are its CPUs, rounded down; one at least. An `encoder` of one's own has no devices to be told of.
    """
    context = ray.get_runtime_context()
    cards = context.get_accelerator_ids().get("GPU", [])
    cores = context.get_assigned_resources().get("CPU", 0)
    devices = [f"cuda:{number}" for number in range(len(cards))] or ["cpu"]
    return {"threads": max(1, int(cores))} | ({"devices": devices} if encoder is None or encoder == "torch" else {})
