"""Run a crossing on pretend ranks, leg after leg."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..collectives import COLLECTIVES, World
from ..collectives.handover import run_handover
from ..core.crossing import VIEW, Crossing, Holding, Leg
from .slices import scatter


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


def _after(leg: Leg, world: World) -> World:
    if leg.step is not None:
        return COLLECTIVES[leg.kind].run(leg.step, world, leg.source.mesh)
    if leg.kind == VIEW:
        return [array.reshape(leg.target.local_shape(rank)) for rank, array in enumerate(world)]
    return run_handover(leg.source, leg.target, world)
