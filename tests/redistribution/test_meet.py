"""Where two holdings meet, by hand."""

import pytest

from planner.core.crossing import Holding
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.errors import LayoutError
from planner.redistribution.meet import meet

Ends = tuple[str, tuple[int, ...], str]


def holding(mesh: str, shape: tuple[int, ...], layout: str) -> Holding:
    return Holding(mesh=DeviceMesh.parse(mesh), shape=shape, layout=Layout.parse(layout))


@pytest.mark.parametrize(
    ("source", "target", "mesh", "shape", "layouts"),
    [
        # One mesh and one shape.
        (("a:2,b:4", (8, 8), "[a, b]"), ("a:2,b:4", (8, 8), "[b, a] "), "a:2,b:4", (8, 8), "[a, b] → [b, a]"),
        # Meshes with a common refinement; partial axes are split as well.
        (("a:2,b:4", (8, 8), "[a, -] +b"), ("c:4,d:2", (8, 8), "[c, d]"), "a:2,b0:2,b1:2", (8, 8),
         "[a, -] +b0·b1 → [a·b0, b1]"),
        (("a:8", (7,), "[-]"), ("c:4,d:2", (7,), "[d]"), "a0:4,a1:2", (7,), "[-] → [a1]"),
        # Dims that are merged and split; an axis that is cut by the edge of a dim.
        (("a:2,b:4", (8, 16, 4), "[a, -, -]"), ("a:2,b:4", (128, 4), "[a, b]"), "a:2,b:4", (8, 16, 4),
         "[a, -, -] → [a, -, b]"),
        (("a:2,b:4", (4, 32), "[a, -]"), ("a:2,b:4", (128,), "[a·b]"), "a:2,b0:2,b1:2", (4, 32), "[a, -] → [a·b0, b1]"),
        (("a:8", (512, 1024), "[-, a]"), ("a:8", (128, 4096), "[-, a]"), "a0:4,a1:2", (128, 4, 1024),
         "[-, -, a0·a1] → [-, a0, a1]"),
        # Dims of size 1 come and go, axes of size 1 do nothing.
        (("a:2,one:1", (4, 1, 6), "[a, one, -]"), ("a:2,one:1", (4, 6), "[one, a]"), "a:2,one:1", (4, 6),
         "[a, -] → [-, a]"),
        # Unevenly, where the parts are the same: rows of two.
        (("a:4", (6, 2), "[a, -]"), ("a:4", (12,), "[-]"), "a:4", (6, 2), "[a, -] → [-, -]"),
        (("a:8", (6, 2), "[a, -]"), ("a:8", (12,), "[a]"), "a:8", (6, 2), "[a, -] → [a, -]"),
    ],
)  # fmt: skip
def test_meetings(source: Ends, target: Ends, mesh: str, shape: tuple[int, ...], layouts: str) -> None:
    found = meet(holding(*source), holding(*target))
    assert found is not None
    assert {str(end.mesh) for end in (found.source, found.target)} == {mesh}
    assert {end.shape for end in (found.source, found.target)} == {shape}
    assert f"{found.source.layout} → {found.target.layout}" == layouts


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (("a:3,b:8", (24, 24), "[a, b]"), ("c:8,d:3", (24, 24), "[c, d]")),
        # Ten over eight are other chunks than over four and then two.
        (("a:8", (10,), "[a]"), ("c:4,d:2", (10,), "[c·d]")),
        # A part of twelve is no part of two times six, nor of three times four in columns.
        (("a:4", (12,), "[a]"), ("a:4", (2, 6), "[-, a]")),
        (("a:4", (4, 3), "[a, -]"), ("a:4", (3, 4), "[-, a]")),
        (("a:4", (6, 2), "[-, -]"), ("a:4", (12,), "[a]")),
        # Only one rank has a part of a dim of size 1.
        (("a:2", (1, 4), "[a, -]"), ("a:2", (4,), "[-]")),
    ],
)
def test_what_does_not_meet(source: Ends, target: Ends) -> None:
    assert meet(holding(*source), holding(*target)) is None
    assert meet(holding(*target), holding(*source)) is None


def test_refusals() -> None:
    with pytest.raises(LayoutError) as caught:
        meet(holding("a:4", (8,), "[a]"), holding("a:8", (8,), "[a]"))
    assert caught.value.code == "mesh.matrix-ranks"
    with pytest.raises(LayoutError) as caught:
        meet(holding("a:4", (8,), "[a]"), holding("a:4", (9,), "[a]"))
    assert caught.value.code == "reshape.elements"
