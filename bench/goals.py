"""Goals: bounds of measured numbers. Each record has a line for each goal, met or missed."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """A measured number with its bounds; `form` is the format of its numbers."""

    what: str
    measured: float
    least: float = -math.inf
    most: float = math.inf
    form: str = ".2f"

    @property
    def is_met(self) -> bool:
        """Whether the number lies between its bounds. NaN does not."""
        return self.least <= self.measured <= self.most

    def line(self) -> str:
        """The goal as a line of a record."""
        bounds = [
            f"at {word} {bound:{self.form}}"
            for word, bound in (("least", self.least), ("most", self.most))
            if math.isfinite(bound)
        ]
        verdict = "met" if self.is_met else "**missed**"
        return f"- goal {verdict}: {self.what}: {self.measured:{self.form}} ({' and '.join(bounds)})"
