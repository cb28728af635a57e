"""What no redistribution can do without: what a rank needs minus what it holds, and what a sum costs to finish.

Without partial axes the bound is exact: a rank receives at least the elements of its target box that it does not hold,
and the direct exchange receives no more.

Finishing a sum has a bound of its own. Take one element, n ≥ 2 ranks with different contributions to it (and maybe
copies of these), and the w ranks that want their sum. A message carries one number, and no adding is done inside the
network. The first rank that can know the sum has heard, by way of others, from all n contributions: these messages
connect n ranks, so there are at least n − 1. Every other rank that wants the sum receives a message later, or at the
same time, that none of these came from. So at least n + w − 2 are received, and on average over ranks

```text
received ≥ elements · (n + w − 2) / ranks        received(r) ≥ |T(r)|, one message for each element that r wants
```

A ring all-reduce over all ranks (w = n) receives 2(n−1)/n, a reduce-scatter (w = 1) (n−1)/n of the tensor: just this.
Where some partial axes are kept, the sum may be split over their coordinates in many ways; what is left of the argument
is that the messages connect K·n contributions to at most K ranks, so at least K·(n − 1) are received.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..collectives.boxes import demand
from ..core.layout import Layout
from ..core.mesh import DeviceMesh


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What the busiest rank receives at least.

    Parameters
    ----------
    elements
        Elements; a fraction where ranks share an odd number.
    sums
        Whether it is the bound of finishing sums, which not every redistribution can reach; without sums the exchange
        always does.
    """

    elements: float
    sums: bool


def bound(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Bound | None:
    """Return what the busiest rank receives at least; None where the target is partial over axes that the source isn't.

    Raises
    ------
    LayoutError
        `layout.rank-mismatch`, `mesh.axis-unknown`.
    """
    source.local_shape(shape, mesh)
    target.local_shape(shape, mesh)
    mesh.size_of(source.used | target.used)
    before, after = source.normal(mesh), target.normal(mesh)
    if before == after:
        return Bound(elements=0, sums=False)
    if not before.partial and not after.partial:
        return Bound(elements=demand(before, after, shape, mesh).received, sums=False)
    if not set(after.partial) <= set(before.partial):
        return None
    leaving = mesh.size_of(a for a in before.partial if a not in after.partial)
    if leaving == 1:
        return None
    if after.partial:
        kept = mesh.size_of(after.partial)
        return Bound(elements=prod(shape) * kept * (leaving - 1) / mesh.device_count, sums=True)
    copies = mesh.device_count // mesh.size_of(after.sharded)
    total = summing_elements(shape, leaving, copies) / mesh.device_count
    return Bound(elements=max(total, after.local_elements(shape, mesh)), sums=True)


def summing_elements(shape: tuple[int, ...], contributions: int, copies: int) -> int:
    """Return what all ranks together receive at least to finish the sums of a tensor.

    Parameters
    ----------
    contributions
        Different partial results of an element.
    copies
        Ranks that want the sum of an element.
    """
    return prod(shape) * (contributions + copies - 2)


def lower_bound_elements(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> int | None:
    """Return the elements that the neediest rank must receive; None if a layout has partial axes."""
    found = bound(source, target, shape, mesh)
    return None if found is None or found.sums else int(found.elements)
