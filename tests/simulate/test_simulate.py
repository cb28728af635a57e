"""Pretend ranks: parts against direct sharding, redistributions step by step, and that wrong worlds are noticed."""

import doctest
from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.compose import redistribute
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.errors import LayoutError
from planner.simulate import assemble, mismatch, run, scatter, slice_map, slices
from tests.properties.strategies import Case, assert_holds, cases, layouts, meshes, shard

MESH = DeviceMesh.parse("dp:2,tp:4")


@given(cases(reduces=("sum", "max", "min")))
def test_parts_are_those_of_direct_sharding(case: Case) -> None:
    array = case.array()
    for layout in (case.source, case.target):
        for rank, part in enumerate(slices(layout, case.shape, case.mesh)):
            here = array[tuple(slice(start, stop) for start, stop in part)]
            np.testing.assert_array_equal(here, shard(array, layout, case.mesh, rank))


@given(meshes(), st.data())
def test_uneven_parts_cover_the_tensor(mesh: DeviceMesh, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, 3))
    shape = data.draw(st.tuples(*[st.integers(0, 11)] * rank))
    layout = data.draw(layouts(mesh, rank, partial=False))
    copies = mesh.device_count // mesh.size_of(layout.sharded)
    held = np.zeros(shape, int)
    for part in slices(layout, shape, mesh):
        held[tuple(slice(start, stop) for start, stop in part)] += 1
    assert (held == copies).all()


def test_nested_ceil_chunks() -> None:
    sizes = [stop - start for ((start, stop),) in slices(Layout.parse("[dp·tp]"), (10,), MESH)]
    assert sizes == [2, 2, 1, 0, 2, 2, 1, 0]
    flat = DeviceMesh.parse("a:8")
    assert [b - a for ((a, b),) in slices(Layout.parse("[a]"), (10,), flat)] == [2, 2, 2, 2, 2, 0, 0, 0]


@given(cases(reduces=("sum", "max", "min")))
def test_every_state_holds_its_layout(case: Case) -> None:
    array = case.array()
    moved = redistribute(case.source, case.target, case.mesh, shape=case.shape)
    states = run(moved, case.mesh, array, seed=case.seed)
    assert [state.layout for state in states] == [case.source, *(step.target for step in moved.steps)]
    assert [state.step for state in states] == [None, *moved.steps]
    for state in states:
        assert_holds(state.world, array, state.layout, case.mesh)
        assert mismatch(state.world, array, state.layout, case.mesh) == ""
        np.testing.assert_array_equal(assemble(state.world, state.layout, case.shape, case.mesh), array)


def test_labels_are_positions() -> None:
    moved = redistribute("[dp, -]", "[-, tp]", MESH, shape=(4, 4))
    states = run(moved, MESH)
    assert states[0].world[4].tolist() == [[8, 9, 10, 11], [12, 13, 14, 15]]
    assert states[-1].world[6].tolist() == [[2], [6], [10], [14]]


def test_partial_values_are_shared_out_unevenly() -> None:
    array = np.arange(6).reshape(2, 3)
    world = scatter(array, Layout.parse("[-, -] +tp"), MESH, np.random.default_rng(0))
    assert not any(np.array_equal(a, b) for a, b in pairwise(world))
    # Groups along other axes have shares of their own.
    assert not np.array_equal(world[0], world[4])
    assert mismatch(world, array, Layout.parse("[-, -] +tp"), MESH) == ""


def test_wrong_worlds_are_noticed() -> None:
    array = np.arange(8).reshape(4, 2)
    layout = Layout.parse("[dp, -]")
    world = scatter(array, layout, MESH, np.random.default_rng(0))
    world[5] = world[5] + 1
    assert mismatch(world, array, layout, MESH) == "rank 5 holds other values than its part ((2, 4), (0, 2))"
    world[2] = world[2][:1]
    assert mismatch(world, array, layout, MESH) == "rank 2 holds the shape (1, 2), not (2, 2)"
    assert mismatch(world, array, Layout.parse("[tp, -]"), MESH).startswith("rank 0 holds the shape")


def test_slice_maps_are_bounded() -> None:
    large = DeviceMesh.parse("dp:64,tp:8")
    found = slice_map(Layout.parse("[dp, tp]"), (64, 8), large)
    assert (len(found.slices), found.device_count, found.note) == (64, 512, "the first 64 of 512 ranks")
    assert found.slices == slices(Layout.parse("[dp, tp]"), (64, 8), large)[:64]
    assert slice_map(Layout.parse("[dp]"), (2,), MESH).note == ""


def test_refusals() -> None:
    with pytest.raises(LayoutError, match=r"has 1 dims, the tensor has 2") as caught:
        slices(Layout.parse("[dp]"), (2, 2), MESH)
    assert caught.value.code == "layout.rank-mismatch"
    with pytest.raises(LayoutError, match="no axis 'cp'"):
        slices(Layout.parse("[cp]"), (2,), MESH)


def test_the_example_runs() -> None:
    found = doctest.testmod(import_module("planner.simulate.run"))
    assert (found.failed, found.attempted) == (0, 4)
