"""What a redistribution is asked to be best at, as one value."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import PlannerError

OBJECTIVES = ("time", "bytes", "peak", "steps")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """What to look for, and with which collectives.

    Parameters
    ----------
    objective
        What is least: `time`, the seconds of all steps; `bytes`, what the busiest rank of every step receives, added
        up; `peak`, the most elements that a rank holds at any step; `steps`, their number. Among equals the fastest is
        taken.
    exchange
        Whether the direct exchange may be used.
    peak_limit
        Whether every step has to keep within the logical peak: its input and output together are no larger than source
        and target together. The objective `steps` knows no limit.
    budget
        Moves that a search over more than three axes may follow before it takes the best that it has found; the plan
        then says how far from the best it can be at most. Over up to three axes a search is exhaustive.

    Raises
    ------
    PlannerError
        `redistribution.objective-unknown`.
    """

    objective: str = "time"
    exchange: bool = True
    peak_limit: bool = True
    budget: int = 5000

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise PlannerError(
                "redistribution.objective-unknown",
                f"{self.objective!r} is no objective of a redistribution.",
                f"Use one of: {', '.join(OBJECTIVES)}.",
                subject=self.objective,
            )

    @property
    def limited(self) -> bool:
        """Whether the logical peak limits the steps."""
        return self.peak_limit and self.objective != "steps"


DEFAULT_OPTIONS = SearchOptions()
