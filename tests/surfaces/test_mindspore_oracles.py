"""What MindSpore's own tests and documentation say of strategies, matrices, maps and slices."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.errors import LayoutError
from planner.simulate import slices
from planner.surfaces import DeviceLayout, alias_layout, check_shared, device_layout, read_layout, read_layouts
from planner.surfaces.device_layout import Map
from tests.properties.strategies import layouts

from .mindspore import conv2d, elementwise, gather, matmul, placed
from .test_dtensor import tensors

A, B = (2, 4, 8, 16), (2, 4, 16, 32)
BIG = (64, 64, 64, 64)


def maps(*entries: int) -> Map:
    return tuple(() if entry < 0 else (entry,) for entry in entries)


MATRICES = [
    # MatMul ((a, b), (b, c)): matrix [a, b, c].
    (matmul((8, 16), (16, 32)), ((2, 4), (4, 8)), (2, 4, 8), [(2, 1), (1, 0)], (2, 0)),
    (matmul((8, 16), (32, 16), transposed=True), ((2, 4), (8, 4)), (2, 4, 8), [(2, 1), (0, 1)], (2, 0)),
    (matmul(A, B), ((2, 4, 2, 4), (2, 4, 4, 8)), (2, 4, 2, 4, 8), [(4, 3, 2, 1), (4, 3, 1, 0)], (4, 3, 2, 0)),
    # The unit tests of MatMul's device matrix.
    (matmul(A, B), ((2, 4, 8, 16), (2, 4, 16, 1)), (2, 4, 8, 16, 1), [(4, 3, 2, 1), (4, 3, 1, -1)], (4, 3, 2, -1)),
    (matmul(A, B), ((2, 4, 8, 8), (2, 4, 8, 2)), (2, 4, 8, 8, 2), [(4, 3, 2, 1), (4, 3, 1, 0)], (4, 3, 2, 0)),
    (matmul(A, (32, 16), transposed=True), ((2, 4, 8, 16), (1, 16)), (2, 4, 8, 16, 1),
     [(4, 3, 2, 1), (-1, 1)], (4, 3, 2, -1)),
    (matmul(A, (32, 16), transposed=True), ((2, 4, 8, 16), (2, 16)), (2, 4, 8, 16, 2),
     [(4, 3, 2, 1), (0, 1)], (4, 3, 2, 0)),
    (elementwise(BIG[:3], (64, 1, 64)), ((2, 4, 8), (2, 1, 8)), (2, 4, 8), [(2, 1, 0), (2, -1, 0)], (2, 1, 0)),
    (conv2d((8, 8, 8, 8), (8, 8, 3, 3)), ((2, 2, 2, 2), (4, 2, 1, 1)), (2, 2, 2, 2, 4),
     [(4, 3, 2, 1), (0, 3, -1, -1)], (4, 0, 2, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "counts", "matrix", "inputs", "output"), MATRICES)
def test_matrices_and_maps(rule, counts, matrix, inputs, output) -> None:
    found = placed(rule, counts)
    # A factor of the rule that is cut nowhere, such as that of a broadcast dim, is a matrix dim of size 1 to us.
    assert [layout.normal for layout in found.inputs] == [
        DeviceLayout(matrix=matrix, tensor_map=maps(*entries), shape=layout.shape).normal
        for entries, layout in zip(inputs, found.inputs, strict=True)
    ]
    assert (
        found.outputs[0].normal
        == DeviceLayout(matrix=matrix, tensor_map=maps(*output), shape=found.outputs[0].shape).normal
    )
    if len(found.matrix) == len(matrix):
        assert found.matrix == matrix


def test_batch_dims_that_only_the_second_operand_has_come_first() -> None:
    rule = matmul((8, 16), (2, 4, 32, 16), transposed=True)
    found = placed(rule, ((8, 16), (2, 4, 1, 16)), order=("b0", "b1", "m", "k", "n"))
    assert found.matrix == (2, 4, 8, 16, 1)
    assert [layout.tensor_map for layout in found.inputs] == [maps(2, 1), maps(4, 3, -1, 1)]


def holders(layout: DeviceLayout) -> list[tuple[int, ...]]:
    """Return the ranks that hold each part, parts in row-major order."""
    mesh, named = layout.named()
    found: dict[object, list[int]] = {}
    for rank, part in enumerate(slices(named, layout.shape, mesh)):
        found.setdefault(part, []).append(rank)
    return [tuple(found[part]) for part in sorted(found)]


def test_the_documented_placement_of_a_matmul() -> None:
    x, w = placed(matmul((8, 8), (8, 8)), ((2, 1), (1, 4)), 8).inputs
    assert holders(x) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert holders(w) == [(0, 4), (1, 5), (2, 6), (3, 7)]


def test_the_repetition_goes_right_or_left() -> None:
    right = placed(elementwise((8, 8)), ((4, 1),), 8)
    assert (right.matrix, right.inputs[0].tensor_map) == ((4, 1, 2), maps(2, -1))
    assert holders(right.inputs[0]) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    left = placed(elementwise((8, 8)), ((4, 1),), 8, side="left")
    assert (left.matrix, left.inputs[0].tensor_map) == ((2, 4, 1), maps(1, -1))
    assert holders(left.inputs[0]) == [(0, 4), (1, 5), (2, 6), (3, 7)]
    # The output of ((a, b) → (a, 1)) lies as the next operator wants it, with the repetition to the right.
    assert holders(placed(elementwise((8, 8)), ((2, 1),), 8).inputs[0]) == holders(
        DeviceLayout(matrix=(2, 4), tensor_map=maps(1, -1), shape=(8, 8))
    )


def test_a_split_table_is_repeated_to_the_left() -> None:
    rule = gather((32, 8), (4, 4))
    split = placed(rule, ((4, 1), (1, 1)), 8, op="embedding")
    assert holders(split.inputs[0]) == [(0, 4), (1, 5), (2, 6), (3, 7)]
    whole = placed(rule, ((1, 4), (1, 1)), 8, op="embedding")
    assert holders(whole.inputs[0]) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert holders(placed(rule, ((4, 1), (1, 1)), 8, op="embedding", side="right").inputs[0])[0] == (0, 1)


@pytest.mark.parametrize(
    ("x", "w"),
    [(((24, 1), (1, 1)), (24, 1)), (((3, 8), (8, 1)), (3, 8)), (((8, 3), (3, 1)), (8, 3)), (((8, 1), (1, 3)), (8, 3))],
)
def test_24_ranks(x, w) -> None:
    assert placed(matmul((96, 96), (96, 96)), x, 24).matrix
    assert placed(elementwise((96, 96), (96, 96)), (w, w), 24).matrix


SHARED = [
    (((1, 2), (2, 4)), (2, 4), ""),
    (((2, 1), (1, 1)), (1, 1), ""),
    (((1, 2), (2, 1)), (2, 1), ""),
    (((1, 2), (2, 4)), (4, 2),
     "w: rank 0 holds [0:32, 0:16] of it for matmul and [0:16, 0:32] for relu. "
     "Choose strategies, or sides of the repetition, that put the same part on every rank."),
    (((2, 2), (2, 2)), (2, 2),
     "w: rank 1 holds [0:32, 32:64] of it for matmul and [0:32, 0:32] for relu. "
     "Choose strategies, or sides of the repetition, that put the same part on every rank."),
]  # fmt: skip


@pytest.mark.parametrize(("product", "relu", "said"), SHARED)
def test_shared_weights_are_compared_by_ranks(product, relu, said) -> None:
    shape = (64, 64)
    uses = [
        ("matmul", placed(matmul(shape, shape), product, 8).inputs[1]),
        ("relu", placed(elementwise(shape), (relu,), 8).inputs[0]),
    ]
    if not said:
        check_shared("w", uses)
        return
    with pytest.raises(LayoutError) as caught:
        check_shared("w", uses)
    assert (caught.value.code, str(caught.value)) == ("mindspore.shared-weight", said)


ALIASES = [
    ('Layout((2,2,2),("dp","sp","mp"))("sp","mp")', (1024, 1024), (512, 512)),
    ('Layout((2,2,2,2),("dp","sp","mp","vp"))(("sp","mp"),"vp")', (1024, 1024), (256, 512)),
    ('Layout((2,2,2,2),("dp","sp","mp","vp"))(("sp","mp"),"None")', (1024, 1024), (256, 1024)),
    ('Layout((2,2,4),("dp","vp","mp"))(("dp","vp"),None,"mp")', (8, 1024, 1024), (2, 1024, 256)),
]


@pytest.mark.parametrize(("text", "shape", "local"), ALIASES)
def test_slices_of_aliases(text: str, shape: tuple[int, ...], local: tuple[int, ...]) -> None:
    layout = alias_layout.read(text)
    mesh, named = layout.named()
    assert named.local_shape(shape, mesh) == local
    assert str(alias_layout.read(str(layout))) == str(layout)


def test_the_first_alias_of_a_tuple_is_the_major_one() -> None:
    layout = alias_layout.read('Layout((2,2,2),("dp","sp","mp"))(("mp"),("sp","dp"))')
    found = holders(layout.triple((2, 4)))
    assert found[:4] == [(0,), (4,), (2,), (6,)]
    assert str(layout) == 'Layout((2, 2, 2), ("dp", "sp", "mp"))("mp", ("sp", "dp"))'


@pytest.mark.parametrize(
    ("text", "first"),
    [
        # Of the resharding tests: where the four rows that rank 0 gathers come from.
        ("[2, 2, 2] | [(0, 2, 1), -1]", [(0,), (2,), (4,), (6,)]),
        ("[8, 1] | [1, -1]", [(0,), (1,), (2,), (3,)]),
        ("[2, 4] | [0, -1]", [(0, 4), (1, 5), (2, 6), (3, 7)]),
        ("[4, 2] | [1, -1] | (8, 8)", [(0, 1), (2, 3), (4, 5), (6, 7)]),
    ],
)
def test_matrix_and_map(text: str, first: list[tuple[int, ...]]) -> None:
    assert holders(device_layout.read(text, (8, 8)))[:4] == first


def test_normal_forms() -> None:
    made = device_layout.read("[16, 1, 1] | [2, 0]", (512, 1024))
    assert str(made.normal) == "[16] | [0, -1] | (512, 1024)"
    assert str(device_layout.read("[1, 16, 1] | [2, 1]", (512, 1024)).normal) == "[16] | [-1, 0] | (512, 1024)"
    assert made.normal == device_layout.read("[16] | [0, -1]", (512, 1024))
    assert str(device_layout.read("[8] | [0, -1, -1, -1]", (128, 64, 1, 1)).normal) == "[8] | [0, -1] | (128, 64)"
    assert str(device_layout.read("[1] | [-1, 0]", (1, 1)).normal) == "[1] | [-1] | (1)"


@given(tensors(partial=False))
def test_there_and_back(made: tuple[DeviceMesh, Layout, tuple[int, ...]]) -> None:
    mesh, layout, shape = made
    even = tuple(mesh.device_count * size for size in shape)
    triple = DeviceLayout.of(layout, even, mesh)
    assert triple.named(mesh.names) == (mesh, layout)
    assert device_layout.read(str(triple), even) == triple
    aliases = alias_layout.of_layout(layout, mesh)
    assert alias_layout.read(str(aliases)) == aliases
    assert aliases.named() == (mesh, layout)
    assert aliases.triple(even) == triple
    for text in (str(triple), str(aliases)):
        assert read_layout(text, mesh, even) == layout.normal(mesh)


def refinable(mesh: DeviceMesh, matrix: DeviceMesh) -> bool:
    """Return whether the numbers of ranks in a run, of both, divide each other."""
    runs = sorted({grid.stride(name) for grid in (mesh, matrix) for name in grid.names} | {mesh.device_count})
    return mesh.device_count == matrix.device_count and all(b % a == 0 for a, b in pairwise(runs))


@given(tensors(partial=False), st.data())
def test_on_one_mesh_every_rank_keeps_its_part(made, data: st.DataObject) -> None:
    mesh, layout, shape = made
    matrix = DeviceMesh(tuple(data.draw(st.permutations(mesh.axes))))
    wanted = data.draw(layouts(matrix, len(shape), partial=False))
    even = tuple(mesh.device_count * size for size in shape)
    texts = (str(layout), str(DeviceLayout.of(wanted, even, matrix)))
    if not refinable(mesh, matrix):
        with pytest.raises(LayoutError, match="have no common refinement"):
            read_layouts(texts, mesh, even)
        return
    finer, (a, b) = read_layouts(texts, mesh, even)
    assert slices(a, even, finer) == slices(layout, even, mesh)
    assert slices(b, even, finer) == slices(wanted, even, matrix)


def test_refinement_names_the_parts() -> None:
    mesh, layouts = read_layouts(("[4, 2] | [1, -1]", "[dp, tp]"), DeviceMesh.parse("dp:2,tp:4"), (8, 8))
    assert (str(mesh), [str(layout) for layout in layouts]) == (
        "dp:2,tp0:2,tp1:2", ["[dp·tp0, -]", "[dp, tp0·tp1]"],
    )  # fmt: skip
    mesh, layouts = read_layouts(("[2, 3] | [1, 0]",), DeviceMesh.parse("tp:6"), (6, 6))
    assert (str(mesh), str(layouts[0])) == ("tp0:2,tp1:3", "[tp0, tp1]")
    with pytest.raises(LayoutError) as caught:
        read_layouts(("[8, 3] | [1, 0]",), DeviceMesh.parse("a:3,b:8"), (24, 24))
    assert (caught.value.code, str(caught.value)) == (
        "mesh.no-refinement",
        "The mesh a:3,b:8 and (8, 3) have no common refinement: one counts ranks in runs of 3, the other in runs of 8 "
        "(8 % 3 = 2). Use sizes that divide each other, or another mesh.",
    )
    with pytest.raises(LayoutError) as caught:
        read_layout("[4, 2] | [1, -1]", DeviceMesh.parse("dp:2,tp:4"), (8, 8))
    assert str(caught.value) == (
        "'[4, 2] | [1, -1]' cuts axes of the mesh dp:2,tp:4 in parts. Use the mesh dp:2,tp0:2,tp1:2."
    )
