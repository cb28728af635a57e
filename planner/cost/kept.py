"""What stays in memory from forward to backward: activations, copies of parameters, and what is computed again.

Of a segment (`core.segments`) what goes in stays; while backward computes it again, it has what it would have kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..core.assignment import TrainingGraph
from ..core.layout import Layout
from ..core.segments import Segments
from .host import HOST, elements
from .items import ACTIVATIONS, GATHERED, LOSS, RECOMPUTED, Held
from .work import LocalTensor, NodeWork, captured


@dataclass(frozen=True, slots=True)
class _Stored:
    """Where the parameters of a scope lie, and what it reads from outside, by inner name."""

    storage: dict[str, Layout]
    regather: frozenset[str]
    host: frozenset[str]
    outer: dict[str, str]

    def is_copy(self, tensor: LocalTensor) -> bool:
        """Return whether a parameter is read in another layout than it is stored in, or comes from the host."""
        return tensor.name in self.host or self.storage[tensor.name] != tensor.layout


def _stored(training: TrainingGraph) -> tuple[_Stored, ...]:
    mesh = training.assignment.mesh
    found = []
    for scope in training.scopes:
        assembly = scope.assembly
        found.append(
            _Stored(
                storage={p.parameter.name: p.storage.normal(mesh) for p in assembly.parameters},
                regather=frozenset(p.parameter.name for p in assembly.parameters if p.regather),
                host=frozenset(p.parameter.name for p in assembly.parameters if p.place == HOST),
                outer=dict(captured(assembly)),
            )
        )
    return tuple(found)


def saved(training: TrainingGraph, works: tuple[NodeWork, ...]) -> Iterator[Held]:
    """Yield saved activations and kept copies of parameters, each tensor once."""
    stored, keeps = _stored(training), _keeps(training, works)
    seen: set[tuple[int, str, Layout]] = set()
    loss = loss_nodes(training, works)
    again, bases = _handed_on(training, works, keeps), _bases(works)
    for work, kept_here in zip(works, keeps, strict=True):
        here = stored[work.scope]
        for tensor in kept_here:
            name = tensor.name
            # All layers of a run read the same captured tensor.
            scope, name, count = (0, here.outer[name], 1) if name in here.outer else (work.scope, name, work.count)
            count -= again.get((scope, name, tensor.layout), 0)
            kept, nbytes = bases.get((scope, name, tensor.layout), ((scope, name, tensor.layout), tensor.nbytes))
            if kept in seen or not count:
                continue
            seen.add(kept)
            storage = stored[scope].storage.get(name)
            there = storage == tensor.layout and name not in stored[scope].host
            if storage is not None and (there or name in stored[scope].regather):
                continue
            item = ACTIVATIONS if storage is None else GATHERED
            if work.node.name in loss and storage is None:
                item = LOSS
            yield Held(
                item=item,
                scope=work.title if scope else "",
                name=name,
                note=f"{tensor}, read by {work.node.name}",
                nbytes=float(nbytes),
                count=count,
            )
        if work.extra_saved_bytes and not work.segment:
            yield Held(
                item=LOSS if work.node.name in loss else ACTIVATIONS,
                scope=work.title,
                name=work.node.name,
                note="kept by the operator itself",
                nbytes=work.extra_saved_bytes,
                count=work.count,
            )


def _keeps(training: TrainingGraph, works: tuple[NodeWork, ...]) -> tuple[tuple[LocalTensor, ...], ...]:
    """Return what every node makes stay until backward: what autograd keeps, or what goes into its segment with it."""
    segments = [Segments.of(scope.assembly, index) for index, scope in enumerate(training.scopes)]
    given: dict[tuple[int, str], Layout] = {}
    for scope, own in zip(training.scopes, segments, strict=True):
        # What is given to the scope and brought to its readers in the segment goes in as it is.
        inside = [f for f in scope.fanouts if f.kind != "activation" and own.around(f)] if own else []
        given |= {(own.scope, f.value): f.source.normal(training.assignment.mesh) for f in inside}

    def entering(work: NodeWork) -> Iterator[LocalTensor]:
        parameters = training.scopes[work.scope].assembly
        for tensor in work.operands:
            source = given.get((work.scope, tensor.name))
            if segments[work.scope].made_in(tensor.name) == work.segment:
                continue
            if source is None:
                yield tensor
            elif parameters.parameter(tensor.name) is None:
                yield _as_given(training, work.scope, tensor, source)

    # Nothing of a segment that keeps nothing is computed again, so what goes in is let go.
    again = {(work.scope, work.segment) for work in works if work.repeated}
    return tuple(
        (tuple(entering(work)) if (work.scope, work.segment) in again else ()) if work.segment else work.saved
        for work in works
    )


def _as_given(training: TrainingGraph, scope: int, tensor: LocalTensor, source: Layout) -> LocalTensor:
    """Return an input of a scope as it lies before it is brought to its readers."""
    meta = {name: meta for name, meta, _ in training.scopes[scope].assembly.inputs}[tensor.name]
    whole = meta.concrete(training.assignment.symbols)
    shape = source.local_shape(whole, training.assignment.mesh, subject=tensor.name)
    return replace(tensor, layout=source, shape=shape, even=source.even(whole, training.assignment.mesh))


def recomputed(training: TrainingGraph, works: tuple[NodeWork, ...]) -> Iterator[Held]:
    """Yield what the segment that holds most keeps while it is computed again."""
    stored, bases = _stored(training), _bases(works)
    segments = [Segments.of(scope.assembly, index) for index, scope in enumerate(training.scopes)]
    copied = {
        (own.scope, f.value)
        for scope, own in zip(training.scopes, segments, strict=True)
        if own
        for f in scope.fanouts
        if f.kind == "parameter" and own.around(f)
    }
    found: dict[tuple[int, str], dict[_Key, float]] = {}
    for work in works:
        if not work.repeated:
            continue
        together = found.setdefault((work.scope, work.segment), {})
        together[work.scope, f"{work.node.name} itself", Layout(())] = work.extra_saved_bytes
        made = segments[work.scope].made_in
        for tensor in work.saved:
            if made(tensor.name) == work.segment:
                key = work.scope, tensor.name, tensor.layout
                base, nbytes = bases.get(key, (key, tensor.nbytes))
                if made(base[1]) == work.segment:
                    together[base] = nbytes
        for tensor in work.operands:
            here = stored[work.scope]
            if (work.scope, tensor.name) in copied and here.is_copy(tensor):
                together[work.scope, tensor.name, tensor.layout] = tensor.nbytes
    sizes = {place: sum(together.values()) for place, together in found.items()}
    if sizes and max(sizes.values()):
        scope, segment = max(sizes, key=lambda place: sizes[place])
        yield Held(
            item=RECOMPUTED,
            scope=training.scopes[scope].assembly.title,
            name=segment,
            note="what autograd keeps of the segment that holds most, computed again",
            nbytes=sizes[scope, segment],
        )


def _bases(works: tuple[NodeWork, ...]) -> dict[_Key, tuple[_Key, int]]:
    """Return for every view of a tensor, and every piece, the tensor itself and its bytes: they are one in memory.

    Who keeps a piece keeps the whole. A reshape of dims that do not lie in a row makes a copy.
    """
    bases: dict[_Key, tuple[_Key, int]] = {}
    made: set[tuple[int, str]] = set()
    strided: set[tuple[int, str]] = set()
    for work in works:
        names = {(work.scope, result.name) for result in work.results}
        if work.op.view or work.node.op in _PIECES:
            of = work.operands[0]
            stretched = (work.scope, of.name) in strided
            copied = work.node.op == "expand" or (work.node.op == "reshape" and stretched)
            if not copied and (stretched or work.node.op in _STRIDED):
                strided |= names
            if not copied and (work.scope, of.name) in made:
                key = (work.scope, of.name, of.layout)
                for result in work.results:
                    bases[work.scope, result.name, result.layout] = bases.get(key, (key, of.nbytes))
        made |= names
    return bases


_Key = tuple[int, str, Layout]
"""Scope, name and layout of a kept tensor."""
_PIECES = frozenset({"select", "slice", "split"})
_STRIDED = _PIECES | {"permute", "split_heads"}
"""Views whose elements do not lie in a row."""


def _handed_on(
    training: TrainingGraph, works: tuple[NodeWork, ...], keeps: tuple[tuple[LocalTensor, ...], ...]
) -> dict[_Key, int]:
    """Return how many of the saved copies of a value are saved under another name already.

    What an iteration is given is what the one before gave, and the first is given what lies outside.
    """
    saved = {(work.scope, t.name, t.layout) for work, kept in zip(works, keeps, strict=True) for t in kept}
    again: dict[_Key, int] = {}
    for index, scope in enumerate(training.scopes):
        assembly = scope.assembly
        outer = dict(assembly.operands)
        for (given, made), result in zip(assembly.carried, assembly.results, strict=False):
            for _, _, layout in [key for key in saved if key[:2] == (index, given)]:
                twice = assembly.count - 1 if (index, made, layout) in saved else 0
                again[index, given, layout] = twice + ((0, outer.get(given), layout) in saved)
            for _, _, layout in [key for key in saved if key[:2] == (0, result)]:
                again[0, result, layout] = int((index, made, layout) in saved)
    return again


def regathered(training: TrainingGraph, works: tuple[NodeWork, ...]) -> Iterator[Held]:
    """Yield the largest set of copies that are fetched together: those of a layer, or of an operator outside."""
    stored = _stored(training)
    together: dict[tuple[int, str], dict[tuple[str, Layout], LocalTensor]] = {}
    for work in works:
        here = stored[work.scope]
        for tensor in () if work.segment else work.operands:
            if tensor.name in here.regather and here.is_copy(tensor):
                key = (work.scope, "" if work.title else work.node.name)
                together.setdefault(key, {})[tensor.name, tensor.layout] = tensor
    sizes = {key: sum(t.nbytes for t in copies.values()) for key, copies in together.items()}
    if sizes:
        scope, name = max(sizes, key=lambda key: sizes[key])
        yield Held(
            item=GATHERED,
            scope=training.scopes[scope].assembly.title,
            name=name or "one layer",
            note="the largest set of parameters that are fetched together and dropped after use",
            nbytes=float(sizes[scope, name]),
        )
    yield from _ahead(training, works)


def _ahead(training: TrainingGraph, works: tuple[NodeWork, ...]) -> Iterator[Held]:
    """Yield what is on its way from the host while a layer runs: as many parameters as a layer has."""
    itemsizes = {(w.scope, t.name): t.itemsize for w in works for t in w.operands}
    sizes = [
        sum(
            elements(training, p, optimizer=False) * itemsizes[index, p.parameter.name]
            for p in scope.assembly.parameters
            if p.place == HOST and (index, p.parameter.name) in itemsizes
        )
        for index, scope in enumerate(training.scopes)
    ]
    # Outside of layers one parameter is ahead.
    layers = sizes[1:] or [max((t.nbytes for w in works for t in w.operands), default=0)]
    if any(sizes) and max(layers):
        yield Held(
            item=GATHERED, scope="", name="one layer ahead",
            note="parameters on the host that are brought to the device while a layer runs", nbytes=float(max(layers)),
        )  # fmt: skip


def loss_nodes(training: TrainingGraph, works: tuple[NodeWork, ...]) -> frozenset[str]:
    """Return the nodes that make the loss from the logits: what reads the logits, with its other parts."""
    logits = training.assignment.graph.logits
    readers = [work.node for work in works if logits and logits in work.node.operands]
    origins = {node.origin for node in readers if node.origin}
    parts = [work.node for work in works if work.node.origin in origins]
    return frozenset(node.name for node in (*readers, *parts))
