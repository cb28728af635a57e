"""The lower bound by hand, and where there is none. `tests/properties` holds plans against it."""

import pytest

from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.redistribution import lower_bound_elements

MESH = DeviceMesh.of({"a": 2, "b": 4, "one": 1})


@pytest.mark.parametrize(
    ("source", "target", "bound"),
    [
        ("[a, -]", "[a, -]", 0),
        ("[one·a, -]", "[a, one]", 0),
        ("[-, -]", "[a, b]", 0),
        ("[a, -]", "[-, -]", 32),
        ("[b, -]", "[-, b]", 12),
        ("[a·b, -]", "[b·a, -]", 8),
        ("[a, -] +b", "[a, -]", None),
        ("[a, -]", "[a, -] +b", None),
        ("[a, -] +one", "[-, -]", 32),
    ],
)
def test_bound(source: str, target: str, bound: int | None) -> None:
    assert lower_bound_elements(Layout.parse(source), Layout.parse(target), (8, 8), MESH) == bound
