"""Sum-exchange: from any layout to any other where partial sums are finished or made on the way.

Every rank receives the summands that it lacks of all that it wants, and adds them. Where sums are made, each value goes
to one of the ranks that will hold summands: the one at the coordinate of its owners, so that most stays where it is.
So input and output are all that is alive, while a reduce-scatter before an exchange, or a pad after one, may pass by
parts that are larger than both ends.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from ..core.collective import Step
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..errors import LayoutError
from . import checks
from .boxes import Demand, moved_axes
from .definition import Call, CollectiveDef, groups, moved_group
from .exchange import exchanged
from .messages import transfers


def _apply(layout: Layout, mesh: DeviceMesh, call: Call) -> Layout:
    target = call.target
    if target is None:
        raise LayoutError("collective.no-target", f"sum_exchange on {layout} names no target.", "Give a layout.")
    checks.same_rank("sum_exchange", layout, target)
    checks.sums("sum_exchange", layout)
    checks.sums("sum_exchange", target)
    if layout.normal(mesh).partial == target.normal(mesh).partial:
        raise LayoutError(
            "collective.partial-kept",
            f"sum_exchange from {layout} to {target} neither finishes sums nor makes any.",
            "Use an exchange.",
        )
    return target


@lru_cache(maxsize=1 << 12)
def summands(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Demand:
    """Return what the busiest rank moves, by counting all messages."""
    received: Counter[int] = Counter()
    sent: Counter[int] = Counter()
    incoming: Counter[int] = Counter()
    outgoing: Counter[int] = Counter()
    alike = source.even(shape, mesh) and target.even(shape, mesh)
    for group in groups(mesh, moved_axes(source, target, shape, mesh))[: 1 if alike else None]:
        for message in transfers(source, target, shape, mesh, group):
            size = message.stop - message.start
            received[message.receiver] += size
            sent[message.sender] += size
            incoming[message.receiver] += 1
            outgoing[message.sender] += 1
    most = (max(counts.values(), default=0) for counts in (received, sent, incoming, outgoing))
    elements, passed, *pieces = most
    return Demand(received=elements, sent=passed, pieces=max(pieces))


def _summands(step: Step, mesh: DeviceMesh) -> Demand:
    return summands(step.source, step.target, step.shape, mesh)


def _received(step: Step, mesh: DeviceMesh) -> int:
    return _summands(step, mesh).received


def _sent(step: Step, mesh: DeviceMesh) -> float:
    return _summands(step, mesh).sent


def _rounds(step: Step, mesh: DeviceMesh) -> int:
    return _summands(step, mesh).pieces


def _staging(step: Step, mesh: DeviceMesh) -> int:
    moved = _summands(step, mesh)
    return int(moved.received + moved.sent)


SUM_EXCHANGE = CollectiveDef(
    name="sum_exchange",
    summary="Every rank receives the summands that it lacks of what it wants, from whoever holds them, and adds them.",
    local=False,
    dual="exchange",
    apply=_apply,
    group=moved_group,
    received=_received,
    sent=_sent,
    rounds=_rounds,
    staging=_staging,
    run=exchanged,
)
