"""Give every value that needs a gradient its backward redistributions.

A value's finished gradient has its *adjoint* layout (a parameter's: its gradient layout). Each reader hands back a
*raw* gradient; readers with equal raw layouts are added first and share one redistribution. That all-gathers come back
as reduce-scatters, that data parallelism all-reduces weights, are results of this and not code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..core.assignment import (
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
from ..core.segments import Segments
from ..ops import OPS
from .repeating import Repeating

Place = tuple[int, str]
"""Index of a scope and the name of a value in it: blocks may call their inputs alike."""


def differentiate(sharded: ShardedGraph, plan_edge: PlanEdge) -> TrainingGraph:
    """Return the training graph of a sharded graph.

    Parameters
    ----------
    plan_edge
        Source layout, target layout, global shape, element type → redistribution. Gradients of parameters are asked for
        with the element type `gradient`.
    """
    assignment = sharded.assignment
    flows, trained = tuple(_flows(assignment)), _trained(assignment)
    followed = _reached(trained, flows)
    with_gradient = followed & _wanted(assignment, flows)
    scopes = []
    for index, scope in enumerate(sharded.scopes):
        repeating = Repeating.of(scope.assembly, index, followed)

        def again(fanout: Fanout, repeating: Repeating = repeating) -> tuple[Delivery, ...]:
            fetched = repeating.fetched(fanout)
            return repeating.again(fanout) + fetched + _again(sharded, fanout, with_gradient, repeating.segments)

        fanouts = (
            _backward(assignment, f, scope.assembly.parameter(f.value), with_gradient, plan_edge)
            if (index, f.value) in with_gradient
            else f
            for f in scope.fanouts
        )
        scopes.append(
            Scope(
                assembly=scope.assembly,
                fanouts=tuple(replace(f, again=further) if (further := again(f)) else f for f in fanouts),
                updates=tuple(
                    _update(assignment, p, plan_edge) for p in scope.assembly.parameters if p.parameter.trainable
                ),
                repeated=repeating.nodes,
            )
        )
    return TrainingGraph(assignment=assignment, scopes=tuple(scopes))


def _update(assignment: Assignment, placed: ParameterLayout, plan_edge: PlanEdge) -> Update:
    meta = placed.parameter.meta
    shape = meta.concrete(assignment.symbols)
    return Update(
        parameter=placed.parameter.name,
        master=plan_edge(placed.storage, placed.optimizer, shape, meta.dtype),
        gradient=plan_edge(placed.gradient, placed.optimizer, shape, "gradient"),
        values=plan_edge(placed.optimizer, placed.storage, shape, meta.dtype),
    )


def _backward(
    assignment: Assignment,
    fanout: Fanout,
    placed: ParameterLayout | None,
    with_gradient: frozenset[Place],
    plan_edge: PlanEdge,
) -> Fanout:
    gradient = placed.gradient if placed else fanout.source.adjoint
    raws = (_raw(assignment, reader, with_gradient) for reader in fanout.readers)
    readers = tuple(r if raw is None else replace(r, raw=raw) for r, raw in zip(fanout.readers, raws, strict=True))
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
    deferred = placed is not None and placed.deferred
    return replace(fanout, readers=readers, gradient=gradient, backward=backward, deferred=deferred)


def _again(
    sharded: ShardedGraph, fanout: Fanout, with_gradient: frozenset[Place], segments: Segments
) -> tuple[Delivery, ...]:
    """Return what is brought to readers a second time, since it was let go: also of a parameter without gradient.

    What a segment reads is in `repeating`.
    """
    return tuple(
        replace(delivery, readers=(position,))
        for delivery in fanout.forward
        for position in delivery.readers
        if fanout.regather and (delivery.redistribution.steps or fanout.host)
        if not segments.around(fanout) and fanout.readers[position].node not in segments.names
        for _ in range(_kept(sharded, fanout.readers[position], with_gradient))
    )  # fmt: skip


def _kept(sharded: ShardedGraph, reader: Reader, with_gradient: frozenset[Place]) -> int:
    """Return how many operators need again in backward what a reader reads.

    A factor of a product is needed for the gradients of the others: not beside one that is an input of the model. Who
    reads a view reads what is viewed.
    """
    node = sharded.assignment.assemblies[reader.scope].node(reader.node)
    if node is None or not any((reader.scope, value.name) in with_gradient for value in node.node.results):
        return 0
    definition = OPS[node.node.op]
    if definition.view:
        return sum(
            _kept(sharded, again, with_gradient)
            for fanout in sharded.scopes[reader.scope].fanouts
            if fanout.value == node.node.results[0].name
            for delivery in fanout.forward
            if not delivery.redistribution.steps
            for again in (fanout.readers[position] for position in delivery.readers)
        )
    if definition.operand_names[reader.operand] not in definition.saved:
        return 0
    others = [
        (reader.scope, operand)
        for position, (name, operand) in enumerate(zip(definition.operand_names, node.node.operands, strict=False))
        if position != reader.operand and name in definition.saved
    ]
    return int(not definition.product or any(other in with_gradient for other in others))


def _raw(assignment: Assignment, reader: Reader, with_gradient: frozenset[Place]) -> Layout | None:
    """Return the raw layout at a reader; None where its operator hands no gradient to this operand."""
    # A run that carries the value on, or the backward pass, is no node.
    node = assignment.assemblies[reader.scope].node(reader.node)
    if node is None:
        return reader.layout.adjoint
    definition = OPS[node.node.op]
    if definition.operand_names[reader.operand] not in definition.differentiable:
        return None
    if not any((reader.scope, value.name) in with_gradient for value in node.node.results):
        return None
    return raw_layout(reader.layout, node.results, node.node.name)


def _wanted(assignment: Assignment, flows: tuple[tuple[Place, Place], ...]) -> frozenset[Place]:
    """Return the values on which the loss depends.

    What only leads to indices, or to a result that nothing reads, gets no gradient although its operator could give
    one: only trained parameters, and values that depend on one, that are among these.
    """
    losses = ((0, name) for name in assignment.graph.root.outputs[:1])
    return _reached(losses, ((target, source) for source, target in flows))


def _trained(assignment: Assignment) -> frozenset[Place]:
    return frozenset(
        (i, p.parameter.name)
        for i, a in enumerate(assignment.assemblies)
        for p in a.parameters
        if p.parameter.trainable
    )


def _reached(start: Iterable[Place], flows: Iterable[tuple[Place, Place]]) -> frozenset[Place]:
    """Return what the flows lead to from a start, itself with it."""
    leads: dict[Place, list[Place]] = {}
    for source, target in flows:
        leads.setdefault(source, []).append(target)
    found = set(start)
    ahead = list(found)
    while ahead:
        fresh = [target for target in leads.get(ahead.pop(), ()) if target not in found]
        found.update(fresh)
        ahead += fresh
    return frozenset(found)


def _flows(assignment: Assignment) -> Iterator[tuple[Place, Place]]:
    """Yield pairs: a gradient of the second is one of the first too."""
    for index, assembly in enumerate(assignment.assemblies):
        yield from (((0, outer), (index, inner)) for inner, outer in assembly.operands)
        # A single iteration takes over nothing from itself.
        if assembly.count > 1:
            yield from (((index, output), (index, inner)) for inner, output in assembly.carried)
        carried = zip(assembly.carried, assembly.results, strict=False)
        yield from (((index, output), (0, result)) for (_, output), result in carried)
        for assigned in assembly.nodes:
            definition = OPS[assigned.node.op]
            for name, operand in zip(definition.operand_names, assigned.node.operands, strict=False):
                if name in definition.differentiable:
                    yield from (((index, operand), (index, value.name)) for value in assigned.node.results)
