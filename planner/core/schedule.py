"""A pipeline schedule: which rank runs which action of which stage, in what order.

An action is written as torch writes it, `2F0`: stage 2, forward, microbatch 0. Kinds are `F` (forward), `I` (gradient
of the inputs), `W` (gradient of the weights) and `B` (both at once). A *cell* is one action, or two that run at the
same time on one rank, `(0F3;7B0)OVERLAP_F_B`.

Stages form *chains*: forward goes along a chain, backward returns. Most schedules have one; one that runs in two
directions has a chain for each, with its own microbatches, over the same model parts.

Invariants: `Action.parse(str(a)) == a`; every chain has the same number of stages; `placement` names a rank for each
stage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import ScheduleError

KINDS = "FIWB"
_CELL = re.compile(r"(\d+)([FIWB])(\d+)")


@dataclass(frozen=True, slots=True, order=True)
class Action:
    """One pass of one microbatch through one stage; see the module docstring."""

    stage: int
    kind: str
    microbatch: int

    @staticmethod
    def parse(text: str) -> Action:
        """Read an action such as `2F0`.

        Raises
        ------
        ScheduleError
            `schedule.action` for any other text.
        """
        found = _CELL.fullmatch(text.strip())
        if found is None:
            raise ScheduleError(
                "schedule.action",
                f"{text.strip()!r} is not an action.",
                "Write stage, kind and microbatch, such as 2F0; kinds are F, I, W and B.",
                subject=text.strip(),
            )
        stage, kind, microbatch = found.groups()
        return Action(int(stage), kind, int(microbatch))

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"


Cell = tuple[Action, ...]
"""One action, or two that run at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Stages that a microbatch passes one after the other, and the microbatches that do."""

    stages: tuple[int, ...]
    microbatches: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The order of every rank.

    Parameters
    ----------
    name
        Key of the table `SCHEDULES`, or what a file said.
    placement
        Rank of every stage.
    chains
        See the module docstring.
    orders
        Per rank, the cells in the order in which they run.
    """

    name: str
    placement: tuple[int, ...]
    chains: tuple[Chain, ...]
    orders: tuple[tuple[Cell, ...], ...]

    @property
    def ranks(self) -> int:
        """Number of ranks of the pipeline."""
        return len(self.orders)

    @property
    def parts(self) -> int:
        """Number of parts that the model is cut into: the stages of one chain."""
        return len(self.chains[0].stages)

    @property
    def microbatches(self) -> int:
        """Number of microbatches of a step, over all chains."""
        return sum(len(chain.microbatches) for chain in self.chains)

    def actions(self) -> Iterator[Action]:
        """Yield every action, rank after rank."""
        return (action for order in self.orders for cell in order for action in cell)

    def stages_of(self, rank: int) -> tuple[int, ...]:
        """Return the stages that a rank holds, in order."""
        return tuple(stage for stage, place in enumerate(self.placement) if place == rank)

    def part_of(self, stage: int) -> int:
        """Return which part of the model a stage is."""
        return next(chain.stages.index(stage) for chain in self.chains if stage in chain.stages)


def loop(ranks: int, stages: int) -> tuple[int, ...]:
    """Return the placement that deals stages out to the ranks in turn: 0 1 2 3 0 1 2 3."""
    return tuple(stage % ranks for stage in range(stages))


def vee(ranks: int, stages: int) -> tuple[int, ...]:
    """Return the placement that turns round at both ends: 0 1 2 3 3 2 1 0."""
    return tuple(stage % ranks if (stage // ranks) % 2 == 0 else ranks - 1 - stage % ranks for stage in range(stages))
