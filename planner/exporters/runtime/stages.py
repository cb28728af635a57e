"""Nouns of a pipeline: the parts of the model, the values that pass between them, and who runs what in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import nn

from .mesh import Axes, Mesh


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of the model.

    Parameters
    ----------
    build
        Makes its module, whose forward takes the tensors of `takes` and returns those of `gives`, in their order; a
        single one as it is, not in a tuple. Parameters are called as in the whole model.
    takes
        Inputs of the model, and values of wires that end here.
    gives
        Values of wires that begin here; on the last stage, the loss comes last.
    """

    build: Callable[[Mesh], nn.Module]
    takes: tuple[str, ...]
    gives: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Wire:
    """A value of one stage that another one reads.

    Parameters
    ----------
    source, target
        Positions of the two in the table of stages; the target is a later one.
    shape
        Of a microbatch, over all ranks of a stage.
    layout
        How the ranks of a stage hold it on the way, and its gradient on the way back, as printed.
    dtype
        Element type; `compute` for that of the model.
    gradient
        Whether its gradient goes back.
    """

    value: str
    source: int
    target: int
    shape: tuple[int, ...]
    layout: str
    dtype: str = "compute"
    gradient: bool = True


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Stages that its microbatches pass one after the other: one for each part of the model."""

    stages: tuple[int, ...]
    microbatches: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """How a model runs in stages.

    A *part* is a place in `stages`. The schedule counts its own stages: with two chains, each part is two of them, one
    in each chain, and both ranks hold its parameters.

    Parameters
    ----------
    axis
        Mesh axis along which the stages lie; no layout uses it.
    stages
        The parts of the model, in forward's order.
    wires
        Values that pass between parts.
    rows
        For each coordinate along the axis, the actions in their order, as torch writes them: `0F0,0F1,0B0,0B1`.
    placement
        Coordinate along the axis of each of the schedule's stages.
    shared
        Parameter → the parts that hold a copy of it.
    groups
        Sets of axes over whose groups ranks communicate inside stages and in updates. Groups are made by all ranks
        together, and stages use different ones in different order: so they are made before.
    """

    axis: str
    stages: tuple[Stage, ...]
    wires: tuple[Wire, ...]
    rows: tuple[str, ...]
    placement: tuple[int, ...]
    chains: tuple[Chain, ...]
    shared: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    groups: tuple[Axes, ...] = ()

    def part(self, stage: int) -> int:
        """Return which part of the model a stage of the schedule is."""
        return next(chain.stages.index(stage) for chain in self.chains if stage in chain.stages)

    def stage(self, part: int, microbatch: int) -> int:
        """Return the stage of the schedule that runs a part for a microbatch."""
        return next(chain.stages[part] for chain in self.chains if microbatch in chain.microbatches)

    def stages_at(self, coordinate: int) -> tuple[int, ...]:
        """Return the schedule's stages that lie at a coordinate, in order."""
        return tuple(stage for stage, place in enumerate(self.placement) if place == coordinate)

    def coordinates(self, part: int) -> tuple[int, ...]:
        """Return where along the axis a part lies, ascending; several times with several chains."""
        return tuple(sorted({self.placement[chain.stages[part]] for chain in self.chains}))

    @property
    def microbatches(self) -> int:
        """Number of microbatches of a step."""
        return sum(len(chain.microbatches) for chain in self.chains)
