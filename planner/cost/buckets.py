"""What the buckets of gradients cost: the collectives of each, their seconds, and those of the copies that pack it.

For each collective of a bucket, with s bytes that a rank passes in and B the achieved memory bandwidth:

============== =========================================================================================
all-reduce     one copy of all members into the bucket, which is reduced in its place: 2·s / B
reduce-scatter a copy of each member whose parts for the ranks do not lie one after the other, 2·(its bytes) / B, and
               one of all into the bucket, 2·s / B; none of the latter where there is one member
unpacking      none: what each has afterwards is a view of the bucket
============== =========================================================================================

2 is one reading and one writing, as for local steps (`communication`). It is what `exporters.runtime.fusion` does
(`tests/cost/test_packing.py` counts it). Copies run where backward computes, so they hide behind nothing. What
rounding to fewer bits takes (compression) is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ..collectives.compressed import Passed, passed
from ..core.assignment import TrainingGraph
from ..core.bucket import Bucket, Reduced
from ..core.cluster import ClusterSpec
from ..core.collective import Step
from ..core.mesh import Axes, DeviceMesh
from ..core.plan import Precision
from ..core.report import CollectiveRow
from ..core.tensor import DTYPE_BYTES
from .communication import copy_seconds, passed_seconds
from .items import GRADIENTS, Held


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTime:
    """Seconds of all collectives of one bucket, how many such buckets there are, and whether they run once a step.

    Parameters
    ----------
    packing
        Seconds of the copies of one bucket.
    """

    seconds: float
    packing: float = 0.0
    count: int
    deferred: bool


def bucket_times(
    training: TrainingGraph, precision: Precision, cluster: ClusterSpec, compression: str
) -> tuple[BucketTime, ...]:
    """Return the times of all buckets, in the order in which backward completes them."""
    mesh, size = training.assignment.mesh, DTYPE_BYTES[precision.gradient]
    return tuple(
        BucketTime(
            seconds=sum(
                passed_seconds(each, axes, mesh, cluster)
                for _, axes, each in _collectives(bucket, layers, mesh, size, compression)
            ),
            packing=sum(copy_seconds(nbytes, cluster) for nbytes in packing_bytes(bucket, layers, mesh, size)),
            count=times, deferred=bucket.deferred,
        )
        for bucket in training.buckets
        for layers, times in bucket.cuts
    )  # fmt: skip


def bucket_calls(
    training: TrainingGraph, precision: Precision, cluster: ClusterSpec, compression: str
) -> tuple[tuple[int, float], ...]:
    """Return of each of the training graph's buckets the collectives of one that it stands for, and their seconds.

    Of buckets that differ in their layers it is the one with the most.
    """
    mesh, size = training.assignment.mesh, DTYPE_BYTES[precision.gradient]
    each = (tuple(_collectives(b, b.cuts[0][0], mesh, size, compression)) for b in training.buckets)
    return tuple((len(calls), sum(passed_seconds(p, axes, mesh, cluster) for _, axes, p in calls)) for calls in each)


def packing_bytes(bucket: Bucket, layers: int, mesh: DeviceMesh, element_bytes: int) -> Iterator[int]:
    """Yield the bytes that each copy of one bucket reads and writes.

    Parameters
    ----------
    layers
        Of `Bucket.cuts`: layers of the bucket.
    """
    tensors = sum(layers or member.iterations for member in bucket.members)
    for call, (kind, _) in enumerate(bucket.calls):
        for member in bucket.members if kind == "reduce_scatter" else ():
            step = member.shared[call]
            if not _in_parts(step, mesh):
                yield from [2 * step.source_elements * element_bytes] * (layers or member.iterations)
        if kind == "all_reduce" or tensors > 1:
            yield 2 * bucket.elements(call, layers, mesh)[0] * element_bytes


def _in_parts(step: Step, mesh: DeviceMesh) -> bool:
    """Return whether what goes to each rank lies one after the other in memory, in the order of the ranks."""
    cut = [dim for dim, (before, after) in enumerate(zip(step.source.dims, step.target.dims, strict=True))
           if before != after]  # fmt: skip
    ordered = [axis for axis in mesh.names if axis in step.axes] == list(step.axes)
    return len(cut) == 1 and ordered and prod(step.source_shape[: cut[0]]) == 1


def bucket_rows(
    training: TrainingGraph, bucket: Bucket, microbatches: int, precision: Precision, cluster: ClusterSpec,
    compression: str,
) -> Iterator[CollectiveRow]:  # fmt: skip
    """Yield the rows of the buckets that one stands for: one for each number of layers and each collective."""
    mesh = training.assignment.mesh
    titles = {training.scopes[member.scope].assembly.title for member in bucket.members}
    title = titles.pop() if len(titles) == 1 else ""
    readers = tuple(dict.fromkeys(name for member in bucket.members for name in _giving(training, member)))
    names = tuple(dict.fromkeys(member.parameter for member in bucket.members))
    size = DTYPE_BYTES[precision.gradient]
    for layers, times in bucket.cuts:
        for call, axes, each in _collectives(bucket, layers, mesh, size, compression):
            steps = [member.shared[call] for member in bucket.members]
            yield CollectiveRow(
                scope=title,
                phase="update" if bucket.deferred else "backward",
                value=names[0],
                readers=readers,
                kind=each.kind,
                axes=axes,
                group_size=mesh.size_of(axes),
                payload_bytes=max(each.source_bytes, each.target_bytes),
                wire_bytes=each.received_bytes,
                seconds=passed_seconds(each, axes, mesh, cluster),
                count=times * (1 if bucket.deferred else microbatches),
                source=", ".join(dict.fromkeys(str(step.source) for step in steps)),
                target=", ".join(dict.fromkeys(str(step.target) for step in steps)),
                parameter=True,
                gradients=names,
            )


def _collectives(
    bucket: Bucket, layers: int, mesh: DeviceMesh, element_bytes: int, compression: str
) -> Iterator[tuple[int, Axes, Passed]]:
    """Yield what one bucket runs: the position of the call that it is for, its axes, and what is passed."""
    for call, (kind, axes) in enumerate(bucket.calls):
        source, target = bucket.elements(call, layers, mesh)
        for each in passed(kind, mesh.size_of(axes), source, target, element_bytes, compression):
            yield call, axes, each


def _giving(training: TrainingGraph, member: Reduced) -> Iterator[str]:
    """Yield the nodes whose raw gradients a reduction adds up."""
    fanout = next(f for f in training.scopes[member.scope].fanouts if f.value == member.parameter)
    yield from (fanout.readers[position].node for position in fanout.backward[member.way].readers)


def bucket_peaks(training: TrainingGraph, precision: Precision) -> Iterator[tuple[Bucket, float]]:
    """Yield the bytes of every bucket when it is packed: its raw gradients, and what they are packed into."""
    mesh = training.assignment.mesh
    for bucket in training.buckets:
        source, target = bucket.elements(0, bucket.cuts[0][0], mesh)
        # An all-reduce leaves its result where it was packed.
        scattered = target if bucket.calls[0][0] == "reduce_scatter" else 0
        yield bucket, float((2 * source + scattered) * DTYPE_BYTES[precision.gradient])


def kept_by_compression(training: TrainingGraph, precision: Precision, compression: str) -> Iterator[Held]:
    """Yield what rounding took away and error feedback keeps for the next time: of what is sent, and passed on."""
    if compression not in {"int8", "one_bit"}:
        return
    mesh = training.assignment.mesh
    for bucket in training.buckets:
        for layers, times in bucket.cuts:
            for call, (kind, axes) in enumerate(bucket.calls):
                ranks, (source, _) = mesh.size_of(axes), bucket.elements(call, layers, mesh)
                part = -(-source // ranks)
                elements = ranks * part + part if kind == "all_reduce" else source
                yield Held(
                    item=GRADIENTS, scope="", name=bucket.members[0].parameter, count=times,
                    note=f"what {compression} left of a bucket of {len(bucket.members)} gradients",
                    nbytes=float(elements * DTYPE_BYTES[precision.gradient]),
                )  # fmt: skip
