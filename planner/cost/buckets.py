"""What the buckets of gradients cost: the collectives of each, and their seconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..collectives.compressed import Passed, passed
from ..core.assignment import TrainingGraph
from ..core.bucket import Bucket, Reduced
from ..core.cluster import ClusterSpec
from ..core.mesh import Axes, DeviceMesh
from ..core.plan import Precision
from ..core.report import CollectiveRow
from ..core.tensor import DTYPE_BYTES
from .communication import passed_seconds
from .items import GRADIENTS, Held


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTime:
    """Seconds of all collectives of one bucket, how many such buckets there are, and whether they run once a step."""

    seconds: float
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
            count=times, deferred=bucket.deferred,
        )
        for bucket in training.buckets
        for layers, times in bucket.cuts
    )  # fmt: skip


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
