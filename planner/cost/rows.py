"""The collectives of a training step, one row for each step of each redistribution.

Forward and backward run once a layer and once a microbatch. That holds for the reductions of parameter gradients too:
they are reduced and added in their gradient layout after every microbatch. The phase `update` comes once a step:
deferred gradients are reduced, gradients go to where the optimizer's state lies, and new values go back to where they
are stored. A bucket of gradients has a row for each collective that it takes (`collectives.compressed`); the copies
that pack it are no collective, and an item of the step time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..collectives import COLLECTIVES
from ..core.assignment import Assembly, Delivery, Fanout, TrainingGraph, Update
from ..core.bucket import LOCAL
from ..core.cluster import ClusterSpec
from ..core.collective import Redistribution
from ..core.mesh import DeviceMesh
from ..core.plan import Precision
from ..core.report import OPTIMIZER, PHASES, STORAGE, CollectiveRow
from ..core.tensor import DTYPE_BYTES
from .buckets import bucket_rows
from .communication import step_seconds
from .work import itemsize


def collective_rows(
    training: TrainingGraph, microbatches: int, precision: Precision, cluster: ClusterSpec, compression: str = "none"
) -> tuple[CollectiveRow, ...]:
    """Return every collective of a step: all of forward, then all of backward, then those of the update.

    Buckets come in the order in which backward completes them.
    """
    rows: list[CollectiveRow] = []
    inside = {(m.scope, m.parameter, m.way) for bucket in training.buckets for m in bucket.members}
    for index, scope in enumerate(training.scopes):
        make = _Rows(training.assignment.mesh, cluster, scope.assembly.title, scope.assembly.count, microbatches)
        for fanout in scope.fanouts:
            ways = frozenset(way for way in range(len(fanout.backward)) if (index, fanout.value, way) in inside)
            rows += _moves(make, fanout, precision, ways)
        for update in scope.updates:
            rows += _updates(make, update, scope.assembly, precision)
    for bucket in training.buckets:
        rows += bucket_rows(training, bucket, microbatches, precision, cluster, compression)
    return tuple(sorted(rows, key=lambda row: PHASES.index(row.phase)))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Writes the rows of one scope."""

    mesh: DeviceMesh
    cluster: ClusterSpec
    title: str
    layers: int
    microbatches: int

    def __call__(
        self, value: str, readers: tuple[str, ...], moved: Redistribution, phase: str, bytes_each: int, *,
        parameter: bool, again: bool = False, local: bool = False,
    ) -> Iterator[CollectiveRow]:  # fmt: skip
        """Yield a row for each step of a redistribution, or for each that is local."""
        for step in moved.steps:
            if local and step.kind not in LOCAL:
                continue
            yield CollectiveRow(
                scope=self.title,
                phase=phase,
                value=value,
                readers=readers,
                kind=step.kind,
                axes=step.axes,
                group_size=step.group_size,
                payload_bytes=max(step.source_elements, step.target_elements) * step.itemsize(bytes_each),
                wire_bytes=COLLECTIVES[step.kind].received_bytes(step, self.mesh, bytes_each),
                seconds=step_seconds(step, bytes_each, self.mesh, self.cluster),
                count=self.layers * (1 if phase == "update" else self.microbatches),
                source=str(step.source),
                target=str(step.target),
                parameter=parameter,
                again=again,
            )


def _moves(make: _Rows, fanout: Fanout, precision: Precision, bucketed: frozenset[int]) -> Iterator[CollectiveRow]:
    """Yield the rows of a fan-out; of the backward deliveries that are in buckets, what they do by themselves."""
    size = itemsize(fanout.meta.dtype, precision)
    parameter = fanout.kind == "parameter"
    back = DTYPE_BYTES[precision.gradient] if parameter else size
    reducing = "update" if fanout.deferred else "backward"
    phases: list[tuple[str, bool, Delivery, int, bool]] = [("forward", False, d, size, False) for d in fanout.forward]
    phases += [("backward", True, d, size, False) for d in fanout.again]
    phases += [(reducing, False, d, back, way in bucketed) for way, d in enumerate(fanout.backward)]
    for phase, again, delivery, bytes_each, local in phases:
        readers = tuple(fanout.readers[i].node for i in delivery.readers)
        yield from make(
            fanout.value, readers, delivery.redistribution, phase, bytes_each, parameter=parameter, again=again,
            local=local,
        )  # fmt: skip


def _updates(make: _Rows, update: Update, assembly: Assembly, precision: Precision) -> Iterator[CollectiveRow]:
    placed = assembly.parameter(update.parameter)
    assert placed is not None
    for moved, reader, size in (
        (update.gradient, OPTIMIZER, DTYPE_BYTES[precision.gradient]),
        (update.values, STORAGE, itemsize(placed.parameter.meta.dtype, precision)),
    ):
        yield from make(update.parameter, (reader,), moved, "update", size, parameter=True)
