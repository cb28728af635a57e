"""Edits of decisions that say more than a new value of one field: each gives the decisions after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..assign import span
from ..core.graph import ModelGraph
from ..core.mesh import Axes, DeviceMesh
from ..core.plan import Decisions, FactorDecision, RecomputeDecision
from ..errors import PlannerError
from ..ops import OPS
from ..surfaces import Counts, Side, decide

__all__ = ["counted", "on_mesh", "recomputed", "replaced", "sharded", "split"]


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
            replace(p, axes=left(p.axes)) for p in decisions.parameters if p.layout is None or p.layout.used <= known
        ),
        pipeline=decisions.pipeline if decisions.pipeline and decisions.pipeline.axis in known else None,
    )


def recomputed(decisions: Decisions, target: str, again: bool | None) -> Decisions:
    """Compute what `target` names again in backward, take it out of what is, or forget what was said of it."""
    others = tuple(d for d in decisions.recompute if d.target != target)
    added = (RecomputeDecision(target=target, again=bool(again)),) if again or (again is False and others) else ()
    return replace(decisions, recompute=(*others, *added))


def replaced(old: tuple[FactorDecision, ...], added: Iterable[FactorDecision]) -> tuple[FactorDecision, ...]:
    """Return the decisions with each new one in place of an old one on the same target and factor."""
    new = tuple(added)
    keys = {(d.target, d.factor) for d in new}
    return (*(d for d in old if (d.target, d.factor) not in keys), *new)
