"""Give every value that needs a gradient its backward redistributions.

A value's finished gradient has its *adjoint* layout (a parameter's: its gradient layout). Each reader hands back a
*raw* gradient; readers with equal raw layouts are added first and share one redistribution. That all-gathers come back
as reduce-scatters, that data parallelism all-reduces weights, are results of this and not code.
"""

from __future__ import annotations

from dataclasses import replace

from ..core.assignment import (
    AssignedNode,
    Assignment,
    Delivery,
    Fanout,
    ParameterLayout,
    Reader,
    Scope,
    ShardedGraph,
    TrainingGraph,
    Update,
)
from ..core.collective import PlanEdge
from ..core.gradient import raw_layout
from ..core.layout import Layout
from ..ops import OPS


def differentiate(sharded: ShardedGraph, plan_edge: PlanEdge) -> TrainingGraph:
    """Return the training graph of a sharded graph.

    Parameters
    ----------
    plan_edge
        Source layout, target layout, global shape, element type → redistribution. Gradients of parameters are asked for
        with the element type `gradient`.
    """
    assignment = sharded.assignment
    needing = _needing_gradient(assignment)
    scopes = tuple(
        Scope(
            assembly=scope.assembly,
            fanouts=tuple(
                _backward(assignment, f, scope.assembly.parameter(f.value), plan_edge) if f.value in needing else f
                for f in scope.fanouts
            ),
            updates=tuple(_update(assignment, p, plan_edge) for p in scope.assembly.parameters),
        )
        for scope in sharded.scopes
    )
    return TrainingGraph(assignment=assignment, scopes=scopes)


def _update(assignment: Assignment, placed: ParameterLayout, plan_edge: PlanEdge) -> Update:
    meta = placed.parameter.meta
    shape = meta.concrete(assignment.symbols)
    return Update(
        parameter=placed.parameter.name,
        master=plan_edge(placed.storage, placed.optimizer, shape, meta.dtype),
        gradient=plan_edge(placed.gradient, placed.optimizer, shape, "gradient"),
        values=plan_edge(placed.optimizer, placed.storage, shape, meta.dtype),
    )


def _backward(assignment: Assignment, fanout: Fanout, placed: ParameterLayout | None, plan_edge: PlanEdge) -> Fanout:
    gradient = placed.gradient if placed else fanout.source.adjoint
    readers = tuple(replace(r, raw=_raw(assignment, r)) for r in fanout.readers)
    groups: dict[Layout, tuple[Layout, list[int]]] = {}
    for position, reader in enumerate(readers):
        if reader.raw is not None:
            _, members = groups.setdefault(reader.raw.normal(assignment.mesh), (reader.raw, []))
            members.append(position)
    if not groups:
        return fanout
    dtype = "gradient" if fanout.kind == "parameter" else fanout.meta.dtype
    backward = tuple(
        Delivery(readers=tuple(members), redistribution=plan_edge(raw, gradient, fanout.shape, dtype))
        for raw, members in groups.values()
    )
    again = tuple(
        replace(delivery, readers=(position,))
        for delivery in fanout.forward
        for position in delivery.readers
        if fanout.regather and delivery.redistribution.steps and _keeps(assignment, readers[position])
    )
    deferred = placed is not None and placed.deferred
    return replace(fanout, readers=readers, gradient=gradient, backward=backward, again=again, deferred=deferred)


def _keeps(assignment: Assignment, reader: Reader) -> bool:
    """Return whether a reader's operator needs this operand again in backward."""
    node = _node(assignment, reader)
    if node is None:
        return False
    definition = OPS[node.node.op]
    return definition.operand_names[reader.operand] in definition.saved


def _node(assignment: Assignment, reader: Reader) -> AssignedNode | None:
    """Return the reading node; None for a run that carries the value on, or the backward pass."""
    nodes = assignment.assemblies[reader.scope].nodes
    return next((n for n in nodes if n.node.name == reader.node), None)


def _raw(assignment: Assignment, reader: Reader) -> Layout | None:
    """Return the raw layout at a reader; None where its operator is not differentiable in this operand."""
    node = _node(assignment, reader)
    if node is None:
        return reader.layout.adjoint
    definition = OPS[node.node.op]
    if definition.operand_names[reader.operand] not in definition.differentiable:
        return None
    return raw_layout(reader.layout, node.results, node.node.name)


def _needing_gradient(assignment: Assignment) -> frozenset[str]:
    """Return the names of all parameters and of all values that depend on one."""
    needing = {p.parameter.name for a in assignment.assemblies for p in a.parameters}
    size = -1
    while size != len(needing):
        size = len(needing)
        for assembly in assignment.assemblies:
            flows = [(outer, inner) for inner, outer in assembly.operands]
            flows += [(output, inner) for inner, output in assembly.carried]
            flows += [(o, r) for (_, o), r in zip(assembly.carried, assembly.results, strict=False)]
            for assigned in assembly.nodes:
                definition = OPS[assigned.node.op]
                flows += [
                    (operand, value.name)
                    for name, operand in zip(definition.operand_names, assigned.node.operands, strict=False)
                    if name in definition.differentiable
                    for value in assigned.node.results
                ]
            needing |= {target for source, target in flows if source in needing}
    return frozenset(needing)
