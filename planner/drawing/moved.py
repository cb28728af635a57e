"""The redistribution that a badge of a plan's view is a step of."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.assignment import TrainingGraph
from ..core.collective import Redistribution
from ..core.plan import Precision
from ..errors import PlannerError


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A redistribution of a plan with the element type of what it moves."""

    redistribution: Redistribution
    dtype: str


def moved(training: TrainingGraph, precision: Precision, edge: str, badge: int) -> Moved:
    """Return the redistribution that a badge of an edge is a step of.

    Parameters
    ----------
    edge
        Id of an edge of the view.
    badge
        Position among the edge's badges.

    Raises
    ------
    PlannerError
        `plan.node-unknown`, `plan.badge-unknown`.
    """
    fanouts = [f for s in training.scopes for f in s.fanouts if f"{s.assembly.title}:{f.value}" == edge]
    if not fanouts:
        raise PlannerError("plan.node-unknown", f"The plan has no edge {edge!r}.", "Load the plan's view again.")
    fanout = fanouts[0]
    element = precision.compute if fanout.meta.dtype == "compute" else fanout.meta.dtype
    gradient = precision.gradient if fanout.kind == "parameter" else element
    # In the order of the report's rows, from which badges are made.
    deliveries = [(d, element) for d in (*fanout.forward, *fanout.again)] + [(d, gradient) for d in fanout.backward]
    steps = [Moved(redistribution=d.redistribution, dtype=t) for d, t in deliveries for _ in d.redistribution.steps]
    if not 0 <= badge < len(steps):
        raise PlannerError(
            "plan.badge-unknown", f"{edge} has {len(steps)} collectives; there is no number {badge} from 0.",
            "Load the plan's view again.", subject=edge,
        )  # fmt: skip
    return steps[badge]
