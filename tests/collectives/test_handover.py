"""The handover against lists of the elements that every rank holds."""

from itertools import permutations
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.collectives.handover import handover_demand, handover_messages, run_handover
from planner.collectives.holdings import same_parts
from planner.core.crossing import Holding
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.errors import LayoutError
from planner.simulate import mismatch, scatter
from tests.collectives.elements import held
from tests.properties.strategies import layouts

GRIDS = ((24,), (3, 8), (8, 3), (2, 12), (4, 3, 2), (2, 3, 4))
SMALL = ((6,), (2, 3), (3, 2), (1, 6))
RESHAPES = (
    ((8, 6), (48,)), ((8, 6), (6, 8)), ((4, 3), (3, 4)), ((7, 4), (28,)), ((4, 1, 6), (4, 2, 3)), ((5, 6), (5, 6)),
    ((10,), (2, 5)), ((2, 5, 3), (10, 3)), ((1, 1), (1,)), ((4, 6), (6, 4)),
)  # fmt: skip


@st.composite
def holdings(draw: st.DrawFn, partial: bool = False) -> tuple[Holding, Holding]:
    grids = draw(st.sampled_from((GRIDS, SMALL)))
    shapes = draw(st.sampled_from(RESHAPES))
    if draw(st.booleans()):
        shapes = shapes[::-1]
    made = []
    for shape, names in zip(shapes, ("abc", "xyz"), strict=True):
        mesh = DeviceMesh.of(dict(zip(names, draw(st.sampled_from(grids)), strict=False)))
        made.append(Holding(mesh=mesh, shape=shape, layout=draw(layouts(mesh, len(shape), partial=partial))))
    return made[0], made[1]


@given(holdings())
def test_demand_and_data(made: tuple[Holding, Holding]) -> None:
    source, target = made
    ranks = range(source.mesh.device_count)
    has, wants = ([held(one, rank) for rank in ranks] for one in made)
    owners: dict[int, list[int]] = {}
    for rank in ranks:
        for element in has[rank]:
            owners.setdefault(element, []).append(rank)
    sent = [0.0] * len(ranks)
    for rank in ranks:
        for element in wants[rank] - has[rank]:
            for owner in owners[element]:
                sent[owner] += 1 / len(owners[element])
    demand = handover_demand(source, target)
    assert demand.received == max(len(wants[rank] - has[rank]) for rank in ranks)
    assert demand.sent == pytest.approx(max(sent))
    array = np.random.default_rng(0).integers(-1000, 1000, source.shape)
    world = scatter(array, source.layout, source.mesh, np.random.default_rng(0))
    end = run_handover(source, target, world)
    assert mismatch(end, array.reshape(target.shape), target.layout, target.mesh) == ""
    assert same_parts(source, target) == (has == wants)
    # What is sent, message by message: exactly what is lacking, and by owners alike.
    counts = [[0, 0] for _ in ranks]
    messages = handover_messages(source, target)
    for message in messages:
        assert message.sender != message.receiver
        counts[message.sender][0] += message.stop - message.start
        counts[message.receiver][1] += message.stop - message.start
    assert [count[1] for count in counts] == [len(wants[rank] - has[rank]) for rank in ranks]
    for rank in ranks:
        pieces = sum(1 for message in messages if message.sender == rank)
        assert counts[rank][0] <= sent[rank] + pieces
    # Rounds: the parts that come to a rank, and the readers of an owner where its owners share them alike.
    parts = {frozenset(part): [rank for rank in ranks if has[rank] == part] for part in has if part}
    comes = max(sum(1 for part in parts if part & wants[rank] and part != has[rank]) for rank in ranks)
    goes = max(
        -(-sum(1 for rank in ranks if part & wants[rank] and rank not in own) // len(own))
        for part, own in parts.items()
    )
    assert demand.pieces == max(comes, goes)


def test_owners_serve_their_nearest_readers() -> None:
    """Of all ways to share a demand equally, the one taken has the least distance in ranks."""
    mesh = DeviceMesh.parse("a:2,b:4")
    source = Holding(mesh=mesh, shape=(2, 12), layout=Layout.parse("[a, -]"))
    target = Holding(mesh=mesh, shape=(2, 12), layout=Layout.parse("[-, -]"))
    messages = [m for m in handover_messages(source, target) if m.sender < 4]
    # Four owners in ranks 0 to 3, each of which serves one reader in 4 to 7 with all 12 elements.
    assert [(m.sender, m.receiver, m.stop - m.start) for m in messages] == [(i, i + 4, 12) for i in range(4)]
    best = min(sum(abs(i - j) for i, j in enumerate(order)) for order in permutations(range(4, 8)))
    assert sum(abs(m.sender - m.receiver) for m in messages) == best


def test_by_hand() -> None:
    one = Holding(mesh=DeviceMesh.parse("a:3,b:8"), shape=(24, 24), layout=Layout.parse("[a, b]"))
    two = Holding(mesh=DeviceMesh.parse("c:8,d:3"), shape=(24, 24), layout=Layout.parse("[c, d]"))
    # Rank 9 of 3×8 has rows 8-15, columns 3-5; of 8×3 rows 9-11, columns 0-7: 3 times 3 of 24 are there already.
    assert (one.part(9), two.part(9)) == (((8, 16), (3, 6)), ((9, 12), (0, 8)))
    assert handover_demand(one, two).received == 24
    assert handover_demand(one, one) == handover_demand(two, two)
    assert handover_demand(one, one).received == 0


def test_large_tensors_are_not_listed() -> None:
    shape = (1 << 15, 1 << 15)
    one = Holding(mesh=DeviceMesh.parse("a:3,b:8"), shape=shape, layout=Layout.parse("[a, b]"))
    two = Holding(mesh=DeviceMesh.parse("c:8,d:3"), shape=(1 << 30,), layout=Layout.parse("[c·d]"))
    demand = handover_demand(one, two)
    assert 0 < demand.received < prod(shape) // 24 * 2
    wide = Holding(mesh=one.mesh, shape=(1 << 23, 4), layout=Layout.parse("[-, a]"))
    flat = Holding(mesh=one.mesh, shape=(1 << 25,), layout=Layout.parse("[a]"))
    with pytest.raises(LayoutError) as caught:
        handover_demand(wide, flat)
    assert caught.value.code == "handover.runs"


@pytest.mark.parametrize(
    ("source", "target", "code"),
    [
        (("a:4", (8,), "[-] +a"), ("a:4", (8,), "[a]"), "handover.partial"),
        (("a:4", (8,), "[a]"), ("a:4", (8,), "[-] +a"), "handover.partial"),
        (("a:4", (8,), "[a]"), ("a:8", (8,), "[a]"), "handover.ranks"),
        (("a:4", (8,), "[a]"), ("a:4", (9,), "[a]"), "reshape.elements"),
        (("a:4", (1 << 48, 1 << 48), "[a, -]"), ("a:4", (1 << 48, 1 << 48), "[-, a]"), "handover.elements"),
    ],
)
def test_refusals(source, target, code: str) -> None:
    ends = [Holding(mesh=DeviceMesh.parse(m), shape=s, layout=Layout.parse(text)) for m, s, text in (source, target)]
    with pytest.raises(LayoutError) as caught:
        handover_demand(*ends)
    assert caught.value.code == code
