"""Any redistribution on any mesh: values, layouts, bytes, bound, peak, price."""

from functools import reduce

import numpy as np
from hypothesis import given

from planner.collectives import COLLECTIVES
from planner.core.collective import Step
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.redistribution import SearchOptions, lower_bound_elements, plan_redistribution
from tests.collectives import wire
from tests.properties.strategies import Case, assert_holds, cases, split
from tests.redistribution import prices


@given(cases(reduces=("sum", "max", "min")))
def test_ranks_end_with_the_target(case: Case) -> None:
    for make in (prices.alpha_beta, prices.bandwidth):
        plan = plan_redistribution(case.source, case.target, case.shape, case.mesh, make(case.mesh))
        assert (plan.source, plan.target, plan.shape) == (case.source, case.target, case.shape)
        array = case.array()
        world = split(array, case.source, case.mesh, np.random.default_rng(case.seed))
        for step in plan.steps:
            world = COLLECTIVES[step.kind].run(step, world, case.mesh)
        assert_holds(world, array, case.target, case.mesh)


@given(cases(reduces=("sum", "max", "min")))
def test_folding_the_steps_gives_the_target(case: Case) -> None:
    mesh = case.mesh
    plan = plan_redistribution(case.source, case.target, case.shape, mesh, prices.alpha_beta(mesh))

    def follow(layout: Layout, step: Step) -> Layout:
        assert step.source == layout
        assert step.source_shape == layout.local_shape(case.shape, mesh)
        assert step.target_shape == step.target.local_shape(case.shape, mesh)
        return COLLECTIVES[step.kind].follow(layout, step, mesh)

    assert reduce(follow, plan.steps, case.source.normal(mesh)) == case.target.normal(mesh)


@given(cases())
def test_nothing_moves_to_the_same_layout(case: Case) -> None:
    price = prices.alpha_beta(case.mesh)
    assert plan_redistribution(case.source, case.source, case.shape, case.mesh, price).steps == ()


@given(cases())
def test_counted_messages_are_the_formula(case: Case) -> None:
    mesh = case.mesh
    plan = plan_redistribution(case.source, case.target, case.shape, mesh, prices.bandwidth(mesh))
    world = split(case.array(), case.source, mesh, np.random.default_rng(case.seed))
    for step in plan.steps:
        definition = COLLECTIVES[step.kind]
        if not definition.local:
            counted = wire.Wire(mesh.device_count)
            wire.run(step, world, mesh, counted)
            # A ring over parts that do not divide passes on one element more or less a round.
            uneven = 2 * step.group_size if step.kind == "all_reduce" else 0
            assert abs(max(counted.received) - definition.received(step, mesh)) <= uneven
        world = definition.run(step, world, mesh)


@given(cases(partial=False))
def test_no_more_than_the_bound_is_received(case: Case) -> None:
    mesh = case.mesh
    bound = lower_bound_elements(case.source, case.target, case.shape, mesh)
    plan = plan_redistribution(case.source, case.target, case.shape, mesh, prices.bandwidth(mesh))
    assert sum(COLLECTIVES[s.kind].received(s, mesh) for s in plan.steps) == bound


@given(cases())
def test_the_peak_is_source_and_target(case: Case) -> None:
    mesh, shape = case.mesh, case.shape
    plan = plan_redistribution(case.source, case.target, shape, mesh, prices.alpha_beta(mesh))
    room = case.source.local_elements(shape, mesh) + case.target.local_elements(shape, mesh)
    if case.source.normal(mesh).partial == case.target.normal(mesh).partial:
        assert plan.peak_elements <= room


@given(cases())
def test_no_dearer_than_gathering_everything(case: Case) -> None:
    for make in prices.PRICES:
        price = make(case.mesh)
        plan = plan_redistribution(
            case.source, case.target, case.shape, case.mesh, price, SearchOptions(peak_limit=False)
        )
        detour = _gather_everything(case.source, case.target, case.shape, case.mesh)
        assert sum(map(price, plan.steps)) <= sum(map(price, detour)) + 1e-10


@given(cases())
def test_the_same_plan_each_time(case: Case) -> None:
    price = prices.launches(case.mesh)
    first, second = (plan_redistribution(case.source, case.target, case.shape, case.mesh, price) for _ in range(2))
    assert first == second


def _gather_everything(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> list[Step]:
    """Return the steps over the whole tensor on every device: reduce, gather, slice, zero."""
    layout, target = source.normal(mesh), target.normal(mesh)
    steps: list[Step] = []

    def add(kind: str, axes: tuple[str, ...], dim: int) -> None:
        nonlocal layout
        if axes:
            steps.append(COLLECTIVES[kind].step(layout, shape, mesh, axes=axes, dim=dim))
            layout = steps[-1].target

    if layout != target:
        add("all_reduce", tuple(a for a in layout.partial if a not in target.partial), -1)
        for dim in range(len(shape)):
            add("all_gather", layout.dims[dim], dim)
        for dim in range(len(shape)):
            # An axis may be partial in the source and stay so while another dim wants it.
            add("slice", target.dims[dim], dim)
        add("zero", tuple(a for a in target.partial if a not in layout.partial), -1)
    assert layout == target
    return steps
