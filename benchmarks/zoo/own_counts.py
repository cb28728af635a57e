"""What the planner counts of a model on one device, without torch: parameters, FLOPs of products, what is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod

from planner import Plan
from planner.compose import train
from planner.core.graph import ModelGraph
from planner.cost.memory import ACTIVATIONS, held
from planner.cost.work import NodeWork, node_works
from planner.hardware import cluster, precision
from planner.ops import OPS

CLUSTER, PRECISION = "1x1-h100-sxm", "bf16"
EXPERTS = frozenset({"dispatch", "collect", "expert_linear"})


INNER = frozenset({"attention_scores", "hide_future", "attend"})
"""Operators of attention that is written out, since it drops weights or adds a bias."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Sums over some nodes.

    Parameters
    ----------
    products, backward
        FLOPs of all products but attention's, forward and backward.
    attention, counted
        Forward FLOPs of attention over the whole square, and as counted (about half of it where it is causal).
    experts, experts_backward
        Those of `products` and of `backward` that are experts', and of the way there and back.
    kept
        Bytes that autograd keeps outside attention, without the model's inputs.
    """

    products: float
    backward: float
    attention: float
    counted: float
    experts: float
    experts_backward: float
    kept: float


def own_counts(graph: ModelGraph, batch: int, seq: int, *, scopes: frozenset[str] | None = None) -> Counts:
    """Return the counts of a whole model, or of one iteration of each scope of these titles."""
    given = seq if "S" in graph.symbols else 0
    plan = Plan.new(graph, cluster=CLUSTER, mesh={"dp": 1}, global_batch=batch, seq=given, precision=PRECISION)
    training = train(plan)
    everything = node_works(training, precision(PRECISION))
    works = [w for w in everything if scopes is None or w.title in scopes]
    within = _attention_values(everything) | _given(graph)

    def total(flops: Callable[[NodeWork], float], wanted: Callable[[NodeWork], bool]) -> float:
        return sum(flops(w) * (w.count if scopes is None else 1) for w in works if wanted(w))

    things = held(training, everything, precision(PRECISION), cluster(CLUSTER).device)
    kept = [t for t in things if t.item == ACTIVATIONS and (scopes is None or t.scope in scopes)]
    return Counts(
        products=total(lambda w: w.op.flops(*w.shapes), _is_product),
        backward=total(lambda w: w.backward_flops, lambda w: _is_product(w) and bool(w.gradients)),
        attention=total(_square, _is_attention),
        counted=total(lambda w: w.op.flops(*w.shapes), _is_attention),
        experts=total(lambda w: w.op.flops(*w.shapes), _is_expert),
        experts_backward=total(lambda w: w.backward_flops, lambda w: _is_expert(w) and bool(w.gradients)),
        kept=sum(t.nbytes * (t.count if scopes is None else 1) for t in kept if t.name not in within),
    )


def _given(graph: ModelGraph) -> frozenset[str]:
    """Return the names of the inputs and of their pieces."""
    names = {value.name for value in graph.root.inputs}
    for node in graph.root.nodes:
        if (OPS[node.op].view or node.op in {"split", "slice", "select"}) and names.issuperset(node.operands):
            names |= {value.name for value in node.results}
    return frozenset(names)


def _is_attention(work: NodeWork) -> bool:
    return work.node.op.endswith("attention") or work.node.op in {"attention_scores", "attend"}


def _is_product(work: NodeWork) -> bool:
    return work.op.matmul and not _is_attention(work)


def _is_expert(work: NodeWork) -> bool:
    experts = work.node.op == "einsum" and str(dict(work.node.attributes)["equation"]).startswith("eb")
    return work.node.op in EXPERTS or experts


def _square(work: NodeWork) -> float:
    """Return the FLOPs over all pairs of queries and keys."""
    if not work.node.op.endswith("attention"):
        return work.op.flops(*work.shapes)
    q, k, v = (operand.shape for operand in work.operands[:3])
    return 2.0 * prod(q[:-1]) * k[-2] * (q[-1] + v[-1])


def _attention_values(works: Iterable[NodeWork]) -> frozenset[str]:
    """Return the names under which values of attention are kept: what it reads and makes, as one tensor or another."""
    listed = list(works)
    names: set[str] = set()
    homes = {w.node.module for w in listed if w.node.op in INNER}
    for work in listed:
        inner = work.node.op in {*INNER, "softmax", "dropout", "masked_fill"} and work.node.module in homes
        if _is_attention(work) or inner:
            names |= {work.node.name, *work.node.operands[:3], *(value.name for value in work.node.results)}
    merged = {w.node.results[0].name for w in listed if w.node.op == "merge_heads" and w.node.operands[0] in names}
    return frozenset(names | merged)
