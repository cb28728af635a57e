"""Collectives where sizes do not divide: what every rank holds, receives and sends, counted element by element."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.collectives import COLLECTIVES
from planner.collectives.boxes import demand, moved_axes
from planner.collectives.permute import permutes
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.errors import LayoutError
from tests.collectives import wire
from tests.collectives.applicable import applicable
from tests.properties.strategies import Case, assert_holds, cases, shard, split


def held(layout: Layout, case: Case) -> list[set[int]]:
    """Return the numbers of the elements that every rank holds."""
    index = np.arange(prod(case.shape)).reshape(case.shape)
    return [set(shard(index, layout, case.mesh, rank).reshape(-1).tolist()) for rank in range(case.mesh.device_count)]


def counted(source: Layout, target: Layout, case: Case) -> tuple[int, float]:
    """Return what the busiest rank receives and sends of what ranks lack, each owner an equal share."""
    have, want = held(source, case), held(target, case)
    owners: dict[int, list[int]] = {}
    for rank, elements in enumerate(have):
        for i in elements:
            owners.setdefault(i, []).append(rank)
    sent = [0.0] * len(have)
    for mine, wanted in zip(have, want, strict=True):
        for i in wanted - mine:
            for owner in owners[i]:
                sent[owner] += 1 / len(owners[i])
    return max(len(wanted - mine) for mine, wanted in zip(have, want, strict=True)), max(sent)


@given(cases(partial=False, even=False))
def test_demand_against_index_sets(case: Case) -> None:
    found = demand(case.source, case.target, case.shape, case.mesh)
    assert (found.received, pytest.approx(found.sent)) == counted(case.source, case.target, case)


@given(cases(partial=False, even=False))
def test_boxes_against_index_sets(case: Case) -> None:
    """Pieces: the boxes that a rank receives, or the messages by which it sends if these are more."""
    have, want = held(case.source, case), held(case.target, case)
    boxes, wishes = {frozenset(x) for x in have if x}, {frozenset(x) for x in want if x}
    receives = max(sum(bool(box & x) and not box <= mine for box in boxes) for mine, x in zip(have, want, strict=True))
    sends = 0
    for box in boxes:
        owners = [rank for rank, mine in enumerate(have) if mine == box]
        pairs = sum(1 for wish in wishes if wish & box for r, x in enumerate(want) if x == wish and r not in owners)
        sends = max(sends, -(-pairs // len(owners)))
    found = demand(case.source, case.target, case.shape, case.mesh)
    assert found.pieces == max(receives, sends)


@given(cases(partial=False, even=False))
def test_what_is_lacking_is_in_the_group(case: Case) -> None:
    axes = moved_axes(case.source, case.target, case.shape, case.mesh)
    have, want = held(case.source, case), held(case.target, case)
    for rank, wanted in enumerate(want):
        assert wanted <= set().union(*(have[member] for member in case.mesh.group(axes, rank)))


@given(cases(partial=False, even=False))
def test_exchange_by_counted_messages(case: Case) -> None:
    if case.source.normal(case.mesh) == case.target.normal(case.mesh):
        return
    step = COLLECTIVES["exchange"].step(case.source, case.shape, case.mesh, target=case.target)
    wanted = demand(case.source, case.target, case.shape, case.mesh)
    messages = wire.Wire(case.mesh.device_count)
    world = split(case.array(), case.source, case.mesh, np.random.default_rng(0))
    assert_holds(wire.run(step, world, case.mesh, messages), case.array(), case.target, case.mesh)
    assert_holds(COLLECTIVES["exchange"].run(step, world, case.mesh), case.array(), case.target, case.mesh)
    assert max(messages.received) == wanted.received
    for sent, number in zip(messages.sent, messages.messages, strict=True):
        assert sent <= wanted.sent + number


@given(cases(even=False))
def test_sums_are_finished_and_made_on_the_way(case: Case) -> None:
    mesh = case.mesh
    if case.source.normal(mesh).partial == case.target.normal(mesh).partial:
        return
    definition = COLLECTIVES["sum_exchange"]
    step = definition.step(case.source, case.shape, mesh, target=case.target)
    world = split(case.array(), case.source, mesh, np.random.default_rng(case.seed))
    after = definition.run(step, world, mesh)
    assert_holds(after, case.array(), case.target, mesh)
    messages = wire.Wire(mesh.device_count)
    for here, there in zip(wire.run(step, world, mesh, messages), after, strict=True):
        np.testing.assert_array_equal(here, there)
    assert (max(messages.received), max(messages.sent)) == (
        definition.received(step, mesh),
        definition.sent(step, mesh),
    )
    have, want = held(case.source, case), held(case.target, case)
    finished = [axis for axis in case.source.partial if axis not in case.target.partial]
    if set(case.target.partial) <= set(case.source.partial):
        terms = mesh.size_of(finished)
        lacking = [terms * len(wanted) - len(wanted & mine) for mine, wanted in zip(have, want, strict=True)]
        assert definition.received(step, mesh) == max(lacking)
    if not case.source.partial:
        total = sum(messages.received)
        assert total <= sum(len(wanted - mine) for mine, wanted in zip(have, want, strict=True))


@given(cases(even=False), st.data())
def test_any_named_collective(case: Case, data: st.DataObject) -> None:
    """Whatever may be done to a layout leads where it says, and moves what single messages move."""
    mesh = case.mesh
    steps = list(applicable(case.source, case.shape, mesh))
    if not steps:
        return
    step = data.draw(st.sampled_from(steps))
    definition = COLLECTIVES[step.kind]
    world = split(case.array(), case.source, mesh, np.random.default_rng(case.seed))
    after = definition.run(step, world, mesh)
    assert_holds(after, case.array(), step.target, mesh)
    assert [x.shape for x in after] == [step.target.shape_of(case.shape, mesh, r) for r in range(mesh.device_count)]
    assert step.target_shape == after[0].shape
    if definition.local:
        return
    messages = wire.Wire(mesh.device_count)
    for here, there in zip(wire.run(step, world, mesh, messages), after, strict=True):
        np.testing.assert_array_equal(here, there)
    slack = 2 * step.group_size if step.kind == "all_reduce" else 0
    assert max(messages.received) == pytest.approx(definition.received(step, mesh), abs=slack)
    assert max(messages.sent) == pytest.approx(definition.sent(step, mesh), abs=slack)


@given(cases(partial=False), st.data())
def test_even_formulas_are_those_of_the_demand(case: Case, data: st.DataObject) -> None:
    """The closed forms of even sizes against the boxes, which know nothing of collectives."""
    for step in applicable(case.source, case.shape, case.mesh):
        definition = COLLECTIVES[step.kind]
        if step.kind in ("all_gather", "all_to_all") and step.target.even(case.shape, case.mesh):
            found = demand(step.source, step.target, case.shape, case.mesh)
            assert definition.received(step, case.mesh) == found.received
            assert definition.sent(step, case.mesh) == found.sent
            assert definition.rounds(step, case.mesh) == found.pieces


@given(cases(partial=False, even=False, max_size=3))
def test_permutes_where_shards_are_passed_on_whole(case: Case) -> None:
    have, want = held(case.source, case), held(case.target, case)
    same = sorted(map(sorted, filter(None, have))) == sorted(map(sorted, filter(None, want)))
    # Empty shards leave room for another count of owners: it is refused as no permutation of all ranks.
    possible = permutes(case.source, case.target, case.shape, case.mesh)
    assert same or not possible
    if case.source.even(case.shape, case.mesh) and case.target.even(case.shape, case.mesh):
        assert same == possible
    if possible and case.source.normal(case.mesh) != case.target.normal(case.mesh):
        step = COLLECTIVES["permute"].step(case.source, case.shape, case.mesh, target=case.target)
        world = split(case.array(), case.source, case.mesh, np.random.default_rng(0))
        messages = wire.Wire(case.mesh.device_count)
        assert_holds(COLLECTIVES["permute"].run(step, world, case.mesh), case.array(), case.target, case.mesh)
        assert_holds(wire.run(step, world, case.mesh, messages), case.array(), case.target, case.mesh)
        assert max(messages.received) == max(messages.sent) == COLLECTIVES["permute"].received(step, case.mesh)
        assert max(messages.messages) == COLLECTIVES["permute"].rounds(step, case.mesh)


@pytest.mark.parametrize(
    ("kind", "source", "arguments", "received", "sent"),
    [
        # 10 rows over 8 ranks are 2,2,2,2,2,0,0,0: a rank without rows gets all, one with rows sends them to seven.
        ("all_gather", "[a]", {"axes": ("a",), "dim": 0}, 10, 14),
        ("reduce_scatter", "[-] +a", {"axes": ("a",), "dim": 0}, 14, 10),
        ("slice", "[-]", {"axes": ("a",), "dim": 0}, 0, 0),
    ],
)
def test_by_hand(kind: str, source: str, arguments: dict[str, object], received: int, sent: int) -> None:
    mesh = DeviceMesh.of({"a": 8})
    step = COLLECTIVES[kind].step(Layout.parse(source), (10,), mesh, **arguments)  # type: ignore[arg-type]
    assert (COLLECTIVES[kind].received(step, mesh), COLLECTIVES[kind].sent(step, mesh)) == (received, sent)


def test_messages_of_empty_parts_are_none() -> None:
    """Three rows over eight ranks: an owner sends to seven others; if only two want a column each, to these."""
    mesh = DeviceMesh.of({"a": 8})
    step = COLLECTIVES["all_gather"].step(Layout.parse("[a]"), (3,), mesh, axes=("a",), dim=0)
    assert COLLECTIVES["all_gather"].rounds(step, mesh) == 7
    step = COLLECTIVES["all_to_all"].step(Layout.parse("[a, -]"), (3, 2), mesh, axes=("a",), dim=0, to_dim=1)
    assert COLLECTIVES["all_to_all"].rounds(step, mesh) == 2


@pytest.mark.parametrize(
    ("sizes", "source", "target", "shape"),
    [
        ({"a": 2, "b": 2, "c": 4}, "[a, b·c]", "[a·c·b, -]", (9, 18)),
        ({"a": 3, "b": 3, "c": 4}, "[a, b·c]", "[a·c·b, -]", (16, 7)),
    ],
)
def test_a_smaller_block_may_move_more(sizes: dict[str, int], source: str, target: str, shape: tuple[int, ...]) -> None:
    """The axis a cuts both layouts alike, but the ranks behind its last coordinate receive most."""
    case = Case(DeviceMesh.of(sizes), shape, Layout.parse(source), Layout.parse(target), 0)
    found = demand(case.source, case.target, shape, case.mesh)
    assert (found.received, pytest.approx(found.sent)) == counted(case.source, case.target, case)


def test_a_smaller_block_may_move_more_summands() -> None:
    mesh = DeviceMesh.of({"a": 3, "b": 3, "c": 3})
    case = Case(mesh, (11, 11), Layout.parse("[b, a] +c"), Layout.parse("[-, a·b·c]"), 0)
    step = COLLECTIVES["sum_exchange"].step(case.source, case.shape, mesh, target=case.target)
    have, want = held(case.source, case), held(case.target, case)
    lacking = [3 * len(wanted) - len(wanted & mine) for mine, wanted in zip(have, want, strict=True)]
    assert COLLECTIVES["sum_exchange"].received(step, mesh) == max(lacking) > lacking[0]


def test_parts_that_are_held_by_another_number_of_ranks_are_no_permutation() -> None:
    mesh = DeviceMesh.of({"a": 4, "b": 3})
    with pytest.raises(LayoutError, match="on another number of ranks") as caught:
        COLLECTIVES["permute"].step(Layout.parse("[a]"), (3,), mesh, target=Layout.parse("[b]"))
    assert caught.value.code == "collective.not-a-permutation"
