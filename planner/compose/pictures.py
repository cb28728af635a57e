"""What is drawn of a plan: its folded graph, what may be clicked in it, and the steps behind a badge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..assign import choices, covers
from ..core.assignment import TrainingGraph
from ..core.graph import Node
from ..core.report import Report
from ..core.strategy import ShardStrategy
from ..core.view import Choice, PlanView
from ..cost import bucket_calls, collective_rows, node_seconds
from ..drawing import Moved, draw, node_choices
from ..drawing import moved as moved_at
from ..hardware import precision as precision_named
from ..plan import Plan
from .path import evaluate, train

__all__ = ["choices_at", "moved", "view"]


def view(plan: Plan, training: TrainingGraph | None = None) -> tuple[PlanView, Report]:
    """Return the folded graph of the plan for drawing, and its report."""
    training = training or train(plan)
    report = evaluate(plan, training)
    precision = precision_named(plan.decisions.precision)
    seconds = node_seconds(training, precision, plan.cluster)
    # A gradient's own collectives are drawn where it is, as if it shared them with none.
    alone = collective_rows(
        replace(training, buckets=()), plan.decisions.microbatches, precision, plan.cluster
    ) if training.buckets else report.collectives  # fmt: skip
    together = bucket_calls(training, precision, plan.cluster, plan.decisions.gradients.compression)
    told = replace(report, collectives=alone)
    return draw(training, plan.decisions, precision, told, seconds, together, covers), report


def choices_at(plan: Plan, node: str, training: TrainingGraph | None = None) -> tuple[Choice, ...]:
    """Return what may be clicked at a node of the plan's view, by the node's id."""
    mesh = plan.decisions.mesh

    def at(n: Node, strategy: ShardStrategy, sizes: Mapping[str, int]) -> tuple[Choice, ...]:
        return choices(n.rule, strategy, sizes, mesh, n.name)

    return node_choices(training or train(plan), node, at)


def moved(plan: Plan, edge: str, badge: int, training: TrainingGraph | None = None) -> Moved:
    """Return the redistribution that a badge of the plan's view is a step of, by the edge's id and its position."""
    return moved_at(training or train(plan), precision_named(plan.decisions.precision), edge, badge)
