"""Closed forms of the collectives, worked by hand on a cluster of round numbers.

Inside a node 100 GB/s and 1 µs a hop, between nodes 10 GB/s and 10 µs, no setup, four devices a node.
"""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.collectives import COLLECTIVES
from planner.core.cluster import ClusterSpec, LinkSpec
from planner.core.collective import Redistribution
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.cost.communication import (
    Group,
    all_reduce_seconds,
    copy_seconds,
    gather_seconds,
    pairwise_seconds,
    step_seconds,
)
from planner.hardware import HARDWARE, cluster

US = 1e-6
INTRA = LinkSpec(name="inside", bandwidth=100e9, latency_s=1 * US, efficiency=1.0)
INTER = LinkSpec(name="between", bandwidth=10e9, latency_s=10 * US, efficiency=1.0)
ROUND = ClusterSpec(
    name="round", nodes=8, devices_per_node=4, device=HARDWARE["h100-sxm"].device, intra=INTRA, inter=INTER
)
MB = 1e6


@pytest.mark.parametrize(
    ("kind", "target", "out"), [("all_reduce", "[-]", 50 * MB), ("reduce_scatter", "[tp]", 12.5 * MB)]
)
def test_summands_are_widened_and_the_sum_is_rounded(kind: str, target: str, out: float) -> None:
    mesh, elements = DeviceMesh.of({"dp": 8, "tp": 4}), int(50 * MB)
    dim = {"dim": 0} if kind == "reduce_scatter" else {}
    plain = COLLECTIVES[kind].step(Layout.parse("[-] +tp"), (elements,), mesh, axes=("tp",), **dim)
    wide = replace(plain, added_in="float32")
    assert str(wide.target) == target
    # What is passed has 4 bytes; 2 are read and 4 written before it, 4 and 2 after it.
    copies = copy_seconds(elements * 6, ROUND) + copy_seconds(out * 6, ROUND)
    assert step_seconds(wide, 2, mesh, ROUND) == pytest.approx(step_seconds(plain, 4, mesh, ROUND) + copies)
    assert step_seconds(wide, 2, mesh, ROUND) > step_seconds(plain, 2, mesh, ROUND)
    assert COLLECTIVES[kind].received_bytes(wide, mesh, 2) == COLLECTIVES[kind].received_bytes(plain, mesh, 4)
    moved = Redistribution(source=wide.source, target=wide.target, shape=wide.shape, steps=(wide,))
    buffers = {"all_reduce": 4 * elements, "reduce_scatter": 4 * elements + 4 * out}[kind]
    assert moved.peak_bytes(2) == 2 * (elements + out) + buffers
    assert replace(moved, steps=(plain,)).peak_bytes(2) == 2 * moved.peak_elements == 2 * (elements + out)


def test_groups_of_two_tiers():
    mesh = DeviceMesh.of({"dp": 8, "tp": 4})
    assert Group.of(mesh, ("tp",), ROUND) == Group(size=4, members=4)
    assert Group.of(mesh, ("dp",), ROUND) == Group(size=8, members=1)
    assert Group.of(mesh, ("dp", "tp"), ROUND) == Group(size=32, members=4)
    across = DeviceMesh.of({"dp": 4, "tp": 8})
    assert Group.of(across, ("tp",), ROUND) == Group(size=8, members=4)
    assert Group.of(across, ("tp",), ROUND).nodes == 2
    # Neighbouring ranks of an outer axis share a node when the inner axis is small.
    small = DeviceMesh.of({"dp": 16, "tp": 2})
    assert Group.of(small, ("dp",), ROUND) == Group(size=16, members=2)


def test_ring_inside_a_node():
    # 3 hops of 1 µs; 4 ranks gather 100 MB, so each receives 75 MB at 100 GB/s: 750 µs.
    assert gather_seconds(75 * MB, Group(size=4, members=4), ROUND) == pytest.approx(753 * US)


def test_gathers_of_one_rank_a_node_take_a_tree():
    # log2(8) hops of 10 µs, where a ring has 7; 70 MB at 10 GB/s: 7,000 µs.
    assert gather_seconds(70 * MB, Group(size=8, members=1), ROUND) == pytest.approx(7030 * US)
    assert gather_seconds(70 * MB, Group(size=5, members=1), ROUND) == pytest.approx(7030 * US)
    assert gather_seconds(70 * MB, Group(size=2, members=1), ROUND) == pytest.approx(7010 * US)


def test_ring_over_whole_nodes_uses_every_adapter():
    # 8 ranks on 2 nodes: 6 hops inside, 1 between; four adapters of 10 GB/s: 70 MB in 1,750 µs.
    assert gather_seconds(70 * MB, Group(size=8, members=4), ROUND) == pytest.approx(1766 * US)
    # With adapters as fast as the links inside, those are the limit.
    fast = replace(ROUND, inter=replace(INTER, bandwidth=100e9))
    assert gather_seconds(70 * MB, Group(size=8, members=4), fast) == pytest.approx((16 + 700) * US)


def test_ring_all_reduce_inside_a_node_is_twice_the_ring():
    group = Group(size=4, members=4)
    assert all_reduce_seconds(100 * MB, group, ROUND) == pytest.approx(2 * gather_seconds(75 * MB, group, ROUND))
    assert all_reduce_seconds(100 * MB, group, ROUND) == pytest.approx(1506 * US)


def test_a_switch_that_reduces_takes_the_buffer_once():
    switch = replace(ROUND, intra=replace(INTRA, in_switch_efficiency=0.8))
    # 6 hops of 1 µs; 100 MB at 80 GB/s: 1,250 µs against the ring's 1,500.
    assert all_reduce_seconds(100 * MB, Group(size=4, members=4), switch) == pytest.approx(1256 * US)
    # Two ranks exchange halves: the ring takes 1,000 µs.
    assert all_reduce_seconds(100 * MB, Group(size=2, members=2), switch) == pytest.approx(1002 * US)


def test_small_all_reduce_inside_a_node_takes_a_tree():
    # 2·log2(4) hops of 1 µs where the ring takes 6, and 8 kB up and down at 100 GB/s.
    assert all_reduce_seconds(8e3, Group(size=4, members=4), ROUND) == pytest.approx((4 + 0.16) * US)


def test_one_small_all_reduce_is_cheaper_than_one_an_axis():
    spec = cluster("1x8-h100-sxm")
    two, four, eight = (all_reduce_seconds(8192, Group(size=n, members=n), spec) for n in (2, 4, 8))
    assert eight < two + four


def test_all_reduce_over_single_ranks_takes_the_tree_when_small():
    group = Group(size=8, members=1)
    # Tree: 2·log2(8) hops of 10 µs, and 2·7/8 of 8 kB at 10 GB/s; a ring would take 14 hops.
    assert all_reduce_seconds(8e3, group, ROUND) == pytest.approx((60 + 1.4) * US)


def test_all_reduce_over_nodes_overlaps_its_tiers():
    # 2 nodes × 4: tree has 2·3 hops inside, 2·1 between. Inside: 2·3/4·100 MB at 100 GB/s = 1,500 µs; between:
    # 2·1/2·100 MB/4 at 10 GB/s = 2,500 µs, at the same time.
    assert all_reduce_seconds(100 * MB, Group(size=8, members=4), ROUND) == pytest.approx((6 + 20 + 2500) * US)


def test_all_to_all_sends_over_the_adapter_what_leaves_the_node():
    # 8 ranks on 2 nodes, 70 MB received from 7 ranks: 3 in the node (30 MB, 300 µs), 4 outside (40 MB, 4,000 µs).
    assert pairwise_seconds(70 * MB, 7, Group(size=8, members=4), ROUND) == pytest.approx((3 + 40 + 4000) * US)
    assert pairwise_seconds(30 * MB, 3, Group(size=4, members=4), ROUND) == pytest.approx((3 + 300) * US)
    # A permutation may send everything to another node.
    assert pairwise_seconds(30 * MB, 1, Group(size=8, members=4), ROUND) == pytest.approx((10 + 3000) * US)
    assert pairwise_seconds(0.0, 0, Group(size=8, members=4), ROUND) == 0


def test_setup_is_paid_once_a_collective():
    slow = replace(ROUND, intra=replace(INTRA, setup_s=50 * US), inter=replace(INTER, setup_s=70 * US))
    inside, between = Group(size=4, members=4), Group(size=8, members=4)
    for price in (
        lambda group, spec: gather_seconds(MB, group, spec),
        lambda group, spec: all_reduce_seconds(MB, group, spec),
        lambda group, spec: pairwise_seconds(MB, 3, group, spec),
    ):
        assert price(inside, slow) - price(inside, ROUND) == pytest.approx(50 * US)
        assert price(between, slow) - price(between, ROUND) == pytest.approx(70 * US)


def test_steps_are_priced_by_their_kind():
    mesh, shape = DeviceMesh.of({"dp": 2, "tp": 4}), (4096, 4096)
    size = 2 * 4096 * 4096
    tp = Group(size=4, members=4)
    whole, rows, partial = Layout.parse("[-, -]"), Layout.parse("[tp, -]"), Layout.parse("[-, -] +tp")

    def seconds(kind, source, **call):
        return step_seconds(COLLECTIVES[kind].step(source, shape, mesh, **call), 2, mesh, ROUND)

    assert seconds("all_gather", rows, axes=("tp",), dim=0) == gather_seconds(size * 3 / 4, tp, ROUND)
    assert seconds("reduce_scatter", partial, axes=("tp",), dim=0) == gather_seconds(size * 3 / 4, tp, ROUND)
    assert seconds("all_reduce", partial, axes=("tp",)) == all_reduce_seconds(size, tp, ROUND)
    all_to_all = seconds("all_to_all", rows, axes=("tp",), dim=0, to_dim=1)
    assert all_to_all == pairwise_seconds(size / 4 * 3 / 4, 3, tp, ROUND)
    assert seconds("exchange", rows, target=Layout.parse("[-, tp]")) == pytest.approx(all_to_all)
    # Local steps read and write memory: a slice a quarter of the tensor twice, a zero the whole twice.
    assert seconds("slice", whole, axes=("tp",), dim=0) == copy_seconds(2 * size / 4, ROUND)
    assert seconds("zero", whole, axes=("tp",)) == copy_seconds(2 * size, ROUND)
    assert seconds("pad", rows, axes=("tp",), dim=0) == copy_seconds(size * 5 / 4, ROUND)


def test_a_copy_takes_the_achieved_bandwidth_and_at_least_a_launch():
    device = ROUND.device
    assert copy_seconds(1e9, ROUND) == pytest.approx(1e9 / (device.memory_bandwidth * device.memory_efficiency))
    assert copy_seconds(8, ROUND) == device.kernel_floor_s


sizes = st.floats(1, 1e12)
groups = st.sampled_from([Group(size=m * n, members=m) for m in (1, 2, 4, 8) for n in (1, 2, 16, 2048) if m * n > 1])


@given(sizes, sizes, groups, st.sampled_from(["8x8-h100-sxm", "8x8-a100-80-sxm"]))
def test_more_bytes_never_take_less_time(first, second, group, name):
    less, more = sorted((first, second))
    spec = cluster(name)
    for price in (gather_seconds, all_reduce_seconds):
        assert 0 < price(less, group, spec) <= price(more, group, spec) < inf
    rounds = group.size - 1
    assert 0 < pairwise_seconds(less, rounds, group, spec) <= pairwise_seconds(more, rounds, group, spec)


@given(sizes, groups)
def test_all_reduce_beats_reduce_scatter_and_all_gather_or_equals_them(size, group):
    spec = cluster("2048x8-h100-sxm")
    both = 2 * gather_seconds(size * (group.size - 1) / group.size, group, spec)
    assert all_reduce_seconds(size, group, spec) <= both


@given(sizes)
def test_crossing_nodes_never_costs_less(size):
    spec = cluster("8x8-h100-sxm")
    inside, halves, single = (Group(size=8, members=members) for members in (8, 4, 1))
    received = size * 7 / 8
    assert gather_seconds(received, inside, spec) <= gather_seconds(received, halves, spec)
    assert gather_seconds(received, halves, spec) <= gather_seconds(received, single, spec)
    assert all_reduce_seconds(size, inside, spec) <= all_reduce_seconds(size, single, spec)


def test_unequal_parts_are_passed_pair_by_pair():
    # 10 rows over 4 ranks of a node are 3,3,3,1: who has 1 receives 9, who has 3 sends them three times.
    mesh = DeviceMesh.of({"tp": 4})
    step = COLLECTIVES["all_gather"].step(Layout.parse("[tp, -]"), (10, 10**6), mesh, axes=("tp",), dim=0)
    assert step_seconds(step, 1, mesh, ROUND) == pytest.approx(3 * US + 9e6 / 100e9)
    step = COLLECTIVES["reduce_scatter"].step(Layout.parse("[-, -] +tp"), (10, 10**6), mesh, axes=("tp",), dim=0)
    assert step_seconds(step, 1, mesh, ROUND) == pytest.approx(3 * US + 9e6 / 100e9)

    # 10 rows over 8 nodes are 2,2,2,2,2,0,0,0: seven messages between nodes, where equal parts would take a tree.
    far = DeviceMesh.of({"dp": 8, "tp": 4})
    step = COLLECTIVES["all_gather"].step(Layout.parse("[dp, -]"), (10, 10**6), far, axes=("dp",), dim=0)
    assert step_seconds(step, 1, far, ROUND) == pytest.approx(70 * US + 14e6 / 10e9)


def test_a_permute_is_one_message():
    mesh = DeviceMesh.of({"dp": 2, "tp": 4})
    target = Layout.parse("[tp·dp]")
    step = COLLECTIVES["permute"].step(Layout.parse("[dp·tp]"), (8 * 10**6,), mesh, target=target)
    assert step_seconds(step, 1, mesh, ROUND) == pytest.approx(10 * US + 1e6 / 10e9)
    near = DeviceMesh.of({"a": 2, "b": 2})
    step = COLLECTIVES["permute"].step(Layout.parse("[a·b]"), (4 * 10**6,), near, target=Layout.parse("[b·a]"))
    assert step_seconds(step, 1, near, ROUND) == pytest.approx(1 * US + 1e6 / 100e9)


def test_several_dims_are_gathered_as_one():
    mesh = DeviceMesh.of({"dp": 2, "tp": 4})
    both = COLLECTIVES["all_gather"].step(Layout.parse("[dp, tp]"), (8, 8), mesh, target=Layout.parse("[-, -]"))
    one = COLLECTIVES["all_gather"].step(Layout.parse("[dp·tp, -]"), (8, 8), mesh, axes=("dp", "tp"), dim=0)
    assert step_seconds(both, 4, mesh, ROUND) == step_seconds(one, 4, mesh, ROUND)
