"""The items of a device's memory, and one thing that lies in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

PARAMETERS = "parameters"
GRADIENTS = "gradients"
OPTIMIZER = "optimizer state"
ACTIVATIONS = "saved activations"
GATHERED = "gathered parameters"
RECOMPUTED = "recomputed activations"
LOSS = "logits and loss"
TRANSIENT = "transient"
RESERVED = "reserved"
SOMETIMES = frozenset({RECOMPUTED})
"""Items that are named only where there is something."""
ITEMS = (PARAMETERS, GRADIENTS, OPTIMIZER, ACTIVATIONS, RECOMPUTED, GATHERED, LOSS, TRANSIENT, RESERVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One thing that lies in memory: `count` times `nbytes`.

    Parameters
    ----------
    item
        The item of the memory report that it belongs to, one of `ITEMS`.
    scope
        Title of its scope.
    name
        The value, parameter or operator.
    note
        Its layout, or why it is there.
    """

    item: str
    scope: str
    name: str
    note: str
    nbytes: float
    count: int = 1

    @property
    def total(self) -> float:
        """Bytes of all layers together."""
        return self.nbytes * self.count


def memory_bytes(things: Iterable[Held]) -> dict[str, float]:
    """Return the bytes of every item, in the order of `ITEMS`; what only some plans have is in it if there is any."""
    totals = dict.fromkeys(ITEMS, 0.0)
    for thing in things:
        totals[thing.item] += thing.total
    return {item: total for item, total in totals.items() if total or item not in SOMETIMES}
