"""The buckets of a training graph's gradients, and which of them a parameter's reductions are in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..core.assignment import TrainingGraph
from ..core.view import BucketView

Shared = Mapping[tuple[int, str, tuple[str, ...]], tuple[int, ...]]
"""Scope, parameter and the readers whose raw gradients are added → positions of the buckets that reduce them."""


def draw_buckets(
    training: TrainingGraph, microbatches: int, element_bytes: int, calls: Sequence[tuple[int, float]]
) -> Iterator[BucketView]:
    """Yield the buckets of gradients.

    Parameters
    ----------
    element_bytes
        Bytes of an element of a gradient.
    calls
        Of each bucket: how many collectives one takes, and their seconds.
    """
    mesh = training.assignment.mesh
    for bucket, (collectives, seconds) in zip(training.buckets, calls, strict=True):
        layers = bucket.cuts[0][0]
        titles = [training.scopes[member.scope].assembly.title for member in bucket.members]
        yield BucketView(
            edges=tuple(f"{title}:{member.parameter}" for title, member in zip(titles, bucket.members, strict=True)),
            gradients=sum(layers or member.iterations for member in bucket.members), layers=layers, count=bucket.count,
            nbytes=bucket.elements(0, layers, mesh)[0] * element_bytes, seconds=seconds,
            collectives=collectives, runs=bucket.count * (1 if bucket.deferred else microbatches),
            calls=bucket.calls, deferred=bucket.deferred,
        )  # fmt: skip


def shared_buckets(training: TrainingGraph) -> Shared:
    """Return the positions of the buckets that each reduction of a parameter's gradient is in."""
    fanouts = [{fanout.value: fanout for fanout in scope.fanouts} for scope in training.scopes]
    found: dict[tuple[int, str, tuple[str, ...]], dict[int, None]] = {}
    for position, bucket in enumerate(training.buckets):
        for member in bucket.members:
            fanout = fanouts[member.scope][member.parameter]
            readers = tuple(fanout.readers[i].node for i in fanout.backward[member.way].readers)
            found.setdefault((member.scope, member.parameter, readers), {})[position] = None
    return {reduction: tuple(positions) for reduction, positions in found.items()}
