"""Complete a node's pinned factors by following the layouts in which its operands arrive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..core.chunk import lengths
from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh
from ..core.rule import Factors, ShardingRule
from ..core.strategy import fits


def follow(
    rule: ShardingRule,
    arriving: Mapping[int, Layout],
    pinned: Mapping[str, Axes],
    sizes: Mapping[str, int],
    mesh: DeviceMesh,
    taken: Axes = (),
) -> dict[str, Axes]:
    """Return axes for every factor: the pinned ones, and for the others what the operands bring, where it is legal.

    Earlier operands win over later ones, pins over both. An arriving axis that can't stay (pinned elsewhere, factor
    blocked, even and not divisible, or left too thin) is left to a redistribution. Partial sums are not followed: they
    are reduced before the node.

    Parameters
    ----------
    arriving
        Layout of each operand that is a value, by operand position.
    taken
        Axes that the node may not use, e.g. those that it keeps Partial.
    """
    factors: dict[str, Axes] = dict(pinned)
    used = {axis for axes in factors.values() for axis in axes} | set(taken)
    blocked = {name for name, _ in rule.blocked}
    least = dict(rule.least)
    for position, layout in sorted(arriving.items()):
        for dim, axes in zip(rule.operands[position], layout.dims, strict=True):
            for factor, share in _share(rule, dim, axes, sizes, mesh).items():
                free = tuple(axis for axis in share if axis not in used)
                if factor in factors or factor in blocked or free != share or not share:
                    continue
                if factor in least and min(lengths(sizes[factor], share, mesh)) < least[factor]:
                    continue
                if not all(fits(merged, factors | {factor: share}, sizes, mesh) for merged in _merged(rule, factor)):
                    continue
                factors[factor] = share
                used |= set(share)
    return factors


def _share(rule: ShardingRule, dim: Factors, axes: Axes, sizes: Mapping[str, int], mesh: DeviceMesh) -> dict[str, Axes]:
    """Hand a dim's axes to its factors, major first; a minor factor gets some only when the major is down to 1.

    A factor takes the axes that divide it, and the others too where unequal parts of it are those of the dim.
    """
    shares: dict[str, Axes] = {}
    rest = list(axes)
    for factor in dim:
        taken: list[str] = []
        extent = sizes[factor]
        while rest and extent % mesh.size(rest[0]) == 0:
            extent //= mesh.size(rest[0])
            taken.append(rest.pop(0))
        everything = (*taken, *rest)
        if rest and factor not in rule.even and fits(dim, shares | {factor: everything}, sizes, mesh):
            return shares | {factor: everything}
        shares[factor] = tuple(taken)
        if extent > 1:
            break
    return shares


def _merged(rule: ShardingRule, factor: str) -> Iterator[Factors]:
    """Yield the merged dims that `factor` is part of."""
    yield from (dim for tensor in (*rule.operands, *rule.results) for dim in tensor if factor in dim and len(dim) > 1)
