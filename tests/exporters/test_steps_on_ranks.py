"""Written steps on eight gloo ranks: bit-exact, and the elements handed to torch.distributed are the plan's."""

from dataclasses import replace
from math import lcm, prod
from random import Random

import pytest

from planner.collectives import COLLECTIVES
from planner.collectives.definition import even
from planner.collectives.messages import senders, transfers
from planner.collectives.permute import permutes
from planner.core.collective import Step
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.core.tensor import DTYPE_BYTES
from planner.exporters.explicit.steps import call
from planner.redistribution import Planner, SearchOptions
from planner.redistribution.options import OBJECTIVES
from tests.collectives.applicable import applicable
from tests.exporters.stepping import Answer, Case, run_all
from tests.redistribution.prices import alpha_beta

MESHES = [DeviceMesh.parse(text) for text in ("a:2,b:2,c:2", "a:2,b:4", "a:4,b:2", "a:8", "a:2,one:1,b:4")]
DTYPES = ("int64", "float64", "float32", "bfloat16")

PAIRS = 150
"""Redistributions of a quick run."""

Ran = dict[str, tuple[list[Case], list[list[Answer]]]]
"""Cases and their answers, by what they are for."""

pytest.importorskip("torch")


def layout_of(random: Random, mesh: DeviceMesh, rank: int) -> Layout:
    dims: list[tuple[str, ...]] = [()] * rank
    partials: tuple[str, ...] = ()
    for axis in random.sample(mesh.names, len(mesh.names)):
        place = random.randint(-2, rank - 1)
        if place >= 0:
            dims[place] += (axis,)
        elif place == -2:
            partials += (axis,)
    return Layout(tuple(dims), partials, random.choice(("sum", "sum", "mean", "max", "min")) if partials else "sum")


def shape_of(random: Random, mesh: DeviceMesh, *layouts: Layout, scale: int = 1) -> tuple[int, ...]:
    """Return a shape that all layouts divide, or any other."""
    if random.random() < 0.5:
        return tuple(random.randint(scale, 11 * scale) for _ in layouts[0].dims)
    cuts = zip(*([mesh.size_of(axes) for axes in layout.dims] for layout in layouts), strict=True)
    return tuple(lcm(*counts) * random.randint(scale, 2 * scale) for counts in cuts)


def possible(random: Random, mesh: DeviceMesh, scale: int = 1) -> list[Step]:
    """Return what may be done to some layout: a step of every family that applies."""
    layout = layout_of(random, mesh, random.randint(1, 3))
    other = layout_of(random, mesh, len(layout.dims))
    shape = shape_of(random, mesh, layout, other, scale=scale)
    found = list(applicable(layout, shape, mesh))
    if layout.reduce == other.reduce == "sum" and layout.normal(mesh).partial != other.normal(mesh).partial:
        found.append(COLLECTIVES["sum_exchange"].step(layout, shape, mesh, target=other))
    targets = [Layout(other.dims)] if not set(layout.partial) & other.sharded else []
    targets += [Layout(layout.dims).with_dim(dim, axes[::-1]) for dim, axes in enumerate(layout.dims)]
    targets.append(Layout(layout.dims[::-1]))
    for bare in targets:
        target = Layout(bare.dims, layout.partial, layout.reduce)
        if target.normal(mesh) != layout.normal(mesh):
            found.append(COLLECTIVES["exchange"].step(layout, shape, mesh, target=target))
            if permutes(layout, target, shape, mesh):
                found.append(COLLECTIVES["permute"].step(layout, shape, mesh, target=target))
    return found


def single_steps(each: int, *, scale: int = 1) -> list[Case]:
    """Return steps of every family and form, as many of each; large ones, with a scale, are measured."""
    random = Random(7)
    found: dict[tuple[str, bool, bool, str], list[Case]] = {}
    for seed in range(3000):
        mesh = random.choice(MESHES)
        for step in possible(random, mesh, scale):
            form = step.kind, even(step, mesh), step.dim < 0, step.source.reduce
            if len(found.setdefault(form, [])) < each:
                # Sums of more bits than a bfloat16 has would be rounded on the way.
                dtype = DTYPES[seed % 4] if not step.source.partial else DTYPES[seed % 3]
                lines = (call(step, mesh),)
                case = Case(mesh, step.shape, step.source, (step,), lines, seed, dtype, scale > 1)
                found[form].append(case)
    assert {form[0] for form in found} == set(COLLECTIVES)
    return [case for cases in found.values() for case in cases]


def planned(step: Step, mesh: DeviceMesh, rank: int) -> tuple[int, int]:
    """Return the elements that a rank hands to torch.distributed for a step, and those that it gets."""
    if COLLECTIVES[step.kind].local:
        return 0, 0
    here, there = (layout.shape_of(step.shape, mesh, rank) for layout in (step.source, step.target))
    held, wanted = prod(here), prod(there)
    if step.kind == "permute":
        found = senders(step.source, step.target, step.shape, mesh)
        readers = [r for r, sender in enumerate(found) if sender == rank != r]
        return sum(prod(step.target.shape_of(step.shape, mesh, r)) for r in readers), wanted * (found[rank] != rank)
    if step.kind == "reduce_scatter" and not even(step, mesh):
        return held - wanted, (step.group_size - 1) * wanted
    if (
        step.kind in ("exchange", "sum_exchange")
        or (not even(step, mesh) and step.kind != "all_reduce")
        or (step.kind == "all_to_all" and step.dim < 0)
    ):
        messages = [
            message
            for base in range(mesh.device_count)
            if mesh.index(base, step.axes) == 0
            for message in transfers(step.source, step.target, step.shape, mesh, mesh.group(step.axes, base))
        ]
        sent = sum(m.stop - m.start for m in messages if m.sender == rank)
        return sent, sum(m.stop - m.start for m in messages if m.receiver == rank)
    return held, wanted


def check(cases: list[Case], answers: list[list[Answer]]) -> None:
    """Hold every rank to the case: values, elements handed over, bytes in the log."""
    for case, by_rank in zip(cases, answers, strict=True):
        for rank, answer in enumerate(by_rank):
            about = f"rank {rank} of {case.source} {case.shape} on {case.mesh}: {case.lines}"
            assert not answer.wrong, f"{about}: {answer.wrong}"
            assert answer.handed == tuple(planned(step, case.mesh, rank) for step in case.steps), about
            assert answer.log == tuple(
                (
                    step.kind,
                    step.axes,
                    DTYPE_BYTES[case.dtype] * prod(step.source.shape_of(case.shape, case.mesh, rank)),
                    DTYPE_BYTES[case.dtype] * prod(step.target.shape_of(case.shape, case.mesh, rank)),
                )
                for step in case.steps
                if not COLLECTIVES[step.kind].local
            ), about
        for position, step in enumerate(case.steps):
            definition = COLLECTIVES[step.kind]
            handed = [answer.handed[position] for answer in by_rank]
            unequal = step.kind != "all_reduce" and not definition.local and not even(step, case.mesh)
            if unequal or step.kind in ("exchange", "permute", "sum_exchange"):
                assert max(got for _, got in handed) == definition.received(step, case.mesh)


def pairs(count: int) -> list[Case]:
    """Return redistributions between random layouts, with and without partial results, by all objectives."""
    random = Random(11)
    planners = {mesh: Planner(mesh, alpha_beta(mesh)) for mesh in MESHES}
    found: list[Case] = []
    while len(found) < count:
        mesh = random.choice(MESHES)
        source = layout_of(random, mesh, random.randint(1, 3))
        target = layout_of(random, mesh, len(source.dims))
        if not source.reduce == target.reduce == "sum":
            target = target.with_partial(())
        shape = shape_of(random, mesh, source, target)
        options = SearchOptions(objective=random.choice(OBJECTIVES), exchange=random.random() < 0.7)
        moved = planners[mesh].plan(source, target, shape, options)
        lines = tuple(call(step, mesh) for step in moved.steps)
        dtype = DTYPES[len(found) % (3 if source.partial else 4)]
        found.append(Case(mesh, shape, source, moved.steps, lines, len(found), dtype))
    return found


@pytest.fixture(scope="module")
def ran() -> Ran:
    """Run the cases of all tests on one group of ranks: starting it takes longest."""
    cases = {"single": single_steps(each=3), "measured": single_steps(each=1, scale=9), "pairs": pairs(PAIRS)}
    answers = iter(run_all([case for some in cases.values() for case in some]))
    return {name: (some, [next(answers) for _ in some]) for name, some in cases.items()}


def test_single_steps(ran: Ran) -> None:
    check(*ran["single"])


def test_pairs(ran: Ran) -> None:
    cases, answers = ran["pairs"]
    check(cases, answers)
    assert sum(bool(case.steps) for case in cases) > 0.8 * PAIRS
    assert sum(len(case.steps) > 1 for case in cases) > 0.15 * PAIRS
    assert sum(not case.source.even(case.shape, case.mesh) for case in cases) > 0.15 * PAIRS


@pytest.mark.slow
def test_more_pairs() -> None:
    cases = pairs(8 * PAIRS)[PAIRS:]
    check(cases, run_all(cases))


def test_staging_is_what_steps_make_beside_their_result(ran: Ran) -> None:
    """Where several owners share a piece, it is copied once more, and sums of short elements take twice their room."""
    cases, answers = ran["measured"]
    for case, by_rank in zip(cases, answers, strict=True):
        (step,) = case.steps
        size = {"bfloat16": 2, "float32": 4}.get(case.dtype, 8)
        said = COLLECTIVES[step.kind].staging(step, case.mesh) * size
        busiest = 0.0
        for rank, answer in enumerate(by_rank):
            result = prod(step.target.shape_of(case.shape, case.mesh, rank)) * size
            once_more = 2 * result if step.kind in ("exchange", "sum_exchange") else 0
            assert answer.room[0] <= result + said + once_more + 256, (case.lines, rank)
            busiest = max(busiest, answer.room[0] / max(result + said, 1))
        # Parts of a dim over an axis of size 1 lie in place, which planned layouts do not have.
        if not COLLECTIVES[step.kind].local and "one" not in case.mesh.names:
            assert busiest > 0.5, (case.lines, busiest)


@pytest.mark.slow
def test_steps_compile_to_one_graph() -> None:
    cases = [replace(case, compiled=True) for case in single_steps(each=1) if case.source.reduce == "sum"]
    for case, by_rank in zip(cases, run_all(cases), strict=True):
        assert not any(answer.wrong for answer in by_rank), case.lines
