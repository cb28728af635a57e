"""Run a redistribution on pretend ranks, step after step."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..collectives import COLLECTIVES, World
from ..core.collective import Redistribution, Step
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from .slices import scatter


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the ranks hold after a step; `step` is None at the start."""

    layout: Layout
    step: Step | None
    world: World


def run(
    redistribution: Redistribution, mesh: DeviceMesh, array: npt.NDArray[Any] | None = None, *, seed: int = 0
) -> tuple[State, ...]:
    """Return what every rank holds at the start and after each step.

    Parameters
    ----------
    array
        A tensor of whole numbers; without one, every element is labelled by its position, row-major.
    seed
        Of the random shares into which values are split that are partial at the start.

    Examples
    --------
    >>> from planner.compose import redistribute
    >>> mesh = DeviceMesh.parse("dp:2,tp:2")
    >>> moved = redistribute("[dp, -]", "[-, dp]", mesh, shape=(4, 4))
    >>> [state.world[0].tolist() for state in run(moved, mesh)]
    [[[0, 1, 2, 3], [4, 5, 6, 7]], [[0, 1], [4, 5], [8, 9], [12, 13]]]
    """
    shape = redistribution.shape
    values = np.arange(prod(shape)).reshape(shape) if array is None else array
    world = scatter(values, redistribution.source, mesh, np.random.default_rng(seed))
    states = [State(layout=redistribution.source, step=None, world=world)]
    for step in redistribution.steps:
        world = COLLECTIVES[step.kind].run(step, world, mesh)
        states.append(State(layout=step.target, step=step, world=world))
    return tuple(states)
