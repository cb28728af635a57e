"""Layouts: printing and reading, invariants, local shapes, renaming, refusals."""

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.errors import LayoutError
from tests.properties.strategies import Case, cases, layouts, meshes, shard

MESH = DeviceMesh.parse("dp:2,tp:4,ep:1")


@st.composite
def some(draw: st.DrawFn) -> tuple[DeviceMesh, Layout]:
    mesh = draw(meshes())
    return mesh, draw(layouts(mesh, draw(st.integers(0, 4)), reduces=("sum", "mean", "max", "min")))


@given(some())
def test_reading_what_is_printed(made: tuple[DeviceMesh, Layout]) -> None:
    _, layout = made
    assert Layout.parse(str(layout)) == layout
    assert hash(Layout.parse(str(layout))) == hash(layout)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "[-]",
        "[dp, tp·cp, -]",
        "[dp, tp·cp, -] +ep",
        "[-] max(ep)",
        "[-] mean(ep)",
        "[-, -] min(a·b)",
        "[] +dp·tp",
    ],
)
def test_printing_what_is_read(text: str) -> None:
    assert str(Layout.parse(text)) == text


def test_surface_forms() -> None:
    assert Layout.parse(" [ dp ,- , tp · cp ]+ ep ") == Layout((("dp",), (), ("tp", "cp")), ("ep",))
    assert Layout.parse("[ ]") == Layout(())
    assert Layout.parse("[_]") == Layout((("_",),))
    assert Layout(((),), ("b", "a")) == Layout(((),), ("a", "b"))
    assert Layout(((),), (), "max") == Layout(((),))


@given(cases())
def test_local_shapes_are_those_of_the_parts(case: Case) -> None:
    array = case.array()
    for layout in (case.source, case.target):
        shape = layout.local_shape(case.shape, case.mesh)
        assert all(shard(array, layout, case.mesh, rank).shape == shape for rank in range(case.mesh.device_count))


@given(some(), st.data())
def test_uneven_shapes_are_those_of_nested_chunks(made: tuple[DeviceMesh, Layout], data: st.DataObject) -> None:
    mesh, layout = made
    shape = tuple(data.draw(st.integers(0, 12)) for _ in layout.dims)
    held = []
    for rank in range(mesh.device_count):
        sizes = []
        for size, axes in zip(shape, layout.dims, strict=True):
            indices = list(range(size))
            for axis in axes:
                length = max(1, -(-len(indices) // mesh.size(axis)))
                chunks = [indices[i : i + length] for i in range(0, len(indices), length)]
                at = mesh.coordinates(rank)[axis]
                indices = chunks[at] if at < len(chunks) else []
            sizes.append(len(indices))
        held.append(tuple(sizes))
        assert layout.shape_of(shape, mesh, rank) == held[-1]
    assert layout.local_shape(shape, mesh) == held[0] == tuple(max(sizes) for sizes in zip(*held, strict=True))
    assert layout.local_elements(shape, mesh) == max(map(prod, held))
    assert layout.even(shape, mesh) == (len(set(held)) == 1)


@given(some())
def test_adjoint_and_normal(made: tuple[DeviceMesh, Layout]) -> None:
    mesh, layout = made
    assert layout.adjoint.dims == layout.dims
    assert not layout.adjoint.partial
    normal = layout.normal(mesh)
    assert normal.normal(mesh) == normal
    assert normal.used == {axis for axis in layout.used if mesh.size(axis) > 1}


@given(some(), st.data())
def test_renaming_follows_a_split(made: tuple[DeviceMesh, Layout], data: st.DataObject) -> None:
    mesh, layout = made
    axis = data.draw(st.sampled_from(mesh.names))
    finer, parts = mesh.split(axis, (1, mesh.size(axis)))
    renamed = layout.rename(axis, parts)
    assert [finer.size_of(axes) for axes in renamed.dims] == [mesh.size_of(axes) for axes in layout.dims]
    assert finer.size_of(renamed.partial) == mesh.size_of(layout.partial)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("dp", "layout.syntax", ["'dp'", "[dp, tp·cp, -] +ep"]),
        ("[dp", "layout.syntax", ["'[dp'"]),
        ("[dp, dp]", "layout.axis-reused", ["'dp'", "dim 0", "dim 1", "Take 'dp' from dim 1"]),
        ("[dp·dp]", "layout.axis-reused", ["'dp'", "dim 0"]),
        ("[dp] +dp", "layout.axis-reused", ["'dp'", "dim 0", "partial"]),
        ("[-] prod(dp)", "layout.reduce-op", ["'prod'", "sum, mean, max, min"]),
    ],
)
def test_refused_texts(text: str, code: str, said: list[str]) -> None:
    with pytest.raises(LayoutError) as caught:
        Layout.parse(text)
    assert caught.value.code == code
    assert all(word in str(caught.value) for word in said), caught.value


@pytest.mark.parametrize(
    "text",
    [
        "[d p]",
        "[dp tp]",
        "[1]",
        "[·]",
        "[dp·]",
        "[a] b(c",
        "[a] +",
        "[a]] +b",
        "[a] +b)",
        "[a,]",
        "[,]",
        "[a] +-",
        "a·b",
        "",
        "[a] max()",
        "[a]b",
    ],
)
def test_texts_that_are_no_layout(text: str) -> None:
    with pytest.raises(LayoutError) as caught:
        Layout.parse(text)
    assert caught.value.code == "layout.syntax"


def test_refused_shapes() -> None:
    with pytest.raises(LayoutError, match=r"\[dp, -\] has 2 dims.*has 3 \(shape \(2, 2, 2\)\)") as caught:
        Layout.parse("[dp, -]").local_shape((2, 2, 2), MESH, subject="w")
    assert caught.value.code == "layout.rank-mismatch"
    assert caught.value.diagnostic.subject == "w"
    with pytest.raises(LayoutError) as caught:
        Layout.parse("[cp]").local_shape((8,), MESH)
    assert caught.value.code == "mesh.axis-unknown"
