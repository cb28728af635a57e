"""Who has to exchange what: by the arrays of index ranges, against counting index sets."""

import time
from math import prod

import numpy as np
import pytest
from hypothesis import given

from planner.collectives import COLLECTIVES
from planner.collectives.boxes import demand, moved_axes
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from tests.collectives import wire
from tests.properties.strategies import Case, assert_holds, cases, shard, split


@pytest.mark.parametrize(
    ("source", "target", "axes"),
    [
        ("[a·b, -]", "[b·a, -]", ("a", "b")),
        ("[a·b, -]", "[a, -]", ("b",)),
        ("[a·b, -]", "[a, b]", ("b",)),
        ("[a·b·c, -]", "[b·a·c, -]", ("a", "b")),
        ("[a·c, -]", "[b·c, -]", ("a", "b")),
        ("[a·c, b]", "[a·c, b]", ()),
        ("[a, -] +c", "[b, -] +c", ("a", "b")),
        ("[one·a, -]", "[a, one]", ()),
    ],
)
def test_moved_axes(source: str, target: str, axes: tuple[str, ...]) -> None:
    mesh = DeviceMesh.of({"a": 2, "b": 2, "c": 3, "one": 1})
    assert moved_axes(Layout.parse(source), Layout.parse(target), (24, 24), mesh) == axes


@given(cases(partial=False))
def test_demand_against_index_sets(case: Case) -> None:
    mesh = case.mesh
    index = np.arange(prod(case.shape)).reshape(case.shape)
    lacking = [
        set(shard(index, case.target, mesh, rank).reshape(-1).tolist())
        - set(shard(index, case.source, mesh, rank).reshape(-1).tolist())
        for rank in range(mesh.device_count)
    ]
    if not moved_axes(case.source, case.target, case.shape, mesh):
        assert not any(lacking)
        return
    wanted = demand(case.source, case.target, case.shape, mesh)
    assert wanted.received == max(map(len, lacking))
    owners: dict[int, list[int]] = {}
    for rank in range(mesh.device_count):
        for i in shard(index, case.source, mesh, rank).reshape(-1).tolist():
            owners.setdefault(i, []).append(rank)
    # Owners outside a group serve their own group alike: sharing among all is the same.
    sent = [0.0] * mesh.device_count
    for lack in lacking:
        for i in lack:
            for owner in owners[i]:
                sent[owner] += 1 / len(owners[i])
    assert wanted.sent == pytest.approx(max(sent))
    assert max(sent) <= max(map(len, lacking)) + 1e-9


@given(cases(partial=False))
def test_exchange_by_counted_messages(case: Case) -> None:
    mesh = case.mesh
    if not moved_axes(case.source, case.target, case.shape, mesh):
        return
    step = COLLECTIVES["exchange"].step(case.source, case.shape, mesh, target=case.target)
    wanted = demand(case.source, case.target, case.shape, mesh)
    counted = wire.Wire(mesh.device_count)
    world = split(case.array(), case.source, mesh, np.random.default_rng(0))
    assert_holds(wire.run(step, world, mesh, counted), case.array(), case.target, mesh)
    assert_holds(COLLECTIVES["exchange"].run(step, world, mesh), case.array(), case.target, mesh)
    assert max(counted.received) == wanted.received
    # Where the owners can't cut a piece evenly, one of them sends an element more of it.
    for sent, messages in zip(counted.sent, counted.messages, strict=True):
        assert sent <= wanted.sent + messages


@pytest.mark.parametrize(
    ("source", "target", "received", "sent", "pieces"),
    [
        ("[a·b, -]", "[b·a, -]", 8, 8, 1),  # every shard goes to another rank as a whole
        ("[a·b, -]", "[-, a·b]", 6, 6, 3),  # an all-to-all
        ("[a·b, -]", "[-, -]", 24, 24, 3),  # an all-gather
        ("[a, -]", "[b, -]", 16, 8, 1),  # two ranks need a half, which two others hold
        ("[a, -]", "[a·b, -]", 0, 0, 0),  # a slice
    ],
)
def test_demand_by_hand(source: str, target: str, received: int, sent: float, pieces: int) -> None:
    mesh = DeviceMesh.of({"a": 2, "b": 2})
    found = demand(Layout.parse(source), Layout.parse(target), (8, 4), mesh)
    assert (found.received, found.sent, found.pieces) == (received, sent, pieces)


def test_a_large_mesh_costs_little() -> None:
    mesh = DeviceMesh.of({"pp": 4, "dp": 64, "cp": 8, "tp": 8})
    source, target = Layout.parse("[dp, cp·tp, -]"), Layout.parse("[tp, dp·cp, -]")
    begin = time.process_time()
    demand(source, target, (512, 8192, 4096), mesh)
    assert time.process_time() - begin < 0.2
