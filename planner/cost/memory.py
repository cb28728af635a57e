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
                    Of a segment (`core.segments`) what goes in is kept, and nothing else
recomputed          what the segment that holds most keeps while it is computed again, with copies of its parameters
gathered parameters copies of parameters that autograd keeps because an operator reads them in another layout than they
                    are stored in; with `regather` they are dropped after use, and only the largest layer's count,
                    with the stored ones of one more layer where they come from the host, which is not counted itself
logits and loss     the logits, whose place their gradient takes, and what the loss keeps
transient           the largest redistribution (input and output) or gradients of one operator, whichever is more
reserved            context and communication buffers of the device
=================== =============================================================================================

Activations are those of one microbatch: without a pipeline, microbatches run one after the other. All items are added
up although they need not all peak at once (transients come and go), so the sum is an estimate from above for what it
lists; fragmentation is in `reserved`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..core.assignment import ParameterLayout, TrainingGraph
from ..core.cluster import DeviceSpec
from ..core.collective import Redistribution
from ..core.plan import Precision
from ..core.tensor import DTYPE_BYTES
from ..hardware import has_master, optimizer_bytes
from .buckets import bucket_peaks, kept_by_compression
from .host import HOST
from .items import (
    ACTIVATIONS,
    GATHERED,
    GRADIENTS,
    ITEMS,
    LOSS,
    OPTIMIZER,
    PARAMETERS,
    RECOMPUTED,
    RESERVED,
    TRANSIENT,
    Held,
    memory_bytes,
)  # fmt: skip
from .kept import recomputed, regathered, saved
from .work import NodeWork, itemsize

__all__ = [
    "ACTIVATIONS", "GATHERED", "GRADIENTS", "ITEMS", "LOSS", "OPTIMIZER", "PARAMETERS", "RECOMPUTED", "RESERVED",
    "TRANSIENT", "Held", "held", "memory_bytes", "state_bytes",
]  # fmt: skip


def held(
    training: TrainingGraph, works: tuple[NodeWork, ...], precision: Precision, device: DeviceSpec,
    compression: str = "none",
) -> tuple[Held, ...]:  # fmt: skip
    """Return everything that lies in the memory of a device at the peak of a step."""
    return (
        *_states(training, precision),
        *kept_by_compression(training, precision, compression),
        *saved(training, works),
        *recomputed(training, works),
        *regathered(training, works),
        *_loss(training, works),
        *_transient(training, works, precision),
        Held(item=RESERVED, scope="", name=device.name, note="device context", nbytes=device.reserved_bytes),
    )


def state_bytes(placed: ParameterLayout, precision: Precision) -> int:
    """Return the bytes of optimizer state per element, with a copy where it can't update the stored values."""
    elsewhere = placed.optimizer != placed.storage or placed.optimizer_place != placed.place
    return optimizer_bytes(precision) + (elsewhere and not has_master(precision)) * DTYPE_BYTES[precision.compute]


def _states(training: TrainingGraph, precision: Precision) -> Iterator[Held]:
    mesh, symbols = training.assignment.mesh, training.assignment.symbols
    for scope in training.scopes:
        assembly = scope.assembly
        waiting = {f.value: [d.redistribution.source for d in f.backward] for f in scope.fanouts if f.deferred}
        for placed in assembly.parameters:
            parameter = placed.parameter
            shape = parameter.meta.concrete(symbols)
            for item, layout, size, place in (
                (PARAMETERS, placed.storage, DTYPE_BYTES[precision.compute], placed.place),
                (GRADIENTS, placed.gradient, DTYPE_BYTES[precision.gradient], "device"),
                (OPTIMIZER, placed.optimizer, state_bytes(placed, precision), placed.optimizer_place),
            ):
                if place == HOST:
                    continue
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


def _loss(training: TrainingGraph, works: tuple[NodeWork, ...]) -> Iterator[Held]:
    """Yield the logits, unless they are saved and thus already counted."""
    logits = training.assignment.graph.logits
    if any(tensor.name == logits for work in works for tensor in work.saved):
        # Already counted, be it with the segment that makes and reads them.
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
                found.append((float(moved.peak_bytes(each)), scope.assembly.title, fanout.value, phase, moved))
        for update in scope.updates:
            # The gradient in its type, the values in that of the computation.
            for moved, each in ((update.gradient, gradient), (update.values, compute)):
                found.append((float(moved.peak_bytes(each)), scope.assembly.title, update.parameter, "update", moved))
    for bucket, bucket_bytes in bucket_peaks(training, precision):
        found.append(
            (bucket_bytes, "", bucket.members[0].parameter, f"a bucket of {len(bucket.members)} gradients", None)
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
