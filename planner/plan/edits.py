"""Edits of decisions that say more than a new value of one field: each gives the decisions after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..assign import span
from ..core.graph import ModelGraph
from ..core.mesh import Axes, DeviceMesh
from ..core.plan import Decisions, FactorDecision, ParameterDecision, RecomputeDecision
from ..errors import PlannerError
from ..ops import OPS
from ..surfaces import Counts, Side, decide

__all__ = ["counted", "on_mesh", "recomputed", "replaced", "sharded", "split", "stored"]


def sharded(decisions: Decisions, target: str, factors: Mapping[str, str | Iterable[str]]) -> Decisions:
    """Shard factors of the operators that `target` names over mesh axes."""
    added = []
    for factor, axes in factors.items():
        names = (axes,) if isinstance(axes, str) else tuple(axes)
        for axis in names:
            decisions.mesh.size(axis)
        added.append(FactorDecision(target=target, factor=factor, axes=names))
    return replace(decisions, factors=replaced(decisions.factors, added))


def counted(graph: ModelGraph, decisions: Decisions, target: str, counts: Counts, side: Side | None) -> Decisions:
    """Shard by counts: every factor of the operators gets the axes that its count means.

    Raises
    ------
    PlannerError
        `plan.target-unmatched` when no operator of the model is named, and what `surfaces.decide` raises.
    """
    nodes = [node for block in graph.blocks for node in block.nodes if span(target, node.name) is not None]
    if not nodes:
        raise PlannerError(
            "plan.target-unmatched", f"{target!r} names no operator of {graph.name}.",
            "Use paths of this model.", subject=target,
        )  # fmt: skip
    names = {node.op: tuple(name.rstrip("?") for name in OPS[node.op].operands) for node in nodes}
    finer, axes = decide(nodes, counts, decisions.symbols, decisions.mesh, side=side, names=names)
    for axis, sizes, _ in finer.splits:
        decisions = split(decisions, axis, sizes)
    return sharded(decisions, target, axes)


def split(decisions: Decisions, axis: str, sizes: tuple[int, ...]) -> Decisions:
    """Cut a mesh axis into several; all decisions follow."""
    mesh, parts = decisions.mesh.split(axis, sizes)
    return decisions.rename_axis(axis, parts, mesh)


def on_mesh(decisions: Decisions, cluster: str, mesh: DeviceMesh) -> Decisions:
    """Move to another cluster and mesh; axes that the new mesh lacks are taken from the decisions."""
    known = set(mesh.names)

    def left(axes: Axes) -> Axes:
        return tuple(axis for axis in axes if axis in known)

    return replace(
        decisions,
        cluster=cluster,
        mesh=mesh,
        factors=tuple(replace(d, axes=left(d.axes)) for d in decisions.factors),
        kept=tuple(k for k in decisions.kept if k.axis in known),
        parameters=tuple(
            there
            for p in decisions.parameters
            for there in (replace(p, axes=left(p.axes)),)
            # One that loses all that it says would take others back.
            if (p.layout is None or p.layout.used <= known) and (p.resets or not there.resets)
        ),
        pipeline=decisions.pipeline if decisions.pipeline and decisions.pipeline.axis in known else None,
    )


def stored(decisions: Decisions, decision: ParameterDecision) -> Decisions:
    """Add a decision on parameters, in place of those of which nothing is left after it."""
    left = tuple(d for d in decisions.parameters if not decision.replaces(d))
    # What is so anyway needs no decision.
    void = decision.resets or (decision.place == "device" and not decision.lays)
    like = (d for d in left if d.of == decision.of and (d.place == "host" if decision.place else d.lays))
    return replace(decisions, parameters=left if void and not any(like) else (*left, decision))


def recomputed(graph: ModelGraph, decisions: Decisions, target: str, again: bool | None) -> Decisions:
    """Compute what `target` names again in backward, take it out of what is, or forget what was said of it."""
    others = tuple(d for d in decisions.recompute if d.target != target)
    if again or (again is False and any(d.again and _meet(graph, d.target, target) for d in others)):
        others = (*others, RecomputeDecision(target=target, again=again))
    return replace(decisions, recompute=others)


def _meet(graph: ModelGraph, one: str, other: str) -> bool:
    """Return whether two targets name a common node in a common layer."""
    pairs = ((span(one, node.name), span(other, node.name)) for block in graph.blocks for node in block.nodes)
    return any(a and b and max(a[0], b[0]) < min(a[1], b[1]) for a, b in pairs)


def replaced(old: tuple[FactorDecision, ...], added: Iterable[FactorDecision]) -> tuple[FactorDecision, ...]:
    """Return the decisions with each new one in place of an old one on the same target and factor."""
    new = tuple(added)
    keys = {(d.target, d.factor) for d in new}
    return (*(d for d in old if (d.target, d.factor) not in keys), *new)
