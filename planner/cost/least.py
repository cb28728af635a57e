"""What moving elements takes at least under the prices of `communication`, whatever the collective: a search's bound.

No rank gets data faster than by all its links at once, and no collective is over before its setup. An exchange whose
group of n ranks has m of them on each node sends at least (n−m)/(n−1) of what is received over the links between the
nodes: of r ≤ n−1 messages, min(r, n−m) cross.
"""

from __future__ import annotations

from ..core.cluster import ClusterSpec
from ..core.mesh import Axes, DeviceMesh
from .communication import Group


def least_seconds(cluster: ClusterSpec) -> tuple[float, float]:
    """Return the least seconds of a collective that is not local, and the least seconds by the received byte."""
    intra, inter = cluster.intra, cluster.inter
    rate = intra.bandwidth * intra.efficiency
    if cluster.nodes == 1:
        return intra.setup_s + intra.latency_s, 1 / max(rate, intra.bandwidth * intra.in_switch_efficiency)
    setup = min(intra.setup_s + intra.latency_s, inter.setup_s + inter.latency_s)
    both = rate + inter.bandwidth * inter.efficiency
    return setup, 1 / max(both, intra.bandwidth * intra.in_switch_efficiency)


def least_exchange_seconds(axes: Axes, mesh: DeviceMesh, cluster: ClusterSpec) -> tuple[float, float]:
    """Return the least seconds of an exchange within groups over some axes, and by the received byte."""
    group = Group.of(mesh, axes, cluster)
    intra, inter = cluster.intra, cluster.inter
    rate = intra.bandwidth * intra.efficiency
    if group.nodes == 1:
        return intra.setup_s + intra.latency_s, 1 / rate
    crossing = (group.size - group.members) / (group.size - 1)
    outside = crossing / (inter.bandwidth * inter.efficiency)
    inside = 1 / (rate + inter.bandwidth * inter.efficiency)
    return inter.setup_s + inter.latency_s, max(outside, inside)
