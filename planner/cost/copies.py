"""The gradients of parameters that several ranks of a pipeline hold: added over all copies, once a step.

Stages that read one parameter, such as a tied embedding, hold a copy each; a schedule of two directions puts each part
of the model on two ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..core.assignment import Scope, TrainingGraph
from ..core.cluster import ClusterSpec
from ..core.plan import Precision
from ..core.report import CollectiveRow
from ..core.stage import plain
from ..core.tensor import DTYPE_BYTES
from .communication import Group, all_reduce_seconds


def copy_rows(
    portions: Sequence[TrainingGraph], places: Sequence[tuple[int, ...]], axis: str, precision: Precision,
    cluster: ClusterSpec,
) -> tuple[tuple[CollectiveRow, ...], ...]:  # fmt: skip
    """Return, for each part of the model, the reductions among ranks that hold copies of its parameters.

    Parameters
    ----------
    portions
        Training graph of each part.
    places
        Ranks along the pipeline's axis that hold each part.
    """
    owners: dict[str, set[int]] = {}
    for part, held in zip(portions, places, strict=True):
        for name in _trained(part):
            owners.setdefault(plain(name), set()).update(held)
    size = DTYPE_BYTES[precision.gradient]
    return tuple(tuple(_rows(part, owners, axis, size, cluster)) for part in portions)


def _trained(part: TrainingGraph) -> Iterator[str]:
    for scope in part.scopes:
        yield from (p.parameter.name for p in scope.assembly.parameters if p.parameter.trainable)


def _rows(
    part: TrainingGraph, owners: dict[str, set[int]], axis: str, size: int, cluster: ClusterSpec
) -> Iterator[CollectiveRow]:
    mesh, symbols = part.assignment.mesh, part.assignment.symbols
    whole = Group.of(mesh, (axis,), cluster)
    for scope in part.scopes:
        for placed in scope.assembly.parameters:
            count = len(owners.get(plain(placed.parameter.name), ()))
            if count < 2:
                continue
            elements = placed.gradient.local_elements(placed.parameter.meta.concrete(symbols), mesh)
            # Copies lie apart: on one node only where the whole pipeline is.
            group = Group(size=count, members=count if whole.nodes == 1 else 1)
            seconds = all_reduce_seconds(elements * size, group, cluster)
            yield _row(scope, placed.parameter.name, axis, count, elements * size, seconds, str(placed.gradient))


def _row(scope: Scope, name: str, axis: str, owners: int, nbytes: int, seconds: float, layout: str) -> CollectiveRow:
    return CollectiveRow(
        scope=scope.assembly.title, phase="update", value=name, readers=("its copies",), kind="all_reduce",
        axes=(axis,), group_size=owners, payload_bytes=nbytes, wire_bytes=2 * (owners - 1) / owners * nbytes,
        seconds=seconds, count=scope.assembly.count, source=layout, target=layout, parameter=True,
    )  # fmt: skip
