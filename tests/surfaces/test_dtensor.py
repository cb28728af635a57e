"""DTensor placements: both ways, orders, refusals, and torch itself as the oracle of every rank's part."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.errors import LayoutError
from planner.simulate import slices
from planner.surfaces import dtensor, read_layout
from tests.properties.strategies import layouts, meshes

MESH = DeviceMesh.parse("dp:2,tp:4")


@st.composite
def tensors(draw: st.DrawFn, partial: bool = True) -> tuple[DeviceMesh, Layout, tuple[int, ...]]:
    mesh = draw(meshes())
    rank = draw(st.integers(1, 3))
    shape = draw(st.tuples(*[st.integers(1, 25)] * rank))
    return mesh, draw(layouts(mesh, rank, partial=partial, reduces=("sum", "max", "min"))), shape


@given(tensors())
def test_there_and_back(made: tuple[DeviceMesh, Layout, tuple[int, ...]]) -> None:
    mesh, layout, shape = made
    placements = dtensor.of_layout(layout, mesh)
    assert dtensor.to_layout(placements, mesh, len(shape)) == layout
    assert dtensor.read(dtensor.text_of(placements)) == placements
    assert read_layout(dtensor.text_of(placements), mesh, shape) == layout


@given(tensors())
def test_strided_there_and_back(made: tuple[DeviceMesh, Layout, tuple[int, ...]]) -> None:
    mesh, layout, shape = made
    even = tuple(mesh.device_count * size for size in shape)
    placements = dtensor.strided(layout, even, mesh)
    back = dtensor.to_layout(dtensor.read(dtensor.text_of(placements)), mesh, len(shape))
    assert back.normal(mesh) == layout.normal(mesh)


def torch_parts(placements: dtensor.Placements, shape: tuple[int, ...], mesh: DeviceMesh) -> list[Any]:
    """Return every rank's index ranges as torch has them."""
    pytest.importorskip("torch")
    from torch.distributed.tensor import Partial, Replicate, Shard
    from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset
    from torch.distributed.tensor.placement_types import _StridedShard

    def of(placement: dtensor.Placement) -> Any:
        if placement.dim is not None:
            strided = _StridedShard(placement.dim, split_factor=placement.factor)
            return strided if placement.factor > 1 else Shard(placement.dim)
        return Partial(placement.reduce) if placement.reduce else Replicate()

    made = [of(placement) for placement in placements]
    sizes = tuple(size for _, size in mesh.axes)
    parts = []
    for rank in range(mesh.device_count):
        place = list(mesh.coordinates(rank).values())
        local, offset = _compute_local_shape_and_global_offset(shape, sizes, place, made)
        parts.append(tuple((start, start + size) for start, size in zip(offset, local, strict=True)))
    return parts


def assert_same(ours: Any, torchs: Any) -> None:
    for rank, (mine, its) in enumerate(zip(ours, torchs, strict=True)):
        # Where an empty part begins means nothing.
        assert [b - a for a, b in mine] == [b - a for a, b in its], f"rank {rank}"
        assert [p for p in mine if p[0] < p[1]] == [p for p in its if p[0] < p[1]], f"rank {rank}"


@given(tensors(), st.data())
def test_parts_are_those_of_torch(made: tuple[DeviceMesh, Layout, tuple[int, ...]], data: st.DataObject) -> None:
    mesh, layout, shape = made
    ordered = Layout(
        tuple(tuple(axis for axis in mesh.names if axis in axes) for axes in layout.dims), layout.partial, layout.reduce
    )
    assert_same(slices(ordered, shape, mesh), torch_parts(dtensor.of_layout(ordered, mesh), shape, mesh))
    even = tuple(mesh.device_count * size for size in shape)
    assert_same(slices(layout, even, mesh), torch_parts(dtensor.strided(layout, even, mesh), even, mesh))


@given(tensors())
def test_orders_are_torchs(made: tuple[DeviceMesh, Layout, tuple[int, ...]]) -> None:
    pytest.importorskip("torch")
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry

    class Mesh:
        def __init__(self, mesh: DeviceMesh) -> None:
            self.sizes = [size for _, size in mesh.axes]

        def size(self, axis: int) -> int:
            return self.sizes[axis]

    mesh, layout, shape = made
    even = tuple(mesh.device_count * size for size in shape)
    ours = dtensor.strided(layout, even, mesh)
    order = tuple(
        ShardOrderEntry(dim, tuple(map(mesh.names.index, axes))) for dim, axes in enumerate(layout.dims) if axes
    )
    plain = tuple(Shard(0 if p.dim is None else p.dim) for p in ours)
    theirs = DTensorSpec._convert_shard_order_to_StridedShard(order, plain, Mesh(mesh))
    factors = [getattr(placement, "split_factor", 1) for placement in theirs]
    assert factors == [placement.factor for placement in ours]


def test_a_process_group_gives_the_same() -> None:
    pytest.importorskip("torch")
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh as TorchMesh
    from torch.distributed.tensor import Partial, Replicate, Shard
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
    from torch.testing._internal.distributed.fake_pg import FakeStore

    parts = slices(Layout.parse("[dp·tp, -]"), (10, 3), MESH)
    for rank in (1, 6):
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=8)
        try:
            mesh = TorchMesh("cpu", torch.arange(8).reshape(2, 4))
            local, offset = compute_local_shape_and_global_offset((10, 3), mesh, [Shard(0), Shard(0)])
            assert parts[rank] == tuple((o, o + n) for o, n in zip(offset, local, strict=True))
            assert compute_local_shape_and_global_offset((10, 3), mesh, [Partial(), Replicate()])[0] == (10, 3)
        finally:
            dist.destroy_process_group()


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("Shard(0), Shard(1)", "[dp, tp]"),
        ("(Shard(dim=0), Replicate())", "[dp, -]"),
        ("[Replicate(), Shard(-1)]", "[-, tp]"),
        ("Shard(0), Shard(0)", "[dp·tp, -]"),
        ("Shard(0)[1], Shard(0)[0]", "[tp·dp, -]"),
        ("_StridedShard(dim=0, sf=4), Shard(0)", "[tp·dp, -]"),
        ("_StridedShard(0, split_factor=4), Shard(0)", "[tp·dp, -]"),
        ("Partial(), Shard(1)", "[-, tp] +dp"),
        ("Partial(reduce_op='max'), Partial(max)", "[-, -] max(dp·tp)"),
        ("dt.Shard(1), dt.Replicate()", "[-, dp]"),
    ],
)
def test_read(text: str, layout: str) -> None:
    assert str(read_layout(text, MESH, (8, 8))) == layout


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("Shard(0)", "surface.placement-count",
         "There are 1 placements for the 2 axes of the mesh dp:2,tp:4. Give one a mesh axis, in the order dp, tp."),
        ("Shard(2), Replicate()", "surface.placement-dim",
         "Shard(2) for axis 'dp': the tensor has 2 dims. Name a dim from 0 to 1."),
        ("Partial(), Partial(max)", "surface.partial-mixed",
         "The placements are Partial by several reductions: sum over dp, max over tp. "
         "Reduce all but one of them first."),
        ("Partial(product), Replicate()", "layout.reduce-op",
         "'product' is not a reduction. Use one of sum, mean, max, min."),
        ("Shard(0)[1], Shard(0)[1]", "surface.placement-order",
         "Dim 0 is sharded by dp Shard(0)[1], tp Shard(0)[1]; the positions have to be 0 to 1, each once. "
         "Give every Shard of the dim its position, as in Shard(0)[1], Shard(0)[0]."),
        ("_StridedShard(0, 3), Shard(0)", "surface.placement-order",
         "_StridedShard(dim=0, sf=3) for axis 'dp': no inner axes on dim 0 of the mesh dp:2,tp:4 cut it into 3 parts. "
         "Use a split factor that is a product of inner axes' sizes."),
        ("Shard(), Shard(0)", "surface.placement-syntax",
         "'Shard()' is not a placement. Write one placement a mesh axis, e.g. Shard(0), Replicate(), Partial(sum)."),
        ("Shard('x'), Shard(0)", "surface.placement-syntax",
         "\"'x'\" is not a number. Write one placement a mesh axis, e.g. Shard(0), Replicate(), Partial(sum)."),
        ("Shard(0)[-1], Shard(0)", "surface.placement-syntax",
         "Shard(0)[-1] is not a placement: a position is a number behind a Shard. "
         "Write one placement a mesh axis, e.g. Shard(0), Replicate(), Partial(sum)."),
    ],
)  # fmt: skip
def test_refused(text: str, code: str, said: str) -> None:
    with pytest.raises(LayoutError) as caught:
        read_layout(text, MESH, (8, 8))
    assert (caught.value.code, str(caught.value)) == (code, said)


def test_orders_that_torch_can_not_write() -> None:
    layout = Layout.parse("[tp·dp, -]")
    with pytest.raises(LayoutError) as caught:
        dtensor.of_layout(layout, MESH, ordered=False)
    assert str(caught.value) == (
        "Dim 0 of [tp·dp, -] is cut by tp·dp in this order; plain placements always cut in the order of the mesh "
        "dp:2,tp:4. Give a shard order too, or use axes in mesh order."
    )
    with pytest.raises(LayoutError) as caught:
        dtensor.strided(layout, (12, 8), MESH)
    assert caught.value.code == "surface.placement-order"
    # With such sizes torch's parts can be other ones.
    mesh = DeviceMesh.parse("dp:4,tp:2")
    strided = (dtensor.Placement(dim=0, factor=2), dtensor.Placement(dim=0))
    assert [p[0] for p in torch_parts(strided, (9, 8), mesh)] != [p[0] for p in slices(layout, (9, 8), mesh)]
