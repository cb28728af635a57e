"""A pipeline whose parts all cost the same: what a person asks for who wants to see a schedule, without a model."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.timeline import StageTimes
from ..errors import ScheduleError
from .bound import lower_bound
from .named import Simulated, candidates, definition_of, find_order
from .simulate import simulate

MAX_ACTIONS = 200_000
"""More are refused: nobody reads them, and they would take long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualParts:
    """A pipeline whose parts all cost the same.

    Parameters
    ----------
    per_rank
        Parts of the model on each rank; 0 for what the schedule needs.
    forward, backward_input, backward_weight, send
        Seconds, or any other unit, of what one rank does for a microbatch, all its parts together, and of one message.
    keep
        Microbatches that a rank has room for; 0 for any number. Only the automatic schedule heeds it.
    objective
        What the automatic schedule makes small: `makespan` or `span`.
    """

    name: str
    ranks: int
    microbatches: int
    per_rank: int
    forward: float
    backward_input: float
    backward_weight: float
    send: float
    keep: float
    objective: str = "makespan"


def equal_parts(asked: EqualParts) -> Simulated:
    """Return the timeline.

    Raises
    ------
    ScheduleError
        `schedule.unknown`, `schedule.too-large`, or what the schedule refuses.
    """
    definition = definition_of(asked.name)
    actions = 3 * asked.ranks * max(1, asked.per_rank) * asked.microbatches
    if actions > MAX_ACTIONS:
        raise ScheduleError(
            "schedule.too-large",
            f"{asked.ranks} ranks with {asked.microbatches} microbatches run {actions:,} actions, "
            f"more than the {MAX_ACTIONS:,} that are drawn.",
            "Use fewer ranks or microbatches: the picture of a few rounds is the same.",
        )
    if definition is None:
        starts = candidates(asked.ranks, asked.microbatches, asked.per_rank)
        times = _times(asked, len(starts[0].placement), len(starts[0].placement))
        return find_order(starts, times, (asked.keep or float("inf"),) * asked.ranks, asked.objective)
    schedule = definition.build(asked.ranks, asked.microbatches, asked.per_rank)
    times = _times(asked, len(schedule.placement), schedule.parts if len(schedule.chains) == 1 else asked.ranks)
    return Simulated(timeline=simulate(schedule, times), bound=lower_bound(schedule, times))


def _times(asked: EqualParts, stages: int, parts: int) -> tuple[StageTimes, ...]:
    share = asked.ranks / parts
    one = StageTimes(
        forward=asked.forward * share,
        backward_input=asked.backward_input * share,
        backward_weight=asked.backward_weight * share,
        send_forward=asked.send,
        send_backward=asked.send,
        activation=share,
        weight_gradient=share,
    )
    return (one,) * stages
