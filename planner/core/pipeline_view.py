"""A plan's pipeline for drawing: what can be cut, where it is cut, and what the pieces weigh."""

from __future__ import annotations

from dataclasses import dataclass

from .plan import StageDecision


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitView:
    """A layer, or an operator outside of the layers: what runs on one stage as a whole.

    Parameters
    ----------
    name
        Path of the layer or operator.
    seconds
        Forward and backward of a microbatch.
    resident
        Bytes of its parameters, gradients and optimizer state.
    """

    name: str
    seconds: float
    resident: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineView:
    """A pipeline.

    Parameters
    ----------
    balanced
        Whether the stages follow from the costs, since the plan says nothing of them.
    stages
        What runs where.
    units
        What can be cut, in the order in which it runs.
    cuts
        First unit of every stage, and the number of units at the end; None for stages that are no stretches of units.
    """

    axis: str
    schedule: str
    per_rank: int
    balanced: bool
    stages: tuple[StageDecision, ...]
    units: tuple[UnitView, ...]
    cuts: tuple[int, ...] | None
