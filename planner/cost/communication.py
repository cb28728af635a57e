r"""How long a collective takes: latency and bandwidth on a cluster of two tiers.

A group of n ranks has m of them on each node that it touches, N = n/m nodes. α is the latency of a link, B its achieved
bandwidth per device (`bandwidth · efficiency`), α₁, B₁ inside a node and α₂, B₂ between nodes; setup is what any
collective takes before its first message. R is what a rank receives (`COLLECTIVES`), S the whole buffer.

=================== =====================================================================================
ring                setup + (n−N)·α₁ + (N−1)·α₂ + R/B, with B = B₁ inside a node, else min(B₁, m·B₂)
tree of gathers     one rank a node: setup + ⌈log₂n⌉·α₂ + R/B₂
all-reduce, ring    twice the hops and the bytes of the ring (reduce-scatter, then all-gather)
all-reduce, switch  inside a node: S/B with B = bandwidth · in_switch_efficiency, hops as the ring
all-reduce, short   inside a node: setup + 2·⌈log₂n⌉·α₁ + 2·S/B₁, a tree up and down, for buffers where hops count
all-reduce, tree    setup + 2(m−1)·α₁ + 2·⌈log₂N⌉·α₂ + max(time inside a node, 2(N−1)/N·S/m / B₂)
pairwise            setup + (r−q)·α₁ + q·α₂ + max(R·(1−q/r)/B₁, R·q/r / B₂): all-to-all, exchange and permute, in r
                    messages a rank (n−1 for all-to-all, 1 for permute), of which up to q = min(r, n−m) leave the node;
                    also all-gather and reduce-scatter of unequal parts, which run so and not as rings
local               a copy: (bytes read + bytes written) / memory bandwidth
added in a wider    as the same with elements of that type, and two copies: to it and back
type
=================== =====================================================================================

A collective takes the fastest of its algorithms, as NCCL's tuner does. In a ring over nodes one rank of each node
receives from the next node, and NCCL runs m such rings, each over another adapter: hence m·B₂. The tree's two tiers
work on different pieces at once: hence the maximum. The tree of gathers takes more messages than ⌈log₂n⌉ where its
buffers are too small, which is at sizes at which latency is the smaller part.

Sources: rings and halving-doubling: Thakur, Rabenseifner, Gropp 2005, "Optimization of Collective Communication
Operations in MPICH", sections 4.1–4.5. Their bandwidth bound: Patarasuk, Yuan 2009, "Bandwidth optimal all-reduce
algorithms for clusters of workstations". Bytes per collective and "bus bandwidth": NVIDIA nccl-tests, PERFORMANCE.md.
Tree of gathers: Jeaugey 2025, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale",
arXiv:2506.20252. Hop latencies, rings over adapters, trees over nodes, reduction in the switch (NVLS): NCCL's
`tuning.cc`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..collectives import COLLECTIVES
from ..collectives.compressed import Passed
from ..collectives.definition import even
from ..collectives.handover import handover_demand
from ..core.cluster import ClusterSpec, LinkSpec
from ..core.collective import Step
from ..core.crossing import VIEW, Leg
from ..core.mesh import Axes, DeviceMesh


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The ranks of a collective: how many, and how many of them share a node."""

    size: int
    members: int

    @property
    def nodes(self) -> int:
        """Number of nodes that it touches."""
        return -(-self.size // self.members)

    @staticmethod
    def of(mesh: DeviceMesh, axes: Axes, cluster: ClusterSpec) -> Group:
        """Return the groups that several mesh axes make on a cluster; they are all alike."""
        members = mesh.members_per_node(axes, cluster.devices_per_node)
        return Group(size=mesh.size_of(axes), members=members)


def step_seconds(step: Step, dtype_bytes: int, mesh: DeviceMesh, cluster: ClusterSpec) -> float:
    """Return the seconds of one step of a redistribution.

    Parameters
    ----------
    dtype_bytes
        Bytes of an element.
    """
    definition = COLLECTIVES[step.kind]
    if definition.local:
        read = min(step.source_elements, step.target_elements)
        return copy_seconds((read + step.target_elements) * dtype_bytes, cluster)
    group = Group.of(mesh, step.axes, cluster)
    received = definition.received_bytes(step, mesh, dtype_bytes)
    widening = _widening_seconds(step, dtype_bytes, cluster)
    match step.kind:
        case "all_reduce":
            return widening + all_reduce_seconds(step.source_elements * step.itemsize(dtype_bytes), group, cluster)
        case "all_gather" | "reduce_scatter" if even(step, mesh):
            return widening + gather_seconds(received, group, cluster)
        case _:
            moved = max(received, definition.sent_bytes(step, mesh, dtype_bytes))
            return pairwise_seconds(moved, definition.rounds(step, mesh), group, cluster)


def _widening_seconds(step: Step, dtype_bytes: int, cluster: ClusterSpec) -> float:
    """Return the seconds in which summands are widened before they are added, and the sum is rounded after it."""
    if not step.added_in:
        return 0.0
    both = dtype_bytes + step.itemsize(dtype_bytes)
    return sum(copy_seconds(elements * both, cluster) for elements in (step.source_elements, step.target_elements))


def passed_seconds(passed: Passed, axes: Axes, mesh: DeviceMesh, cluster: ClusterSpec) -> float:
    """Return the seconds of one collective of a bucket of gradients: all its parts are equal."""
    group = Group.of(mesh, axes, cluster)
    match passed.kind:
        case "all_reduce":
            return all_reduce_seconds(passed.source_bytes, group, cluster)
        case "all_to_all":
            return pairwise_seconds(passed.received_bytes, group.size - 1, group, cluster)
        case _:
            return gather_seconds(passed.received_bytes, group, cluster)


def leg_seconds(leg: Leg, dtype_bytes: int, cluster: ClusterSpec) -> float:
    """Return the seconds of one leg of a crossing: a handover is pairwise among all ranks, a view takes none."""
    if leg.step is not None:
        return step_seconds(leg.step, dtype_bytes, leg.source.mesh, cluster)
    if leg.kind == VIEW:
        return 0.0
    wanted = handover_demand(leg.source, leg.target)
    mesh = leg.source.mesh
    moved = max(wanted.received, wanted.sent) * dtype_bytes
    return pairwise_seconds(moved, wanted.pieces, Group.of(mesh, mesh.names, cluster), cluster)


def gather_seconds(received: float, group: Group, cluster: ClusterSpec) -> float:
    """Return the seconds of an all-gather or reduce-scatter in which each rank receives `received` bytes."""
    link = cluster.intra if group.nodes == 1 else cluster.inter
    hops = _ring_hops(group, cluster)
    if group.members == 1:
        hops = min(hops, _tree_depth(group.nodes) * link.latency_s)
    return link.setup_s + hops + received / _ring_bandwidth(group, cluster)


def all_reduce_seconds(buffer: float, group: Group, cluster: ClusterSpec) -> float:
    """Return the seconds of an all-reduce of `buffer` bytes, by the fastest of its algorithms."""
    if group.nodes == 1:
        link = cluster.intra
        ring = 2 * _ring_hops(group, cluster) + _inside(buffer, group.size, link)
        short = 2 * _tree_depth(group.size) * link.latency_s + 2 * buffer / _achieved(link)
        return link.setup_s + min(ring, short)
    received = 2 * (group.size - 1) / group.size * buffer
    ring = 2 * _ring_hops(group, cluster) + received / _ring_bandwidth(group, cluster)
    crossing = 2 * (group.nodes - 1) / group.nodes * buffer / group.members
    tree = (
        2 * (group.members - 1) * cluster.intra.latency_s
        + 2 * _tree_depth(group.nodes) * cluster.inter.latency_s
        + max(_inside(buffer, group.members, cluster.intra), crossing / _achieved(cluster.inter))
    )
    return cluster.inter.setup_s + min(ring, tree)


def pairwise_seconds(moved: float, rounds: int, group: Group, cluster: ClusterSpec) -> float:
    """Return the seconds of an all-to-all or exchange.

    Parameters
    ----------
    moved
        Bytes that the busiest rank receives or sends, whichever is more, in messages of one size.
    rounds
        Messages of that rank; the worst case is taken, in which as many as possible leave the node.
    """
    if rounds == 0:
        return 0.0
    crossing = min(rounds, group.size - group.members)
    link = cluster.intra if group.nodes == 1 else cluster.inter
    hops = (rounds - crossing) * cluster.intra.latency_s + crossing * cluster.inter.latency_s
    outside = moved * crossing / rounds
    inside_s, outside_s = (moved - outside) / _achieved(cluster.intra), outside / _achieved(cluster.inter)
    return link.setup_s + hops + max(inside_s, outside_s)


def copy_seconds(moved: float, cluster: ClusterSpec) -> float:
    """Return the seconds in which a device reads and writes `moved` bytes of its memory together."""
    device = cluster.device
    bandwidth = device.memory_bandwidth * device.memory_efficiency
    return max(device.kernel_floor_s, moved / bandwidth)


def _achieved(link: LinkSpec) -> float:
    return link.bandwidth * link.efficiency


def _tree_depth(leaves: int) -> int:
    return (leaves - 1).bit_length()


def _ring_hops(group: Group, cluster: ClusterSpec) -> float:
    inside = (group.size - group.nodes) * cluster.intra.latency_s
    return inside + (group.nodes - 1) * cluster.inter.latency_s


def _ring_bandwidth(group: Group, cluster: ClusterSpec) -> float:
    if group.nodes == 1:
        return _achieved(cluster.intra)
    between = group.members * _achieved(cluster.inter)
    return between if group.members == 1 else min(_achieved(cluster.intra), between)


def _inside(buffer: float, members: int, link: LinkSpec) -> float:
    """Return the seconds, without latency, of an all-reduce of `buffer` bytes among the ranks of one node."""
    ring = 2 * (members - 1) / members * buffer / _achieved(link)
    if members < 3 or not link.in_switch_efficiency:
        return ring
    return min(ring, buffer / (link.bandwidth * link.in_switch_efficiency))
