r"""What lies in the memory of the fullest device: model states, saved activations, buffers.

The rank at coordinate 0 of every axis holds the largest part of every tensor, so it stands for all: where sizes divide,
every rank holds as much. What is cut into unequal parts says "largest part".

=================== =============================================================================================
parameters          storage layout, in the compute type
gradients           gradient layout, in the gradient type; deferred ones raw until the end of the step, if that is more
optimizer state     optimizer layout: Adam's moments and, if its type differs, a master copy (Rajbhandari et al. 2020,
                    ZeRO, section 3.1) or its shard is another than the stored one
saved activations   what autograd keeps for backward, in the layout in which its operator reads it; readers that share
                    one delivery share one tensor. Counted from the graph, not from a formula for one architecture
                    (Korthikanti et al. 2022 give such formulas)
gathered parameters copies of parameters that autograd keeps because an operator reads them in another layout than they
                    are stored in; with `regather` they are dropped after use, and only the largest layer's count
logits and loss     the logits, whose place their gradient takes, and what the loss keeps
transient           the largest redistribution (input and output) or gradients of one operator, whichever is more
reserved            context and communication buffers of the device
=================== =============================================================================================

Activations are those of one microbatch: without a pipeline, microbatches run one after the other. All items are added
up although they need not all peak at once (transients come and go), so the sum is an estimate from above for what it
lists; fragmentation is in `reserved`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..core.assignment import TrainingGraph
from ..core.cluster import DeviceSpec
from ..core.collective import Redistribution
from ..core.layout import Layout
from ..core.plan import Precision
from ..core.tensor import DTYPE_BYTES
from ..hardware import has_master, optimizer_bytes
from .work import LocalTensor, NodeWork, captured, itemsize

PARAMETERS = "parameters"
GRADIENTS = "gradients"
OPTIMIZER = "optimizer state"
ACTIVATIONS = "saved activations"
GATHERED = "gathered parameters"
LOSS = "logits and loss"
TRANSIENT = "transient"
RESERVED = "reserved"
ITEMS = (PARAMETERS, GRADIENTS, OPTIMIZER, ACTIVATIONS, GATHERED, LOSS, TRANSIENT, RESERVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One thing that lies in memory: `count` times `nbytes`.

    Parameters
    ----------
    item
        The item of the memory report that it belongs to, one of `ITEMS`.
    scope
        Title of its scope.
    name
        The value, parameter or operator.
    note
        Its layout, or why it is there.
    """

    item: str
    scope: str
    name: str
    note: str
    nbytes: float
    count: int = 1

    @property
    def total(self) -> float:
        """Bytes of all layers together."""
        return self.nbytes * self.count


def held(
    training: TrainingGraph, works: tuple[NodeWork, ...], precision: Precision, device: DeviceSpec
) -> tuple[Held, ...]:
    """Return everything that lies in the memory of a device at the peak of a step."""
    return (
        *_states(training, precision),
        *_saved(training, works),
        *_regathered(training, works),
        *_loss(training, works),
        *_transient(training, works, precision),
        Held(item=RESERVED, scope="", name=device.name, note="device context", nbytes=device.reserved_bytes),
    )


def memory_bytes(things: Iterable[Held]) -> dict[str, float]:
    """Return the bytes of every item, in the order of `ITEMS`."""
    totals = dict.fromkeys(ITEMS, 0.0)
    for thing in things:
        totals[thing.item] += thing.total
    return totals


def _states(training: TrainingGraph, precision: Precision) -> Iterator[Held]:
    mesh, symbols = training.assignment.mesh, training.assignment.symbols
    for scope in training.scopes:
        assembly = scope.assembly
        waiting = {f.value: [d.redistribution.source for d in f.backward] for f in scope.fanouts if f.deferred}
        for placed in assembly.parameters:
            parameter = placed.parameter
            shape = parameter.meta.concrete(symbols)
            # The optimizer updates the stored values themselves where it can.
            copy = placed.optimizer != placed.storage and not has_master(precision)
            state = optimizer_bytes(precision) + copy * DTYPE_BYTES[precision.compute]
            for item, layout, size in (
                (PARAMETERS, placed.storage, DTYPE_BYTES[precision.compute]),
                (GRADIENTS, placed.gradient, DTYPE_BYTES[precision.gradient]),
                (OPTIMIZER, placed.optimizer, state),
            ):
                if item != PARAMETERS and not parameter.trainable:
                    continue
                elements, note = layout.local_elements(shape, mesh), f"{layout}, {size} B each"
                note += "" if layout.even(shape, mesh) else ", largest part"
                raw = waiting.get(parameter.name, ()) if item == GRADIENTS else ()
                if (kept := sum(each.local_elements(shape, mesh) for each in raw)) > elements:
                    elements, note = kept, f"raw {' and '.join(map(str, raw))}, {size} B each, reduced once a step"
                yield Held(
                    item=item,
                    scope=assembly.title,
                    name=parameter.name,
                    note=note,
                    nbytes=float(elements * size),
                    count=assembly.count,
                )


@dataclass(frozen=True, slots=True)
class _Stored:
    """Where the parameters of a scope lie, and what it reads from outside, by inner name."""

    storage: dict[str, Layout]
    regather: frozenset[str]
    outer: dict[str, str]


def _stored(training: TrainingGraph) -> tuple[_Stored, ...]:
    mesh = training.assignment.mesh
    found = []
    for scope in training.scopes:
        assembly = scope.assembly
        found.append(
            _Stored(
                storage={p.parameter.name: p.storage.normal(mesh) for p in assembly.parameters},
                regather=frozenset(p.parameter.name for p in assembly.parameters if p.regather),
                outer=dict(captured(assembly)),
            )
        )
    return tuple(found)


def _saved(training: TrainingGraph, works: tuple[NodeWork, ...]) -> Iterator[Held]:
    """Yield saved activations and kept copies of parameters, each tensor once."""
    stored = _stored(training)
    seen: set[tuple[int, str, Layout]] = set()
    loss = _loss_nodes(training, works)
    again, bases = _handed_on(training, works), _bases(works)
    for work in works:
        here = stored[work.scope]
        for tensor in work.saved:
            name = tensor.name
            # All layers of a run read the same captured tensor.
            scope, name, count = (0, here.outer[name], 1) if name in here.outer else (work.scope, name, work.count)
            count -= again.get((scope, name, tensor.layout), 0)
            kept, nbytes = bases.get((scope, name, tensor.layout), ((scope, name, tensor.layout), tensor.nbytes))
            if kept in seen or not count:
                continue
            seen.add(kept)
            storage = stored[scope].storage.get(name)
            if storage is not None and (storage == tensor.layout or name in stored[scope].regather):
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
        if work.extra_saved_bytes:
            yield Held(
                item=LOSS if work.node.name in loss else ACTIVATIONS,
                scope=work.title,
                name=work.node.name,
                note="kept by the operator itself",
                nbytes=work.extra_saved_bytes,
                count=work.count,
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


def _handed_on(training: TrainingGraph, works: tuple[NodeWork, ...]) -> dict[tuple[int, str, Layout], int]:
    """Return how many of the saved copies of a value are saved under another name already.

    What an iteration is given is what the one before gave, and the first is given what lies outside.
    """
    saved = {(work.scope, tensor.name, tensor.layout) for work in works for tensor in work.saved}
    again: dict[tuple[int, str, Layout], int] = {}
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


def _regathered(training: TrainingGraph, works: tuple[NodeWork, ...]) -> Iterator[Held]:
    """Yield the largest set of copies that are fetched together: those of a layer, or of an operator outside."""
    stored = _stored(training)
    together: dict[tuple[int, str], dict[tuple[str, Layout], LocalTensor]] = {}
    for work in works:
        here = stored[work.scope]
        for tensor in work.operands:
            if tensor.name in here.regather and here.storage[tensor.name] != tensor.layout:
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


def _loss_nodes(training: TrainingGraph, works: tuple[NodeWork, ...]) -> frozenset[str]:
    """Return the nodes that make the loss from the logits: what reads the logits, with its other parts."""
    logits = training.assignment.graph.logits
    readers = [work.node for work in works if logits and logits in work.node.operands]
    origins = {node.origin for node in readers if node.origin}
    parts = [work.node for work in works if work.node.origin in origins]
    return frozenset(node.name for node in (*readers, *parts))


def _loss(training: TrainingGraph, works: tuple[NodeWork, ...]) -> Iterator[Held]:
    """Yield the logits, unless they are saved and thus already counted."""
    logits = training.assignment.graph.logits
    if any(tensor.name == logits for work in works for tensor in work.saved):
        return
    for work in works:
        for result in work.results:
            if result.name == logits:
                note = f"{result}; their gradient takes their place"
                yield Held(item=LOSS, scope=work.title, name=logits, note=note, nbytes=float(result.nbytes))


def _transient(training: TrainingGraph, works: tuple[NodeWork, ...], precision: Precision) -> Iterator[Held]:
    """Yield the largest thing that comes and goes."""
    logits = training.assignment.graph.logits
    found: list[tuple[float, str, str, str, Redistribution | None]] = []
    gradient, compute = DTYPE_BYTES[precision.gradient], DTYPE_BYTES[precision.compute]
    for scope in training.scopes:
        for fanout in scope.fanouts:
            size = itemsize(fanout.meta.dtype, precision)
            back = DTYPE_BYTES[precision.gradient] if fanout.kind == "parameter" else size
            deliveries = [("forward", d.redistribution, size) for d in fanout.forward]
            deliveries += [("backward", d.redistribution, back) for d in fanout.backward]
            for phase, moved, each in deliveries:
                found.append((float(moved.peak_elements * each), scope.assembly.title, fanout.value, phase, moved))
        for update in scope.updates:
            # The gradient in its type, the values in that of the computation.
            for moved, each in ((update.gradient, gradient), (update.values, compute)):
                found.append(
                    (float(moved.peak_elements * each), scope.assembly.title, update.parameter, "update", moved)
                )
    for work in works:
        touched = {tensor.name for tensor in (*work.operands, *work.results)}
        # The gradient of the logits is in their own item.
        if work.gradients and logits not in touched:
            size = sum(t.nbytes for t in work.results) + sum(work.operands[i].nbytes for i in work.gradients)
            found.append((float(size), work.title, work.node.name, "gradients of its operands and results", None))
    nbytes, title, name, note, largest = max(found, key=lambda entry: entry[0], default=(0.0, "", "", "", None))
    if nbytes:
        note = note if largest is None else f"{note} {largest}"
        yield Held(item=TRANSIENT, scope=title, name=name, note=note, nbytes=nbytes)
