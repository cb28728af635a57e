"""What code is written from: a plan's decisions, and what was derived from them."""

from __future__ import annotations

from dataclasses import dataclass

from .assignment import TrainingGraph
from .cluster import ClusterSpec
from .graph import ModelGraph
from .plan import Decisions, Precision
from .schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedPlan:
    """A plan with every redistribution of its training step.

    Parameters
    ----------
    graph
        The model in one piece: that of the training graph may be cut into stages.
    flops
        FLOPs of a step of the whole model, forward and backward.
    text
        The plan file.
    schedule, schedule_text
        The order of the stages, and its table as torch writes it, a row a rank; None and empty without a pipeline.
    torch_schedule
        Class of `torch.distributed.pipelining` that runs the same order; empty if there is none.
    """

    training: TrainingGraph
    graph: ModelGraph
    decisions: Decisions
    precision: Precision
    cluster: ClusterSpec
    flops: float
    text: str
    schedule: Schedule | None = None
    schedule_text: str = ""
    torch_schedule: str = ""
