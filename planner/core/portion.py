"""What one stage of a pipeline has of a training graph, as a training graph of its own.

A value belongs to the stage that makes it, with its way to those that receive it; a parameter to the stage that holds
it; an input of the model to each stage that reads it. So the portions together have every redistribution once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from .assignment import Delivery, Fanout, Reader, Scope, TrainingGraph


def stage_of_items(training: TrainingGraph) -> Mapping[str, int]:
    """Return root item → stage."""
    return {name: stage for stage, names in enumerate(training.assignment.graph.stages) for name in names}


def stage_of_values(training: TrainingGraph) -> dict[str, int]:
    """Return value of the root that an operator or a run makes → stage."""
    of_item, (root, *runs) = stage_of_items(training), training.scopes
    made = {v.name: of_item[n.node.origin or n.node.name] for n in root.assembly.nodes for v in n.node.results}
    return made | {value: of_item[run.assembly.name] for run in runs for value in run.assembly.results}


def portion(training: TrainingGraph, stage: int) -> TrainingGraph:
    """Return what a stage runs; the root's scope stays the first.

    Raises
    ------
    IndexError
        When the graph has no such stage.
    """
    assignment = training.assignment
    names = frozenset(assignment.graph.stages[stage])
    root, *runs = training.scopes
    kept = [0, *(i for i, run in enumerate(runs, start=1) if run.assembly.name in names)]
    numbers = {old: new for new, old in enumerate(kept)}
    nodes = tuple(n for n in root.assembly.nodes if (n.node.origin or n.node.name) in names)
    made = {v.name for n in nodes for v in n.node.results}
    made |= {value for i in kept[1:] for value in training.scopes[i].assembly.results}
    own = {n.node.name for n in nodes}

    def here(reader: Reader) -> bool:
        return reader.node in own if reader.scope == 0 else reader.scope in numbers

    fanouts = tuple(_root_fanouts(root, made, here, numbers))
    read = {f.value for f in fanouts if f.kind == "parameter"}
    # What nothing reads lies on the first stage.
    everywhere = {f.value for f in root.fanouts}
    held = {
        p.parameter.name
        for p in root.assembly.parameters
        if p.parameter.name in read or (stage == 0 and p.parameter.name not in everywhere)
    }
    first = Scope(
        assembly=replace(
            root.assembly, nodes=nodes,
            parameters=tuple(p for p in root.assembly.parameters if p.parameter.name in held),
        ),
        fanouts=fanouts,
        updates=tuple(u for u in root.updates if u.parameter in held),
    )  # fmt: skip
    others = tuple(_renumbered(training.scopes[i], numbers) for i in kept[1:])
    scopes = (first, *others)
    assemblies = tuple(scope.assembly for scope in scopes)
    buckets = tuple(
        replace(bucket, members=tuple(replace(m, scope=numbers[m.scope]) for m in bucket.members))
        for bucket in training.buckets
        if all(m.parameter in held if m.scope == 0 else m.scope in numbers for m in bucket.members)
    )
    return TrainingGraph(assignment=replace(assignment, assemblies=assemblies), scopes=scopes, buckets=buckets)


def _root_fanouts(
    root: Scope, made: set[str], here: Callable[[Reader], bool], numbers: Mapping[int, int]
) -> Iterator[Fanout]:
    for fanout in root.fanouts:
        if fanout.kind in {"input", "parameter"}:
            places = [i for i, reader in enumerate(fanout.readers) if here(reader)]
            if places:
                yield _only(fanout, places, numbers)
        elif fanout.value in made:
            yield replace(fanout, readers=tuple(_moved(r, numbers) for r in fanout.readers))


def _renumbered(scope: Scope, numbers: Mapping[int, int]) -> Scope:
    return replace(
        scope,
        fanouts=tuple(replace(f, readers=tuple(_moved(r, numbers) for r in f.readers)) for f in scope.fanouts),
    )


def _moved(reader: Reader, numbers: Mapping[int, int]) -> Reader:
    number = numbers.get(reader.scope, 0)
    return reader if number == reader.scope else replace(reader, scope=number)


def _only(fanout: Fanout, places: list[int], numbers: Mapping[int, int]) -> Fanout:
    """Return a fan-out with some of its readers, and the deliveries that these get."""
    new = {old: index for index, old in enumerate(places)}

    def delivered(deliveries: tuple[Delivery, ...]) -> tuple[Delivery, ...]:
        left = ((d, tuple(new[i] for i in d.readers if i in new)) for d in deliveries)
        return tuple(replace(d, readers=readers) for d, readers in left if readers)

    return replace(
        fanout, readers=tuple(_moved(fanout.readers[i], numbers) for i in places), forward=delivered(fanout.forward),
        backward=delivered(fanout.backward), again=delivered(fanout.again),
    )  # fmt: skip
