"""The learning rate of each step: a rise from nothing, then constant, a line, or half a cosine."""

from __future__ import annotations

import math
from dataclasses import dataclass

SCHEDULES = ("constant", "linear", "cosine")


@dataclass(frozen=True)
class Rate:
    """A schedule of the learning rate.

    Parameters
    ----------
    peak
        The rate after the rise.
    steps
        Steps of the whole run; `end` would be reached by one more.
    schedule
        One of `SCHEDULES`.
    warmup
        Steps in which it rises in equal parts; the last of them has `peak`.
    end
        Where a line or a cosine leads.
    """

    peak: float
    steps: int
    schedule: str = "constant"
    warmup: int = 0
    end: float = 0.0

    def at(self, step: int) -> float:
        """Return the rate of a step, the first of which is 0."""
        if step < self.warmup:
            return self.peak * (step + 1) / self.warmup
        part = min((step - self.warmup) / max(self.steps - self.warmup, 1), 1.0)
        match self.schedule:
            case "constant":
                return self.peak
            case "linear":
                left = 1 - part
            case "cosine":
                left = (1 + math.cos(math.pi * part)) / 2
            case _:
                raise ValueError(f"there is no schedule {self.schedule!r}; use one of {', '.join(SCHEDULES)}")
        return self.end + (self.peak - self.end) * left
