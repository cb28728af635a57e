"""The plan that a proof compares with: the same model on one rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..core.assignment import TrainingGraph
from ..core.gradient_decision import AS_THEY_COME
from ..core.graph import ModelGraph, Node
from ..core.mesh import DeviceMesh
from ..core.summed import gradient_factor
from ..core.symbol import Polynomial
from ..plan import Plan

_MIXING = frozenset({"batch_norm", "unknown"})
"""Operators that compute something of all samples of a microbatch together, or may do so."""
BATCH = "B"


def unsharded(plan: Plan) -> Plan:
    """Return the plan on one rank: in one microbatch where that computes the same, else in the plan's microbatches.

    One microbatch shows more: that the microbatches add up to the whole batch.
    """
    decisions = replace(
        plan.decisions, mesh=DeviceMesh.of({"whole": 1}), cluster=f"1x1-{plan.cluster.device.name}",
        microbatches=1 if adds_up(plan.graph) else plan.decisions.microbatches, factors=(), kept=(), parameters=(),
        pipeline=None, recompute=(), gradients=AS_THEY_COME,
    )  # fmt: skip
    return Plan(graph=plan.graph, decisions=decisions)


def summed_as(plan: Plan, training: TrainingGraph) -> int:
    """Return the setting `summed` with which the unsharded model has the plan's gradients; 0 for those of the mean.

    The unsharded run has one data rank, and other microbatches.
    """
    factor = gradient_factor(training.assignment, plan.decisions)
    return 0 if factor == 1 else factor // unsharded(plan).decisions.microbatches


def adds_up(graph: ModelGraph) -> bool:
    """Return whether the losses of microbatches, each by its share of the labels, add up to the loss of the batch.

    They do where the loss is one cross-entropy of the samples, and no operator mixes samples: batch norm takes its mean
    and variance over a microbatch.
    """
    nodes = list(_nodes(graph))
    loss = next((node for node in nodes if graph.root.outputs[0] in {value.name for value in node.results}), None)
    if loss is None or loss.op != "cross_entropy" or any(node.op in _MIXING for node in nodes):
        return False
    labels = next((feed for feed in graph.feeds if feed.name == loss.operands[1]), None)
    classes = loss.rule.size("vocab")
    # Microbatches count by labels that are not ignored, or alike, and so has the loss to count them.
    return labels is not None and not (isinstance(classes, Polynomial) and any(BATCH in m for m, _ in classes.terms))


def _nodes(graph: ModelGraph) -> Iterator[Node]:
    for block in graph.blocks:
        yield from block.nodes
