"""Put the reductions of parameter gradients into buckets, in the order in which backward makes the gradients.

Backward makes them in the reverse of the order in which forward first reads the parameters. Buckets of a size hold
whole layers, or a part of one: so every layer of a run is cut alike, and work does not grow with their number.

Compression rounds an element by a scale that it shares with others of its bucket. Ranks that hold a gradient alike must
round it alike, or their parameters drift apart: so they must hold all else of its bucket alike, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..core.assignment import Delivery, Scope, TrainingGraph
from ..core.bucket import LOCAL, PACKED, Bucket, Reduced
from ..core.collective import Step
from ..core.gradient_decision import SCALED, GradientDecision
from ..core.mesh import Axes, DeviceMesh
from ..core.portion import stage_of_items
from ..core.stage import plain
from ..errors import Diagnostic, PlannerError

Key = tuple[int, tuple[tuple[str, Axes], ...], bool, int, Axes]
"""What the members of a bucket have in common: way, collectives, whether they are deferred, stage, and the axes along
which ranks hold them alike, if their compression makes elements share a scale."""
Reductions = Mapping[tuple[int, str], Sequence[tuple[Key, Reduced]]]
"""Scope and parameter → its reductions that can share a collective."""


def fill_buckets(training: TrainingGraph, decision: GradientDecision, element_bytes: int) -> TrainingGraph:
    """Return the training graph with buckets as decided.

    Parameters
    ----------
    element_bytes
        Bytes of an element of a gradient.

    Raises
    ------
    PlannerError
        `plan.gradient-position` when a bucket is to begin where there is no parameter.
    """
    if not decision.gathers:
        return training
    stretches = tuple(_stretches(training))
    reductions = _reductions(training, scaled=decision.compression in SCALED)
    if decision.fusion == "index":
        buckets = tuple(_at_positions(training, stretches, reductions, decision.indices))
    else:
        most = decision.largest_bucket / element_bytes
        buckets = tuple(b for stretch in reversed(stretches) for b in _filled(training, stretch, reductions, most))
    inside = {(member.scope, member.parameter) for bucket in buckets for member in bucket.members}
    scopes = tuple(
        replace(
            scope, fanouts=tuple(replace(f, bucketed=True) if (i, f.value) in inside else f for f in scope.fanouts)
        )
        for i, scope in enumerate(training.scopes)
    )  # fmt: skip
    found = (*training.assignment.diagnostics, *_alone(training, buckets, decision))
    assignment = replace(training.assignment, diagnostics=found)
    return replace(training, assignment=assignment, scopes=scopes, buckets=buckets)


def _alone(training: TrainingGraph, buckets: tuple[Bucket, ...], decision: GradientDecision) -> Iterator[Diagnostic]:
    """Yield a note on the reductions that are in no bucket, if there are any."""
    inside = {(member.scope, member.parameter, member.way) for bucket in buckets for member in bucket.members}
    alone = [
        fanout.value
        for index, scope in enumerate(training.scopes)
        for fanout in scope.fanouts
        if fanout.kind == "parameter"
        for way, delivery in enumerate(fanout.backward)
        if any(step.kind not in LOCAL for step in delivery.redistribution.steps)
        and (index, fanout.value, way) not in inside
    ]
    if alone:
        compressed = "" if decision.compression == "none" else f" and not as {decision.compression}"
        yield Diagnostic(
            code="plan.gradient-alone", severity="note", subject=alone[0],
            message=f"The gradients of {len(alone)} parameters, such as {alone[0]}, are reduced one by one"
            f"{compressed}: they are cut unequally or exchanged, or several stages hold the parameter.",
            hint="Cut them evenly, or leave it.",
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretch:
    """Parameters of one scope that forward reads one after the other, layer by layer where the scope is a run."""

    scope: int
    parameters: tuple[str, ...]


def _stretches(training: TrainingGraph) -> Iterator[_Stretch]:
    """Yield the stretches in the order of forward; every parameter that something reads is in one."""
    seen: set[str] = set()
    pending: list[str] = []

    def read(names: Iterable[str], scope: Scope) -> list[str]:
        fresh = [name for name in dict.fromkeys(names) if name not in seen and scope.assembly.parameter(name)]
        seen.update(fresh)
        return fresh

    root = training.scopes[0]
    for item in _ordered(training):
        if isinstance(item, int):
            run = training.scopes[item]
            pending += read((outer for _, outer in run.assembly.operands), root)
            if pending:
                yield _Stretch(scope=0, parameters=tuple(pending))
                pending = []
            own: dict[str, None] = {}
            for assigned in run.assembly.nodes:
                own.update(dict.fromkeys(name for name in assigned.node.operands if run.assembly.parameter(name)))
            yield _Stretch(scope=item, parameters=tuple(own))
        else:
            pending += read(item, root)
    if pending:
        yield _Stretch(scope=0, parameters=tuple(pending))


def _ordered(training: TrainingGraph) -> Iterator[tuple[str, ...] | int]:
    """Yield the operands of the root's nodes, and the indices of runs where the root has their repeat."""
    assemblies = training.assignment.assemblies
    by_origin: dict[str, list[str]] = {}
    for assigned in assemblies[0].nodes:
        by_origin.setdefault(assigned.node.origin or assigned.node.name, []).extend(assigned.node.operands)
    for item in training.assignment.graph.root.body:
        if item.name in by_origin:
            yield tuple(by_origin[item.name])
        else:
            yield from (i for i, assembly in enumerate(assemblies) if i and assembly.name == item.name)


def _filled(training: TrainingGraph, stretch: _Stretch, reductions: Reductions, most: float) -> Iterator[Bucket]:
    """Yield the buckets of a stretch, each of at most `most` elements: of whole layers, or of parts of one layer."""
    run = training.scopes[stretch.scope].assembly if stretch.scope else None
    groups: dict[Key, list[Reduced]] = {}
    for name in reversed(stretch.parameters):
        for key, member in reductions.get((stretch.scope, name), ()):
            groups.setdefault(key, []).append(member)
    for (_, _, deferred, *_), members in groups.items():
        layer = sum(map(_elements, members))
        if run is not None and layer <= most:
            together = min(run.count, int(most // layer) if layer else run.count)
            yield Bucket(members=tuple(members), together=together, deferred=deferred)
            continue
        for part in _parts(members, most):
            yield Bucket(members=part, together=int(run is not None), deferred=deferred)


def _parts(members: Iterable[Reduced], most: float) -> Iterator[tuple[Reduced, ...]]:
    part: list[Reduced] = []
    held = 0
    for member in members:
        if part and held + _elements(member) > most:
            yield tuple(part)
            part, held = [], 0
        part.append(member)
        held += _elements(member)
    yield tuple(part)


def _at_positions(
    training: TrainingGraph, stretches: Iterable[_Stretch], reductions: Reductions, positions: tuple[int, ...]
) -> Iterator[Bucket]:
    """Yield the buckets that begin at given positions, the last one first; one for each kind of collectives."""
    places = list(_places(training, stretches))
    if positions[-1] >= len(places):
        raise PlannerError(
            "plan.gradient-position",
            f"A bucket is to begin at parameter {positions[-1]}, and the model has {len(places)}.",
            f"Use positions below {len(places)}, with layers counted one by one.", subject="gradients",
        )  # fmt: skip
    for start, stop in reversed(list(zip((0, *positions), (*positions, len(places)), strict=True))):
        groups: dict[Key, dict[tuple[int, str], Reduced]] = {}
        for scope, name, layer in places[start:stop]:
            for key, member in reductions.get((scope, name), ()):
                held = groups.setdefault(key, {})
                first = held[scope, name].start if (scope, name) in held else layer
                held[scope, name] = replace(member, start=first, stop=layer + 1)
        for (_, _, deferred, *_), members in groups.items():
            yield Bucket(members=tuple(reversed(members.values())), deferred=deferred)


def _places(training: TrainingGraph, stretches: Iterable[_Stretch]) -> Iterator[tuple[int, str, int]]:
    """Yield (scope, parameter, iteration) of every trained parameter, layers one by one, in the order of forward."""
    for stretch in stretches:
        assembly = training.scopes[stretch.scope].assembly
        trained = {p.parameter.name for p in assembly.parameters if p.parameter.trainable}
        for iteration in range(assembly.start, assembly.stop):
            yield from ((stretch.scope, name, iteration) for name in stretch.parameters if name in trained)


def _reductions(training: TrainingGraph, *, scaled: bool) -> Reductions:
    """Return the reductions of gradients that can share a collective with others.

    Parameters
    ----------
    scaled
        Whether elements that are passed together share a scale.
    """
    found: dict[tuple[int, str], list[tuple[Key, Reduced]]] = {}
    stages = _stages(training)
    for index, scope in enumerate(training.scopes):
        for fanout in scope.fanouts:
            for way, delivery in enumerate(fanout.backward if (index, fanout.value) in stages else ()):
                if not _can_share(delivery, training.assignment.mesh):
                    continue
                member = Reduced(
                    scope=index, parameter=fanout.value, way=way, start=scope.assembly.start,
                    stop=scope.assembly.stop, moved=delivery.redistribution,
                )  # fmt: skip
                stage = stages[index, fanout.value]
                alike = _alike(delivery, training.assignment.mesh) if scaled else ()
                key = (way, tuple((step.kind, step.axes) for step in member.shared), fanout.deferred, stage, alike)
                found.setdefault((index, fanout.value), []).append((key, member))
    return found


def _stages(training: TrainingGraph) -> dict[tuple[int, str], int]:
    """Return the stage of every parameter whose gradient can be in a bucket; 0 without a pipeline.

    One that several stages hold gets a gradient from each, so it is full at another time than others.
    """
    of_item = stage_of_items(training)
    names = Counter(plain(p.parameter.name) for p in training.assignment.assemblies[0].parameters)
    found: dict[tuple[int, str], int] = {}
    for index, scope in enumerate(training.scopes):
        by_node = {n.node.name: of_item.get(n.node.origin or n.node.name, 0) for n in scope.assembly.nodes}
        for fanout in scope.fanouts:
            if fanout.kind != "parameter" or (not index and names[plain(fanout.value)] > 1):
                continue
            reader = fanout.readers[0]
            run = training.scopes[reader.scope].assembly.name
            found[index, fanout.value] = of_item.get(run, 0) if reader.scope else by_node.get(reader.node, 0)
    return found


def _alike(delivery: Delivery, mesh: DeviceMesh) -> Axes:
    """Return the axes along which ranks hold a raw gradient alike."""
    raw = delivery.redistribution.source
    return tuple(axis for axis, size in mesh.axes if size > 1 and axis not in raw.used)


def _can_share(delivery: Delivery, mesh: DeviceMesh) -> bool:
    """Return whether all that a reduction communicates can be packed with others: sums, in equal parts if any."""
    shared = [step for step in delivery.redistribution.steps if step.kind not in LOCAL]

    def even(step: Step) -> bool:
        return step.source.even(step.shape, mesh) and step.target.even(step.shape, mesh)

    return bool(shared) and all(
        step.source.reduce == "sum" and (step.kind == "all_reduce" or (step.kind in PACKED and even(step)))
        for step in shared
    )


def _elements(member: Reduced) -> int:
    """Return the elements that a rank passes into the first collective, for one layer."""
    return member.shared[0].source_elements
