"""Goals: what a number of a record has to be, so that the record itself says whether it is."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """What was measured, and the least and the most that it may be; `form` is how its numbers are written."""

    what: str
    measured: float
    least: float = -math.inf
    most: float = math.inf
    form: str = ".2f"

    @property
    def is_met(self) -> bool:
        """Whether the number lies between its bounds; one that is no number does not."""
        return self.least <= self.measured <= self.most

    def line(self) -> str:
        """Write it as a line of a record."""
        bounds = [
            f"at {word} {bound:{self.form}}"
            for word, bound in (("least", self.least), ("most", self.most))
            if math.isfinite(bound)
        ]
        verdict = "met" if self.is_met else "**missed**"
        return f"- goal {verdict}: {self.what}: {self.measured:{self.form}} ({' and '.join(bounds)})"
