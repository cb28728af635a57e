"""What an action waits for: its neighbours along the chain."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from ..core.schedule import Action, Schedule

Key = tuple[int, str, int]
"""Stage, `F` or `B`, microbatch: what an action provides; `B` stands for the gradients of its inputs."""


@dataclass(frozen=True, slots=True)
class Links:
    """The stages before and after each stage, where there are any."""

    before: dict[int, int]
    after: dict[int, int]

    def needs(self, action: Action) -> Key | None:
        """Return what an action waits for besides its own rank; None if for nothing."""
        stage, micro = action.stage, action.microbatch
        if action.kind == "F":
            return (self.before[stage], "F", micro) if stage in self.before else None
        if action.kind == "W":
            return (stage, "B", micro)
        return (self.after[stage], "B", micro) if stage in self.after else (stage, "F", micro)

    def reader(self, action: Action) -> int | None:
        """Return the stage that reads what an action makes; None if none does."""
        if action.kind == "W":
            return None
        return (self.after if action.kind == "F" else self.before).get(action.stage)


def links(schedule: Schedule) -> Links:
    """Return the neighbours of every stage."""
    pairs = [pair for chain in schedule.chains for pair in pairwise(chain.stages)]
    return Links({right: left for left, right in pairs}, dict(pairs))


def provides(action: Action) -> Key:
    """Return what an action makes, except for weight gradients."""
    return (action.stage, "F" if action.kind == "F" else "B", action.microbatch)
