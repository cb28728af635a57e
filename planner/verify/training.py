"""Hold a training graph to its invariants: every redistribution leads where it says, every gradient is finished."""

from __future__ import annotations

from collections.abc import Iterator

from ..collectives import COLLECTIVES
from ..core.assignment import AssignedNode, Fanout, Scope, Symbols, TrainingGraph
from ..core.collective import Redistribution
from ..core.mesh import DeviceMesh
from ..core.strategy import layouts, problems
from ..core.symbol import evaluate
from ..errors import Diagnostic


def verify_training(training: TrainingGraph) -> tuple[Diagnostic, ...]:
    """Return what is broken in a training graph; empty if nothing is.

    Every operator's strategy, and those of the parts of a composite one, are instances of their rules, and the layouts
    follow from them. On every value and reader, folding the steps over the source layout gives the target layout, and
    every reader is served once; every value that needs a gradient has each raw gradient of its readers brought to its
    gradient layout; every parameter that is read has a gradient. Every parameter has an update that starts from its
    gradient layout, works in its optimizer layout and ends in its storage layout. A reduction is in one bucket at most.
    """
    mesh = training.assignment.mesh
    found: list[Diagnostic] = []
    sound: set[object] = set()
    for scope in training.scopes:
        for assigned in scope.assembly.nodes:
            # What holds for an operator holds for all others with its rule, strategy and layouts.
            key = assigned.node.rule, assigned.strategy, assigned.operands, assigned.results
            if key not in sound:
                broken = tuple(_operator(assigned, training.assignment.symbols, mesh))
                found += broken
                sound |= set() if broken else {key}
        for fanout in scope.fanouts:
            placed = scope.assembly.parameter(fanout.value) if fanout.kind == "parameter" else None
            found += _fanout(fanout, mesh, sound, trained=placed is not None and placed.parameter.trainable)
        found += _updates(scope, mesh, sound)
    found += _buckets(training)
    return tuple(found)


def _buckets(training: TrainingGraph) -> Iterator[Diagnostic]:
    """Hold buckets to what they are: one way for all members, each of a fan-out that knows of it, and in no other."""
    seen: set[tuple[int, str, int, int]] = set()
    for bucket in training.buckets:
        for member in bucket.members:
            fanouts = [f for f in training.scopes[member.scope].fanouts if f.value == member.parameter]
            ways = fanouts[0].backward if fanouts else ()
            if not fanouts or not fanouts[0].bucketed or fanouts[0].deferred != bucket.deferred:
                yield _broken("verify.bucket", member.parameter, "its fan-out knows of no such bucket")
            elif member.way >= len(ways) or ways[member.way].redistribution != member.moved:
                yield _broken("verify.bucket", member.parameter, "the bucket has another way for it")
            if tuple((step.kind, step.axes) for step in member.shared) != bucket.calls:
                yield _broken("verify.bucket", member.parameter, "the bucket has other collectives")
            layers = {(member.scope, member.parameter, member.way, i) for i in range(member.start, member.stop)}
            if layers & seen:
                yield _broken("verify.bucket", member.parameter, "it is in two buckets")
            seen |= layers


def _operator(assigned: AssignedNode, symbols: Symbols, mesh: DeviceMesh) -> Iterator[Diagnostic]:
    node = assigned.node
    sizes = {factor: evaluate(size, symbols) for factor, size in node.rule.sizes}
    against = problems(node.rule, assigned.strategy, sizes, mesh, node.name)
    yield from against
    if not against and layouts(node.rule, assigned.strategy) != (assigned.operands, assigned.results):
        message = f"{node.name}: the layouts do not follow from {assigned.strategy}."
        yield Diagnostic(code="verify.operator-layout", subject=node.name, message=message)


def _fanout(fanout: Fanout, mesh: DeviceMesh, sound: set[object], *, trained: bool) -> Iterator[Diagnostic]:
    value = fanout.value
    served = sorted(position for delivery in fanout.forward for position in delivery.readers)
    if served != list(range(len(fanout.readers))):
        yield _broken("verify.reader-not-served", value, f"readers {served} of {len(fanout.readers)} are served")
    for delivery in fanout.forward:
        if delivery.redistribution.source != fanout.source:
            yield _broken("verify.value-layout", value, f"it lies as {fanout.source}, and is read from another layout")
        for position in delivery.readers:
            if delivery.redistribution.target.normal(mesh) != fanout.readers[position].layout.normal(mesh):
                yield _broken("verify.reader-layout", value, f"{fanout.readers[position].node} gets another layout")
        yield from _folds(value, delivery.redistribution, mesh, sound)
    giving = sorted(i for i, reader in enumerate(fanout.readers) if reader.raw is not None)
    returned = sorted(position for delivery in fanout.backward for position in delivery.readers)
    if giving != returned:
        yield _broken("verify.gradient-missing", value, f"readers {giving} give gradients, {returned} are used")
    if trained and not fanout.backward:
        yield _broken("verify.parameter-without-gradient", value, "no reader gives it a gradient")
    for delivery in fanout.backward:
        raws = {raw.normal(mesh) for i in delivery.readers if (raw := fanout.readers[i].raw) is not None}
        if raws != {delivery.redistribution.source.normal(mesh)}:
            yield _broken("verify.raw-layout", value, "gradients of other layouts are added or brought back")
        if delivery.redistribution.target != fanout.gradient:
            yield _broken("verify.gradient-layout", value, f"gradient ends as {delivery.redistribution.target}")
        yield from _folds(value, delivery.redistribution, mesh, sound)


def _updates(scope: Scope, mesh: DeviceMesh, sound: set[object]) -> Iterator[Diagnostic]:
    by_name = {update.parameter: update for update in scope.updates}
    for placed in scope.assembly.parameters:
        if not placed.parameter.trainable:
            continue
        update = by_name.pop(placed.parameter.name, None)
        if update is None:
            yield _broken("verify.update-missing", placed.parameter.name, "it is never updated")
            continue
        moves = (
            (update.master, placed.storage, placed.optimizer),
            (update.gradient, placed.gradient, placed.optimizer),
            (update.values, placed.optimizer, placed.storage),
        )
        for moved, source, target in moves:
            if (moved.source, moved.target) != (source, target):
                yield _broken("verify.update-layout", update.parameter, f"{moved} should lead {source} → {target}")
            yield from _folds(update.parameter, moved, mesh, sound)
    for name in by_name:
        yield _broken("verify.update-missing", name, "it is updated and is no parameter here")


def _folds(value: str, moved: Redistribution, mesh: DeviceMesh, sound: set[object]) -> Iterator[Diagnostic]:
    """Hold a redistribution to its ends, unless it was found sound."""
    if moved in sound:
        return
    broken = tuple(_unsound(value, moved, mesh))
    if not broken:
        sound.add(moved)
    yield from broken


def _unsound(value: str, moved: Redistribution, mesh: DeviceMesh) -> Iterator[Diagnostic]:
    layout = moved.source.normal(mesh)
    for step in moved.steps:
        if step.source != layout:
            yield _broken("verify.step-source", value, f"{step} starts from {step.source}, not {layout}")
        layout = COLLECTIVES[step.kind].follow(layout, step, mesh)
    if layout != moved.target.normal(mesh):
        yield _broken("verify.fold", value, f"the steps of {moved} end in {layout}")


def _broken(code: str, subject: str, what: str) -> Diagnostic:
    return Diagnostic(code=code, subject=subject, message=f"{subject}: {what}.")
