"""What the stages of `bench/gpu.py` share: where they run, what they find, and the process of each.

python -m bench.gpu_trial gpu_checks:gate FOUND.json cuda:0 [RAYON_AROUND]
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bench import small_model
from bench.goals import Goal
from pullquote import Highlighter

# The stage of `Highlighter.stages` in which a batch's kernels are queued.
LAUNCH = "launch"

Amount = TypeVar("Amount")


@dataclass(frozen=True, slots=True)
class Trial:
    """Where a stage runs: a CUDA device, or ``cpu`` to try the stage with little work.

    `binary` is ``rayon_around``, if built; `found` is the file for what the stage finds.
    """

    device: str
    binary: Path | None
    found: Path

    @property
    def is_cpu(self) -> bool:
        """Whether there is no card."""
        return self.device == "cpu"

    @property
    def dtype(self) -> str:
        """What the stages compute in: float16, which processors are slow with."""
        return "float32" if self.is_cpu else "float16"

    def scaled(self, on_card: Amount, on_cpu: Amount) -> Amount:
        """An amount of work."""
        return on_cpu if self.is_cpu else on_card

    def write(self, findings: Findings) -> None:
        """Write what was found so far, which stays if the stage is ended at its time limit."""
        written = findings.numbers | {
            "lines": findings.lines,
            "goals": findings.goals,
            "outcome": findings.outcome,
        }
        self.found.write_text(json.dumps(written, ensure_ascii=False), encoding="utf-8")

    def highlighter(self, model: Path | None = None, *, dtype: str | None = None, **arguments: Any) -> Highlighter:
        """Load a model with libtorch, without a cache."""
        return Highlighter(
            model,
            devices=[self.device],
            dtype=dtype or self.dtype,
            cache_bytes=0,
            encoder="torch" if self.is_cpu else None,
            **arguments,
        )


@dataclass(slots=True)
class Findings:
    """What a stage found: `numbers` for machines, `lines` of Markdown for people, and those of them that are goals.

    `outcome` is ``passed``, ``skipped``, or begins with ``failed``.
    """

    numbers: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    goals: list[str] = field(default_factory=list)
    outcome: str = "passed"

    def goal(self, what: str, measured: float, **bounds: Any) -> None:
        """Add a goal's line; a missed one leaves the outcome as it is."""
        self.goals.append(Goal(what, measured, **bounds).line())
        self.lines.append(self.goals[-1])

    def table(self, heads: list[str], rows: list[list[str]]) -> None:
        """Add a table."""
        self.lines += ["", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
        self.lines += [*(f"| {' | '.join(row)} |" for row in rows), ""]


def skipped(why: str) -> Findings:
    """Say why a stage does nothing here."""
    return Findings(lines=[why], outcome="skipped")


def base_model(trial: Trial, directory: Path) -> Path:
    """Write a model of 110 million random weights; a small one where there is no card."""
    return small_model.write_model(directory, trial.scaled(small_model.BASE, small_model.SMALL))


def takes(argument: str) -> bool:
    """Whether `Highlighter` has this argument."""
    return argument in inspect.signature(Highlighter.__init__).parameters


def main() -> None:
    """Run one stage and write what it found."""
    function, found, device, binary = sys.argv[1:5]
    module, _, name = function.partition(":")
    stage: Callable[[Trial], Findings] = getattr(importlib.import_module(f"bench.{module}"), name)
    trial = Trial(device, Path(binary) if binary else None, Path(found))
    trial.write(stage(trial))


if __name__ == "__main__":
    main()
