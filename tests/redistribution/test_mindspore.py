"""MindSpore's planner against its own unit tests (U) and against cases worked out by hand (D), as data movement.

A layout is written `matrix | map | shape`. Steps are written on the unified shape: `G1:4` gathers dim 1 among 4 ranks,
`S0:2` slices dim 0 into 2, `A1>0:4` moves an axis of 4 from dim 1 to dim 0.
"""

from itertools import permutations, product

import numpy as np
import pytest

from planner.core.crossing import Crossing, Holding
from planner.errors import LayoutError
from planner.redistribution.mindspore import mindspore_operators, plan_mindspore, unify
from planner.simulate import mismatch, run_crossing
from planner.surfaces import DeviceLayout, device_layout

PAIR = (32, 64)


def holding(text: str, shape: tuple[int, ...]) -> Holding:
    mesh, layout = device_layout.read(text, shape).named()
    return Holding(mesh=mesh, shape=shape, layout=layout)


def unified_text(one: Holding) -> str:
    return str(DeviceLayout.of(one.layout, one.shape, one.mesh))


def moves(crossing: Crossing) -> str:
    """Return the steps of a crossing as the tables write them."""
    names = {"all_gather": "G{0.dim}:{0.group_size}", "slice": "S{0.dim}:{0.group_size}",
             "all_to_all": "A{0.dim}>{0.to_dim}:{0.group_size}"}  # fmt: skip
    return " ".join(names[leg.kind].format(leg.step) for leg in crossing.legs if leg.step)


def assert_moves_the_data(crossing: Crossing) -> None:
    rng = np.random.default_rng(0)
    array = rng.integers(-1000, 1000, crossing.source.shape)
    end = run_crossing(crossing, array)[-1].world
    target = crossing.target
    assert mismatch(end, array.reshape(target.shape), target.layout, target.mesh) == ""


OPERATORS = [
    ("U1", "[2, 4, 2] | [2, 0]", "[4, 2, 2] | [2, 1]", (512, 1024), (512, 1024),
     "Reshape StridedSlice AllGather Split Concat StridedSlice Reshape", ""),
    ("U2", "[16, 1, 1] | [2, 0]", "[1, 16, 1] | [2, 1]", (512, 1024), (512, 1024),
     "AllGather StridedSlice", "AlltoAll"),
    ("U3", "[8] | [0, -1, -1, -1]", "[8] | [0, -1]", (128, 64, 1, 1), (128, 64), "Reshape", ""),
    ("D8", "[4, 2] | [1, 0]", "[8] | [0, -1]", PAIR, PAIR,
     "Reshape AllGather Split Concat StridedSlice Reshape", "Reshape AlltoAll Reshape"),
    ("D14", "[2, 4] | [1, 0, -1]", "[8] | [0, -1]", (2, 16, 32), (32, 32), "Reshape", ""),
    ("D15", "[2, 4] | [1, 0, -1]", "[2, 1, 4] | [2, -1]", (2, 8192, 5120), (16384, 5120),
     "AllGather Split Concat Reshape", ""),
    ("D16", "[4] | [0, -1]", "[4] | [-1, 0]", (4, 3), (3, 4), "AllGather Reshape StridedSlice", ""),
    ("D21", "[16, 1, 1] | [2, 0]", "[16] | [0, -1]", PAIR, PAIR, "", ""),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target", "before", "after", "said", "permuted"),
                         [row[1:] for row in OPERATORS], ids=[row[0] for row in OPERATORS])  # fmt: skip
def test_operators(source, target, before, after, said: str, permuted: str) -> None:
    ends = holding(source, before), holding(target, after)
    assert " ".join(mindspore_operators(plan_mindspore(*ends))) == said
    assert " ".join(mindspore_operators(plan_mindspore(*ends, all_to_all=True))) == (permuted or said)


UNIFIED = [
    ("U4", "[8, 4] | [1, 0]", "[2, 16] | [1, 0]", (512, 1024),
     "[2, 4, 4] | [2, 1, 0, -1] | (2, 256, 4, 256)", "[2, 4, 4] | [2, -1, 1, 0] | (2, 256, 4, 256)"),
    ("U5", "[8, 4] | [1, 0]", "[2, 16] | [0, 1]", (512, 1024),
     "[2, 2, 2, 4] | [3, 2, 1, 0] | (2, 2, 128, 1024)", "[2, 2, 2, 4] | [2, 1, 0, 3] | (2, 2, 128, 1024)"),
    ("U6", "[8] | [0, -1]", "[2, 2, 2] | [2, 1]", (512, 1024),
     "[2, 2, 2] | [2, 1, 0, -1] | (2, 2, 128, 1024)", "[2, 2, 2] | [2, -1, -1, 1] | (2, 2, 128, 1024)"),
    ("U7", "[16, 1, 1] | [2, 0]", "[1, 16, 1] | [2, 1]", (512, 1024),
     "[16] | [0, -1] | (512, 1024)", "[16] | [-1, 0] | (512, 1024)"),
    ("U8", "[8, 4] | [1, 0]", "[8, 4] | [1, 0]", (128, 4096),
     "[8, 4] | [1, -1, 0] | (128, 4, 1024)", "[8, 4] | [1, 0, -1] | (128, 4, 1024)"),
    ("U9", "[8, 4] | [1, 0]", "[8, 4] | [0, 1]", (128, 4096),
     "[4, 2, 4] | [2, 1, -1, 0] | (4, 32, 4, 1024)", "[4, 2, 4] | [0, -1, 2, 1] | (4, 32, 4, 1024)"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target", "shape", "before", "after"),
                         [row[1:] for row in UNIFIED], ids=[row[0] for row in UNIFIED])  # fmt: skip
def test_unified_layouts(source, target, shape, before: str, after: str) -> None:
    found = unify(holding(source, (512, 1024)), holding(target, shape))
    assert found is not None
    assert tuple(map(unified_text, found)) == (before, after)


GROUPS = [
    # name, from, to, shape, rank, groups of its gathers (with the dim where it is told), ranks whose data it needs
    ("U10", "[1, 8] | [1, 0]", "[1, 4, 2] | [2, 1]", (32, 256), 0, [((0, 1), 2)], {0, 1}),
    ("U11", "[8] | [0, -1]", "[4, 2] | [1, -1]", (32, 256), 0, [((0, 1), 1)], {0, 1}),
    ("U12", "[4, 2] | [1, 0]", "[1, 8] | [-1, -1]", (32, 256), 0, [((0, 2, 4, 6), 0), ((0, 1), 1)], set(range(8))),
    ("U13", "[8, 1] | [1, 0]", "[2, 1, 4] | [2, 1]", (32, 256), 0, [((0, 1, 2, 3), 1)], {0, 1, 2, 3}),
    ("U14", "[8, 1] | [1, -1]", "[1, 8] | [-1, 0]", (32, 64), 0, [(tuple(range(8)), 0)], set(range(8))),
    ("U15", "[2, 2, 2] | [2, 1, 0]", "[8, 1, 1] | [2, 1, 0]", (32, 64, 128), 1, [((1, 3), 3), ((0, 1), 4)],
     {0, 1, 2, 3}),
    ("U16", "[8, 1, 8] | [2, 1, -1]", "[8, 8, 1] | [2, 1, 0]", (32, 64, 128), 0, [], {0}),
    ("U17", "[32, 1, 8] | [2, -1, 0]", "[2, 64, 2] | [2, 1, 0]", (32, 64, 128), 1, None, set(range(128))),
    ("U19", "[2, 4] | [0, -1]", "[2, 2, 2] | [1, -1]", (8, 8), 0, [((0, 1), 1)], {0, 1}),
    ("U20", "[4, 2] | [1, -1]", "[2, 2, 2] | [1, -1]", (8, 8), 0, [((0, 2), None), ((0, 4), None)], {0, 2, 4, 6}),
    ("U20", "[4, 2] | [1, -1]", "[2, 2, 2] | [1, -1]", (8, 8), 2, [((0, 2), None), ((2, 6), None)], {0, 2, 4, 6}),
    # Newer versions join the two gathers of U21 in one among 0, 2, 4, 6.
    ("U21", "[2, 2, 2] | [(0, 2, 1), -1]", "[4, 2] | [0, -1]", (8, 8), 0, [((0, 2), None), ((0, 4), None)],
     {0, 2, 4, 6}),
    ("U22", "[2, 2, 2] | [(0, 1), -1]", "[4, 2] | [0, -1]", (8, 8), 0, [((0, 2), None)], {0, 2}),
    ("U23", "[2, 2, 2] | [(0, 2), 1]", "[4, 2] | [0, -1]", (8, 8), 0, [((0, 2), 2), ((0, 4), None)], {0, 2, 4, 6}),
]  # fmt: skip
SLICED = {"U14": "G0:8 S1:8", "U15": "G3:2 S1:2 G4:2 S2:2", "U16": "S1:8", "U20": "G0:2 G1:2 S0:2"}


def needed(crossing: Crossing, rank: int) -> set[int]:
    """Return the ranks from whose data a rank's data is made."""
    ranks = {rank}
    for leg in reversed(crossing.legs):
        if leg.kind == "all_gather" and leg.step is not None:
            ranks = {other for one in ranks for other in leg.source.mesh.group(leg.step.axes, one)}
    return ranks


@pytest.mark.parametrize(("name", "source", "target", "shape", "rank", "groups", "ranks"), GROUPS)
def test_groups(name: str, source, target, shape, rank: int, groups, ranks: set[int]) -> None:
    crossing = plan_mindspore(holding(source, shape), holding(target, shape))
    gathers = [leg for leg in crossing.legs if leg.kind == "all_gather"]
    found = [(tuple(sorted(leg.source.mesh.group(leg.step.axes, rank))), leg.step.dim) for leg in gathers if leg.step]
    if groups is not None:
        assert sorted(group for group, _ in found) == sorted(group for group, _ in groups)
        assert {place for place in groups if place[1] is not None} <= set(found)
    if name in SLICED:
        assert moves(crossing) == SLICED[name]
    assert needed(crossing, rank) == ranks
    assert_moves_the_data(crossing)


def test_a_weight_cut_for_the_optimizer() -> None:
    """U18: dim 0 is cut once more over the axis along which the weight is repeated."""
    shape = (16, 16, 16)
    stored = holding("[2, 2, 2] | [(2, 0), 1, -1]", shape)
    crossing = plan_mindspore(holding("[2, 2, 2] | [2, 1, -1]", shape), stored)
    assert unified_text(crossing.legs[-1].source) == "[2, 2, 2] | [2, 0, 1, -1] | (2, 8, 16, 16)"
    assert moves(crossing) == "S1:2"
    assert_moves_the_data(crossing)


CASES = [
    ("D1", "[8] | [0, -1]", "[8] | [-1, -1]", "G0:8", "", (1024, 128), None),
    ("D2", "[8] | [-1, 0]", "[8] | [-1, -1]", "G1:8", "", (1024, 128), None),
    ("D3", "[8] | [-1, -1]", "[8] | [0, -1]", "S0:8", "", (0, 0), None),
    ("D4", "[8] | [0, -1]", "[8] | [-1, 0]", "G0:8 S1:8", "A0>1:8", (1024, 128), (512, 512)),
    ("D5", "[8] | [-1, 0]", "[8] | [0, -1]", "G1:8 S0:8", "A1>0:8", (1024, 128), (512, 512)),
    ("D6", "[2, 4] | [1, 0]", "[2, 4] | [0, 1]", "G0:2 G1:4 S0:4 S1:2", "G0:2 A1>0:4 S1:2", (1280, 384), (1280, 1152)),
    ("D7", "[2, 2] | [1, 0]", "[2, 2] | [0, 1]", "G0:2 G1:2 S0:2 S1:2", "G0:2 A1>0:2 S1:2", (1536, 768), (2560, 2304)),
    ("D8", "[4, 2] | [1, 0]", "[8] | [0, -1]", "G2:2 S1:2", "A2>1:2", (256, 128), (512, 512)),
    ("D9", "[8] | [0, -1]", "[2, 4] | [1, 0]", "G1:4 S2:4", "A1>2:4", (512, 128), (512, 512)),
    ("D10", "[2, 4] | [1, -1]", "[4, 2] | [1, -1]", "S1:2", "", (0, 0), None),
    ("D11", "[4, 2] | [1, -1]", "[2, 4] | [1, -1]", "G1:2", "", (512, 256), None),
    ("D12", "[2, 2, 2] | [2, 1]", "[4, 2] | [1, -1]", "G2:2 S1:2", "A2>1:2", (512, 256), (1024, 1024)),
    ("D13", "[2, 4] | [0, -1]", "[4, 2] | [1, -1]", "G1:2 G0:2 S1:2 S0:2", "G1:2 A0>1:2 S0:2", (1536, 768),
     (2560, 2304)),
    ("D18", "[2, 2, 2] | [2, 1, 0]", "[2, 2, 2] | [0, 2, 1]", "G0:2 G2:2 S0:2 G1:2 S2:2 S1:2",
     "G0:2 A2>0:2 A1>2:2 S1:2", (320, 160), (576, 544)),
    ("D21", "[16, 1, 1] | [2, 0]", "[16] | [0, -1]", "", "", (0, 0), None),
    ("D22", "[2, 4] | [-1, 0]", "[2, 4] | [1, -1]", "S0:2 G1:4", "", (512, 128), None),
    ("D23", "[2, 4] | [1, 0]", "[2, 4] | [1, -1]", "G1:4", "", (512, 128), None),
    ("D24", "[2, 4] | [1, -1]", "[2, 4] | [1, 0]", "S1:4", "", (0, 0), None),
    ("D25", "[2, 4] | [0, -1]", "[2, 4] | [1, 0]", "G0:4 S1:4 S0:2", "A0>1:4 S0:2", (1024, 256), (1024, 1024)),
    ("D26", "[2, 4] | [1, -1]", "[2, 4] | [0, -1]", "G0:2 S0:4", "", (1024, 512), None),
    ("D27", "[2, 2, 2] | [2, 1, -1]", "[2, 2, 2] | [-1, 2, 1]", "G1:2 S2:2 G0:2 S1:2", "A1>2:2 A0>1:2", (256, 128),
     (512, 512)),
    ("D28", "[4, 2] | [1, 0, -1]", "[4, 2] | [1, -1, 0]", "G1:2 S2:2", "A1>2:2", (384, 192), (768, 768)),
    ("D14", "[2, 4] | [1, 0, -1]", "[8] | [0, -1]", "", "", (0, 0), None),
    ("D14b", "[2, 4] | [1, 0, -1]", "[8] | [0, -1]", "G2:4 S1:4", "A2>1:4", (1024, 256), (1024, 1024)),
    ("D15", "[2, 4] | [1, 0, -1]", "[2, 1, 4] | [2, -1]", "G1:4", "", (20_971_520, 5_242_880), None),
    ("D16", "[4] | [0, -1]", "[4] | [-1, 0]", "G0:4 S1:4", "", None, None),
    ("D17", "[8] | [-1, 0]", "[8] | [-1, 0]", "G1:8 S1:8", "", None, None),
]  # fmt: skip
SHAPES = {
    "D18": ((8, 8, 8), (8, 8, 8)), "D27": ((8, 8, 8), (8, 8, 8)), "D28": ((4, 12, 64), (4, 12, 64)),
    "D14": ((2, 16, 32), (32, 32)), "D14b": ((8, 16, 32), (128, 32)), "D15": ((2, 8192, 5120), (16384, 5120)),
    "D16": ((4, 3), (3, 4)), "D17": ((96, 128), (128, 96)),
}  # fmt: skip
RESHAPED = {
    # The shapes that the ranks' slices have after the first reshape and after the last one.
    "D8": [(1, 8, 32), (4, 64)], "D9": [(1, 4, 64), (16, 16)], "D10": [(1, 16, 64), (8, 64)],
    "D11": [(1, 8, 64), (16, 64)], "D12": [(1, 16, 32), (8, 64)], "D13": [(1, 8, 64), (8, 64)], "D14": [(4, 32)],
    "D14b": [(1, 4, 4, 32), (16, 32)], "D15": [(8192, 5120)], "D16": [(3, 4)],
}  # fmt: skip


def symbolic_cost(crossing: Crossing) -> tuple[float, float]:
    """Return MindSpore's communication forward and backward in elements, slices updated after every step."""
    forward = backward = 0.0
    for leg in crossing.legs:
        if leg.step and leg.kind == "all_gather":
            forward += leg.step.source_elements * leg.step.group_size / 2
            backward += leg.step.source_elements / 2
        elif leg.step and leg.kind == "all_to_all":
            forward += 2 * leg.step.source_elements
            backward += 2 * leg.step.source_elements
    return forward, backward


@pytest.mark.parametrize(("name", "source", "target", "default", "permuted", "cost", "permuted_cost"),
                         CASES, ids=[row[0] for row in CASES])  # fmt: skip
def test_cases(name: str, source, target, default: str, permuted: str, cost, permuted_cost) -> None:
    before, after = SHAPES.get(name, (PAIR, PAIR))
    ends = holding(source, before), holding(target, after)
    plain, all_to_all = plan_mindspore(*ends), plan_mindspore(*ends, all_to_all=True)
    assert (moves(plain), moves(all_to_all)) == (default, permuted or default)
    if cost:
        assert symbolic_cost(plain) == cost
        assert symbolic_cost(all_to_all) == (permuted_cost or cost)
    if name in RESHAPED:
        views = [leg for leg in plain.legs if leg.kind == "view"]
        shapes = [(leg.source.local_shape(0), leg.target.local_shape(0)) for leg in views]
        assert [b for a, b in shapes if a != b] == RESHAPED[name]
    if name == "D15":  # the same on a tensor that fits
        ends = holding(source, (2, 16, 4)), holding(target, (32, 4))
        plain = plan_mindspore(*ends)
        all_to_all = plan_mindspore(*ends, all_to_all=True)
    assert_moves_the_data(plain)
    assert_moves_the_data(all_to_all)


def test_grids_without_a_chain_are_refused() -> None:
    """D19, which the default planner does."""
    with pytest.raises(LayoutError) as caught:
        plan_mindspore(holding("[3, 8] | [1, 0]", (24, 24)), holding("[8, 3] | [1, 0]", (24, 24)))
    assert (caught.value.code, str(caught.value)) == (
        "mindspore.no-divisor-chain",
        "MindSpore's planner finds no device matrix that is finer than [3, 8] and [8, 3]: their cumulative products "
        "from the right do not divide each other. Use the default planner, or matrices whose sizes divide each other.",
    )


def test_grids_with_a_chain_of_other_numbers_are_not() -> None:
    crossing = plan_mindspore(holding("[24] | [0, -1]", (24, 24)), holding("[8, 3] | [1, 0]", (24, 24)))
    assert moves(crossing) == "G1:3 S2:3"
    assert_moves_the_data(crossing)


def test_nothing_to_do_and_dims_of_size_1() -> None:
    same = holding("[2, 4] | [1, 0]", PAIR)
    assert plan_mindspore(same, same).legs == ()
    ones = plan_mindspore(holding("[2, 4] | [-1, -1]", (1, 1)), holding("[8] | [-1]", (1,)))
    assert moves(ones) == ""
    assert_moves_the_data(ones)


def maps(rank: int, count: int) -> list[str]:
    """Return every map of `rank` dims on `count` matrix dims with at most one on each."""
    entries = [e for e in product(range(-1, count), repeat=rank) if len([x for x in e if x >= 0]) == len({*e} - {-1})]
    return [f"[{', '.join(map(str, entry))}]" for entry in entries]


def test_every_pair_of_maps_of_three_dims() -> None:
    """What MindSpore's own test infers for every pair, here with numbers."""
    shape = (2, 2, 2)
    ends = [holding(f"[2, 2, 2] | {entry}", shape) for entry in maps(3, 3)]
    assert len(ends) == 34
    for source, target in product(ends, repeat=2):
        for all_to_all in (False, True):
            assert_moves_the_data(plan_mindspore(source, target, all_to_all=all_to_all))


def test_matrices_in_every_order_with_several_axes_on_a_dim() -> None:
    texts = ["[(1, 0), -1]", "[(0, 1), -1]", "[1, 0]", "[0, 1]", "[-1, (0, 1)]", "[0, -1]", "[-1, -1]"]
    ends = [holding(f"{list(matrix)} | {text}", (16, 32)) for matrix in permutations((2, 4)) for text in texts]
    for source, target in product(ends, repeat=2):
        assert_moves_the_data(plan_mindspore(source, target))
