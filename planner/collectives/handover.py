"""The direct exchange from one holding to another: between meshes over the same ranks, and through a reshape.

Within a holding two parts are equal or disjoint. For a source part with owners O and a target part with readers W,

```text
received(r) = |T(r)| - |T(r) ∩ S(r)|
sent(o)     = sum over target parts of |S ∩ T| · |W - O| / |O|
```

since readers that own the elements need nothing, and the owners share the rest equally. Owners and readers are taken in
the order of ranks, and each owner serves the next stretch of the demand: of all ways to share it equally this one has
the least total distance between ranks. The sets are those of `collectives.holdings`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..core.crossing import VIEW, Holding, Leg
from ..errors import LayoutError
from . import COLLECTIVES
from .boxes import Demand
from .definition import World
from .holdings import Array, Parts, common_count, parts_of, spans


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What one rank sends to another: a stretch of the elements that a source part and a target part share.

    Parameters
    ----------
    source, target
        Positions of the parts in `Parts.members`.
    start, stop
        Of the shared elements in row-major order.
    """

    sender: int
    receiver: int
    source: int
    target: int
    start: int
    stop: int


def handover_demand(source: Holding, target: Holding) -> Demand:
    """Return what the busiest rank of a handover moves.

    Raises
    ------
    LayoutError
        `handover.partial` for partial values, `handover.ranks` for other ranks, `handover.runs` where a reshape
        would scatter parts over too many runs, `handover.elements` for tensors too large to count; `reshape.elements`.
    """
    shared, before, after = _overlaps(source, target)
    kept = shared[before.of_rank, after.of_rank]
    wanted = np.array([after.elements(j) for j in range(len(after.members))], np.int64)[after.of_rank]
    owners, lacking = _counts(before, after)
    sent = (shared * lacking / owners[:, None]).sum(axis=1)
    touched = shared > 0
    # Parts that come to a rank. What several owners send of one part travels at the same time and counts once.
    come = touched.sum(axis=0)[after.of_rank] - (kept > 0)
    go = -(-(touched * lacking).sum(axis=1) // owners)
    rounds = int(max(come.max(), go.max()))
    return Demand(received=int((wanted - kept).max()), sent=float(sent.max()), pieces=rounds)


def leg_received(leg: Leg) -> float:
    """Return the elements that the busiest rank receives in a leg of a crossing."""
    if leg.step is not None:
        return COLLECTIVES[leg.kind].received(leg.step, leg.source.mesh)
    return 0.0 if leg.kind == VIEW else handover_demand(leg.source, leg.target).received


@lru_cache(maxsize=64)
def handover_messages(source: Holding, target: Holding) -> tuple[Message, ...]:
    """Return every message, ordered by source part, target part and sender; errors as `handover_demand`."""
    shared, before, after = _overlaps(source, target)
    messages = []
    for i, j in np.argwhere(shared > 0).tolist():
        owners = before.members[i]
        needy = [rank for rank in after.members[j] if rank not in owners]
        size = int(shared[i, j])
        for position, owner in enumerate(owners):
            begin = position * size * len(needy) // len(owners)
            end = (position + 1) * size * len(needy) // len(owners)
            while begin < end:
                reader, offset = divmod(begin, size)
                stop = min(size, offset + end - begin)
                messages.append(
                    Message(sender=owner, receiver=needy[reader], source=i, target=j, start=offset, stop=stop)
                )
                begin += stop - offset
    return tuple(messages)


def run_handover(source: Holding, target: Holding, world: World) -> World:
    """Return what every rank holds after a handover; errors as `handover_demand`."""
    shared, before, after = _overlaps(source, target)
    places = _Places(before, after)
    out: World = [np.zeros(target.local_shape(rank), array.dtype) for rank, array in enumerate(world)]
    for rank, (i, j) in enumerate(zip(before.of_rank.tolist(), after.of_rank.tolist(), strict=True)):
        if shared[i, j]:
            there, here = places.of(i, j)
            out[rank].reshape(-1)[here] = world[rank].reshape(-1)[there]
    for message in handover_messages(source, target):
        there, here = places.of(message.source, message.target)
        stretch = slice(message.start, message.stop)
        out[message.receiver].reshape(-1)[here[stretch]] = world[message.sender].reshape(-1)[there[stretch]]
    return out


@lru_cache(maxsize=64)
def _overlaps(source: Holding, target: Holding) -> tuple[Array, Parts, Parts]:
    """Return how many elements each source part shares with each target part, and the parts."""
    for holding in (source, target):
        if holding.layout.partial:
            raise LayoutError(
                "handover.partial",
                f"A handover from {source.layout} to {target.layout} can't reduce or make partial results.",
                "Reduce them before it, or make them after it.",
            )
    if source.mesh.device_count != target.mesh.device_count:
        raise LayoutError(
            "handover.ranks",
            f"The mesh {source.mesh} has {source.mesh.device_count} ranks, the mesh {target.mesh} has "
            f"{target.mesh.device_count}.",
            "Give meshes over the same ranks.",
        )
    cut = spans(source.shape, target.shape)
    before = parts_of(source, [span for span, _ in cut])
    after = parts_of(target, [span for _, span in cut])
    shared = np.ones((len(before.members), len(after.members)), np.int64)
    for k, (mine, theirs) in enumerate(zip(before.sets, after.sets, strict=True)):
        common = np.array([[common_count(a, b) for b in theirs] for a in mine], np.int64)
        shared *= common[np.ix_([chosen[k] for chosen in before.chosen], [chosen[k] for chosen in after.chosen])]
    shared.flags.writeable = False
    return shared, before, after


def _counts(before: Parts, after: Parts) -> tuple[Array, Array]:
    """Return the number of owners of every source part, and of readers of a target part that are none of them."""
    owners = np.array([len(members) for members in before.members], np.int64)
    readers = np.array([len(members) for members in after.members], np.int64)
    both = np.zeros((len(owners), len(readers)), np.int64)
    np.add.at(both, (before.of_rank, after.of_rank), 1)
    return owners, readers - both


class _Places:
    """Where the shared elements of two parts lie in the arrays of an owner and of a reader, in row-major order."""

    def __init__(self, before: Parts, after: Parts) -> None:
        self.before, self.after = before, after
        self.known: dict[tuple[int, int, int], tuple[Array, Array]] = {}

    def of(self, source: int, target: int) -> tuple[Array, Array]:
        """Return the places of two parts."""
        there, here = np.zeros(1, np.int64), np.zeros(1, np.int64)
        for k, (a, b) in enumerate(zip(self.before.chosen[source], self.after.chosen[target], strict=True)):
            mine, theirs = self.before.sets[k][a], self.after.sets[k][b]
            if (k, a, b) not in self.known:
                _, in_a, in_b = np.intersect1d(
                    mine.elements(), theirs.elements(), assume_unique=True, return_indices=True
                )
                self.known[k, a, b] = in_a, in_b
            in_a, in_b = self.known[k, a, b]
            there = (there[:, None] * mine.count + in_a).reshape(-1)
            here = (here[:, None] * theirs.count + in_b).reshape(-1)
        return there, here
