"""What the planner counts of a model on one device, without torch: parameters, FLOPs of products, what is kept."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from planner import Plan
from planner.compose import train
from planner.core.graph import ModelGraph
from planner.cost.memory import ACTIVATIONS, held
from planner.cost.work import NodeWork, node_works
from planner.hardware import cluster, precision

CLUSTER, PRECISION = "1x1-h100-sxm", "bf16"
EXPERTS = frozenset({"dispatch", "collect", "expert_linear"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Sums over some nodes.

    Parameters
    ----------
    products, products_backward
        FLOPs of all products but attention's.
    attention, attention_counted
        Forward FLOPs of attention over the whole square, and as counted (half of it where it is causal).
    kept
        Bytes that autograd keeps.
    kept_attention
        Those of them that attention keeps for itself.
    """

    products: float
    products_backward: float
    attention: float
    attention_counted: float
    kept: float


def own_counts(graph: ModelGraph, batch: int, seq: int, *, scope: str | None = None) -> Counts:
    """Return the counts of a whole model, or of one layer of the scope of this title."""
    training = train(Plan.new(graph, cluster=CLUSTER, mesh={"dp": 1}, global_batch=batch, seq=seq, precision=PRECISION))
    works = [w for w in node_works(training, precision(PRECISION)) if scope is None or w.title == scope]
    one = scope is not None
    things = held(training, node_works(training, precision(PRECISION)), precision(PRECISION), cluster(CLUSTER).device)
    return Counts(
        products=sum(w.op.flops(*w.shapes) * (1 if one else w.count) for w in works if _is_product(w)),
        products_backward=sum(
            w.op.backward_flops(*w.shapes) * (1 if one else w.count) for w in works if _is_product(w) and w.gradients
        ),
        attention=sum(_square(w) * (1 if one else w.count) for w in works if w.node.op.endswith("attention")),
        attention_counted=sum(
            w.op.flops(*w.shapes) * (1 if one else w.count) for w in works if w.node.op.endswith("attention")
        ),
        kept=sum(t.nbytes * (1 if one else t.count) for t in things if t.item == ACTIVATIONS and scope in (None, t.scope)),
    )  # fmt: skip


def _is_product(work: NodeWork) -> bool:
    return work.op.matmul and not work.node.op.endswith("attention")


def _square(work: NodeWork) -> float:
    """Return the FLOPs of both products over all pairs of queries and keys."""
    q, k, v = work.shapes[0][:3]
    return 2.0 * prod(q[:-1]) * k[-2] * (q[-1] + v[-1])
