"""The collectives of a training step, one row for each step of each redistribution.

Everything runs once a layer and once a microbatch. That holds for the reductions of parameter gradients too: gradients
are reduced and added in their gradient layout after every microbatch (keeping them partial until the last one would
save time and cost memory; it is not planned yet).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..collectives import COLLECTIVES
from ..core.assignment import Delivery, Fanout, TrainingGraph
from ..core.cluster import ClusterSpec
from ..core.plan import Precision
from ..core.report import CollectiveRow
from ..core.tensor import DTYPE_BYTES
from .communication import step_seconds
from .work import itemsize


def collective_rows(
    training: TrainingGraph, microbatches: int, precision: Precision, cluster: ClusterSpec
) -> tuple[CollectiveRow, ...]:
    """Return every collective of a step: all of forward, then all of backward."""
    rows = [
        row
        for scope in training.scopes
        for fanout in scope.fanouts
        for row in _rows(training, scope.assembly.title, scope.assembly.count, fanout, microbatches, precision, cluster)
    ]
    return tuple(sorted(rows, key=lambda row: row.phase == "backward"))


def _rows(
    training: TrainingGraph,
    title: str,
    count: int,
    fanout: Fanout,
    microbatches: int,
    precision: Precision,
    cluster: ClusterSpec,
) -> Iterator[CollectiveRow]:
    mesh = training.assignment.mesh
    size = itemsize(fanout.meta.dtype, precision)
    parameter = fanout.kind == "parameter"
    back = DTYPE_BYTES[precision.gradient] if parameter else size
    phases: list[tuple[str, bool, Delivery, int]] = [("forward", False, d, size) for d in fanout.forward]
    phases += [("backward", True, d, size) for d in fanout.again]
    phases += [("backward", False, d, back) for d in fanout.backward]
    for phase, again, delivery, bytes_each in phases:
        for step in delivery.redistribution.steps:
            yield CollectiveRow(
                scope=title,
                phase=phase,
                value=fanout.value,
                readers=tuple(fanout.readers[i].node for i in delivery.readers),
                kind=step.kind,
                axes=step.axes,
                group_size=step.group_size,
                payload_bytes=max(step.source_elements, step.target_elements) * bytes_each,
                wire_bytes=COLLECTIVES[step.kind].received_bytes(step, mesh, bytes_each),
                seconds=step_seconds(step, bytes_each, mesh, cluster),
                count=count * microbatches,
                source=str(step.source),
                target=str(step.target),
                parameter=parameter,
                again=again,
            )
