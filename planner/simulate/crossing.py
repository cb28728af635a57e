"""Run a crossing on pretend ranks, leg after leg."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..collectives import COLLECTIVES, World
from ..collectives.handover import handover_messages, run_handover
from ..core.crossing import VIEW, Crossing, Holding, Leg
from .arrivals import Boxes, arrivals, minus
from .slices import MAX_RANKS, scatter


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossed:
    """What the ranks hold after a leg; `leg` is None at the start."""

    holding: Holding
    leg: Leg | None
    world: World


def run_crossing(crossing: Crossing, array: npt.NDArray[Any] | None = None, *, seed: int = 0) -> tuple[Crossed, ...]:
    """Return what every rank holds at the start and after each leg; parameters as of `run`."""
    source = crossing.source
    values = np.arange(prod(source.shape)).reshape(source.shape) if array is None else array
    world = scatter(values, source.layout, source.mesh, np.random.default_rng(seed))
    states = [Crossed(holding=source, leg=None, world=world)]
    for leg in crossing.legs:
        world = _after(leg, world)
        states.append(Crossed(holding=leg.target, leg=leg, world=world))
    return tuple(states)


def leg_arrivals(leg: Leg, limit: int = MAX_RANKS) -> tuple[Boxes, ...]:
    """Return, for the first ranks, the parts whose values a rank has after a leg and had not before.

    Between two shapes what is new to a rank need not be boxes: a rank to which anything is new gets its whole part.
    """
    if leg.step is not None:
        return arrivals(leg.step, leg.source.shape, leg.source.mesh, limit)
    ranks = range(min(limit, leg.source.mesh.device_count))
    if leg.kind == VIEW:
        return ((),) * len(ranks)
    if leg.source.shape == leg.target.shape:
        return tuple(minus(leg.target.part(rank), leg.source.part(rank)) for rank in ranks)
    receivers = {message.receiver for message in handover_messages(leg.source, leg.target)}
    return tuple((leg.target.part(rank),) if rank in receivers else () for rank in ranks)


def _after(leg: Leg, world: World) -> World:
    if leg.step is not None:
        return COLLECTIVES[leg.kind].run(leg.step, world, leg.source.mesh)
    if leg.kind == VIEW:
        return [array.reshape(leg.target.local_shape(rank)) for rank, array in enumerate(world)]
    return run_handover(leg.source, leg.target, world)
