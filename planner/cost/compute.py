"""How long an operator takes on one device: the roofline.

```text
time = max(FLOPs / (peak · efficiency), bytes / (bandwidth · efficiency), launch floor)
```

Matrix products run at the peak of the compute type. Other operators run at the fp32 peak, which the vector units have
for every narrower type, and are in practice bound by memory. Forward reads the operands and writes the results.
Backward reads the results' gradients and what was saved, and writes the operands' gradients.

Shapes are those of the rank with the largest parts. Where the sequence is cut unevenly, the last queries of a causal
attention are fewer than the largest part, so its FLOPs are an estimate from above.

Source: Williams, Waterman, Patterson 2009, "Roofline: an insightful visual performance model for multicore
architectures". The efficiencies and the floor are the device's, with their sources, in the hardware catalogue.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..core.assignment import TrainingGraph
from ..core.cluster import ClusterSpec, DeviceSpec
from ..core.plan import Precision
from ..core.tensor import DTYPE_BYTES
from ..errors import PlannerError
from .work import NodeWork, node_works


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTime:
    """One operator's forward or backward on one device.

    Parameters
    ----------
    peak
        FLOP/s of the units that it runs on.
    efficiency
        Fraction of the peak that its kernel reaches.
    """

    flops: float
    nbytes: float
    peak: float
    efficiency: float
    seconds: float


NOTHING = KernelTime(flops=0.0, nbytes=0.0, peak=0.0, efficiency=0.0, seconds=0.0)


def forward_time(work: NodeWork, precision: Precision, device: DeviceSpec) -> KernelTime:
    """Return the time of a node's forward; a view takes none."""
    if work.op.view:
        return NOTHING
    flops = work.op.flops(*work.shapes)
    read = 0
    for position, operand in enumerate(work.operands):
        sparse = work.op.operand_names[position] in work.op.sparse
        made = sum(result.elements for result in work.results)
        read += min(operand.elements, made) * operand.itemsize if sparse else operand.nbytes
    return _kernel(work, flops, read + sum(r.nbytes for r in work.results), precision, device)


def backward_time(work: NodeWork, precision: Precision, device: DeviceSpec) -> KernelTime:
    """Return the time of a node's backward.

    A node without gradient has none; one whose backward does no arithmetic hands its gradient on as it is or as a view.
    """
    flops = work.backward_flops
    if not work.gradients or not flops:
        return NOTHING
    nbytes = work.extra_saved_bytes
    nbytes += sum(result.nbytes for result in work.results)
    nbytes += sum(tensor.nbytes for tensor in work.saved)
    nbytes += sum(work.operands[position].nbytes for position in work.gradients)
    return _kernel(work, flops, nbytes, precision, device)


def repeated_time(work: NodeWork, precision: Precision, device: DeviceSpec) -> KernelTime:
    """Return the time of a node's second forward, which it has in backward if what it kept was let go."""
    return forward_time(work, precision, device) if work.repeated else NOTHING


def peak_flops(dtype: str, device: DeviceSpec) -> float:
    """Return the peak of a device for an element type.

    Raises
    ------
    PlannerError
        `hardware.dtype-unsupported`.
    """
    peaks = dict(device.peak_flops)
    if dtype not in peaks:
        raise PlannerError(
            "hardware.dtype-unsupported",
            f"The catalogue has no peak of {device.name} for {dtype}.",
            f"Use a precision that computes in one of: {', '.join(peaks)}.",
            subject="precision",
        )
    return peaks[dtype]


def kernel_seconds(flops: float, nbytes: float, peak: float, efficiency: float, device: DeviceSpec) -> float:
    """Return the roofline time of one kernel."""
    arithmetic = flops / (peak * efficiency)
    memory = nbytes / (device.memory_bandwidth * device.memory_efficiency)
    return max(arithmetic, memory, device.kernel_floor_s)


def optimizer_seconds(nbytes: float, device: DeviceSpec) -> float:
    """Return the seconds of an optimizer step that reads and writes `nbytes` together; it is bound by memory."""
    return nbytes / (device.memory_bandwidth * device.memory_efficiency)


def optimizer_traffic(precision: Precision) -> int:
    """Return the bytes per parameter that an Adam step reads and writes.

    Read: gradient, two moments and the master copy (the parameter itself if there is none); written: the same without
    the gradient, and the parameter if there is a master copy. 28 for bf16 with an fp32 master.
    """
    compute, gradient, master = (
        DTYPE_BYTES[dtype] for dtype in (precision.compute, precision.gradient, precision.master)
    )
    copied = compute if precision.master != precision.compute else 0
    return gradient + 2 * 3 * master + copied


def total_seconds(works: Iterable[NodeWork], precision: Precision, device: DeviceSpec) -> tuple[float, float, float]:
    """Return the seconds of forward, backward and second forward of one microbatch, all layers counted."""
    forward = backward = again = 0.0
    for work in works:
        forward += work.count * forward_time(work, precision, device).seconds
        backward += work.count * backward_time(work, precision, device).seconds
        again += work.count * repeated_time(work, precision, device).seconds
    return forward, backward, again


def _kernel(work: NodeWork, flops: float, nbytes: float, precision: Precision, device: DeviceSpec) -> KernelTime:
    if work.op.matmul:
        peak = peak_flops(precision.compute, device)
        efficiency = dict(device.op_efficiency).get(work.op.kernel or work.op.name, device.matmul_efficiency)
    else:
        peak = peak_flops("float64" if precision.compute == "float64" else "float32", device)
        efficiency = 1.0
    seconds = kernel_seconds(flops, nbytes, peak, efficiency, device)
    return KernelTime(flops=flops, nbytes=nbytes, peak=peak, efficiency=efficiency, seconds=seconds)


def node_seconds(
    training: TrainingGraph, precision: Precision, cluster: ClusterSpec
) -> dict[tuple[str, str], tuple[float, float]]:
    """Return, by scope title and node name, the seconds of one forward and one backward of every node on a rank.

    A second forward is part of backward.
    """
    device = cluster.device
    return {
        (work.title, work.node.name): (
            forward_time(work, precision, device).seconds,
            backward_time(work, precision, device).seconds + repeated_time(work, precision, device).seconds,
        )
        for work in node_works(training, precision)
    }
