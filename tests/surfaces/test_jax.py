"""JAX partition specs: the documented meaning as a table derived by hand, both ways, refusals."""

import pytest
from hypothesis import given

from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.errors import LayoutError
from planner.simulate import slices
from planner.surfaces import jax, read_layout

from .test_dtensor import tensors

MESH = DeviceMesh.parse("x:4,y:2")


@given(tensors(partial=False))
def test_there_and_back(made: tuple[DeviceMesh, Layout, tuple[int, ...]]) -> None:
    mesh, layout, shape = made
    spec = jax.of_layout(layout, mesh)
    assert jax.read(str(spec)) == spec
    assert jax.to_layout(spec, mesh, len(shape)) == layout


# What jax.debug.visualize_array_sharding draws for an (8, 2) array on Mesh(devices.reshape(4, 2), ('x', 'y')): per
# rank the rows, and the columns.
PARTS = {
    "P('x', 'y')": [((2 * (r // 2), 2 * (r // 2) + 2), (r % 2, r % 2 + 1)) for r in range(8)],
    "P('x')": [((2 * (r // 2), 2 * (r // 2) + 2), (0, 2)) for r in range(8)],
    "P('x', None)": [((2 * (r // 2), 2 * (r // 2) + 2), (0, 2)) for r in range(8)],
    "P(None, 'y')": [((0, 8), (r % 2, r % 2 + 1)) for r in range(8)],
    "P('y', None)": [((4 * (r % 2), 4 * (r % 2) + 4), (0, 2)) for r in range(8)],
    "P(('x', 'y'))": [((r, r + 1), (0, 2)) for r in range(8)],
    "P(('y', 'x'), None)": [((4 * (r % 2) + r // 2, 4 * (r % 2) + r // 2 + 1), (0, 2)) for r in range(8)],
    "P()": [((0, 8), (0, 2))] * 8,
    "PartitionSpec((), None)": [((0, 8), (0, 2))] * 8,
}


@pytest.mark.parametrize("text", PARTS)
def test_parts(text: str) -> None:
    assert list(slices(read_layout(text, MESH, (8, 2)), (8, 2), MESH)) == PARTS[text]


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("jax.sharding.PartitionSpec('x', None)", "[x, -]"),
        ('P(["x", "y"])', "[x·y, -]"),
        ("P('x', unreduced={'y'})", "[x, -] +y"),
        ("P('x', reduced={'y'})", "[x, -]"),
    ],
)
def test_read(text: str, layout: str) -> None:
    assert str(read_layout(text, MESH, (8, 2))) == layout


@pytest.mark.parametrize(
    "text", ["P(P.UNCONSTRAINED, 'x')", "P('x', unreduced={'y'})", "P(None, reduced={'x', 'y'})", "P(('x', 'y'), None)"]
)
def test_forms_that_are_no_layout_are_kept_as_they_are(text: str) -> None:
    assert str(jax.read(text)) == text


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("P('x', None, None)", "surface.spec-rank",
         "P('x', None, None) has 3 entries, the tensor has 2 dims. Give at most one entry a dim."),
        ("P('x', 'x')", "layout.axis-reused",
         "Axis 'x' is used for dim 0 and for dim 1; an axis may be used once in a tensor. "
         "Take 'x' from dim 1 or use another axis there."),
        ("P('z')", "mesh.axis-unknown", "The mesh x:4,y:2 has no axis 'z'. Use one of: x, y."),
        ("P('x', P.UNCONSTRAINED)", "surface.unconstrained",
         "Dim 1 of P('x', P.UNCONSTRAINED) is left to the compiler, so it is not known where its parts lie. "
         "Name its axes, or None to keep it whole."),
        ("P(1)", "surface.spec-syntax",
         "'1' is not an entry of a partition spec. Write an axis name in quotes, a tuple of them, or None."),
        ("P(x)", "surface.spec-syntax",
         "'x' is not an entry of a partition spec. Write an axis name in quotes, a tuple of them, or None."),
        ("P('x', mesh=y)", "surface.spec-syntax",
         "\"P('x', mesh=y)\" is not a partition spec. Write e.g. P('dp', ('sp', 'tp'), None)."),
        ("P('x'", "surface.spec-syntax",
         "\"P('x'\" is not a partition spec: ',' or ')' is expected in place of the end. "
         "Write e.g. P('dp', ('sp', 'tp'), None)."),
    ],
)  # fmt: skip
def test_refused(text: str, code: str, said: str) -> None:
    with pytest.raises(LayoutError) as caught:
        read_layout(text, MESH, (8, 2))
    assert (caught.value.code, str(caught.value)) == (code, said)
    assert caught.value.place is not None or code == "surface.spec-rank"


def test_partial_values_need_the_newer_form() -> None:
    with pytest.raises(LayoutError) as caught:
        jax.of_layout(Layout.parse("[x, -] +y"), MESH)
    assert str(caught.value) == (
        "[x, -] +y is partial over y; a PartitionSpec says only how dims are sharded. "
        "Reduce it first, or allow the keyword unreduced."
    )
    assert str(jax.of_layout(Layout.parse("[x, -] +y"), MESH, unreduced=True)) == "P('x', None, unreduced={'y'})"
    with pytest.raises(LayoutError, match=r"Reduce it first\.$"):
        jax.of_layout(Layout.parse("[x, -] max(y)"), MESH, unreduced=True)


@pytest.mark.parametrize(
    "text",
    [
        "P(" * 40,
        "P((((((((((((((((((((((((((((",
        "P('a\\",
        "P({",
        "P(=)",
        "P(1.5)",
        "P('x')('y')",
        "P('x'][",
        "P(,)",
        "1",
    ],
)
def test_broken_texts_are_refused_with_a_place(text: str) -> None:
    with pytest.raises(LayoutError) as caught:
        jax.read(text)
    assert caught.value.code == "surface.spec-syntax"
    assert caught.value.place is not None
