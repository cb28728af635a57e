"""Meshes: printing and reading, row-major ranks, groups, splitting an axis."""

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.core.mesh import DeviceMesh
from planner.errors import LayoutError
from tests.properties.strategies import meshes

NAMES = st.from_regex(r"[A-Za-z_]\w{0,5}", fullmatch=True)
ANY = st.dictionaries(NAMES, st.integers(1, 5), min_size=1, max_size=4).map(DeviceMesh.of)


@given(ANY)
def test_reading_what_is_printed(mesh: DeviceMesh) -> None:
    assert DeviceMesh.parse(str(mesh)) == mesh
    assert DeviceMesh.parse(str(mesh).replace(",", " × ")) == mesh


@given(meshes(max_axes=3))
def test_ranks_are_row_major(mesh: DeviceMesh) -> None:
    assert mesh.device_count == prod(size for _, size in mesh.axes)
    seen = [tuple(mesh.coordinates(rank).values()) for rank in range(mesh.device_count)]
    assert seen == sorted(set(seen))
    assert [mesh.index(rank, mesh.names) for rank in range(mesh.device_count)] == list(range(mesh.device_count))


@given(meshes(max_axes=3), st.data())
def test_groups_partition_the_ranks(mesh: DeviceMesh, data: st.DataObject) -> None:
    axes = tuple(data.draw(st.permutations(mesh.names)))[: data.draw(st.integers(1, len(mesh.names)))]
    groups = {mesh.group(axes, rank) for rank in range(mesh.device_count)}
    assert sorted(rank for group in groups for rank in group) == list(range(mesh.device_count))
    for group in groups:
        assert [mesh.index(rank, axes) for rank in group] == list(range(mesh.size_of(axes)))
        others = [{n: c for n, c in mesh.coordinates(rank).items() if n not in axes} for rank in group]
        assert others == others[:1] * len(group)


@given(meshes(max_axes=3), st.sampled_from([(1, 2), (2, 2), (4, 1), (2, 2, 2), (3,)]), st.data())
def test_splitting_an_axis_keeps_every_rank_where_it_is(
    mesh: DeviceMesh, sizes: tuple[int, ...], data: st.DataObject
) -> None:
    axis = data.draw(st.sampled_from(mesh.names))
    whole = DeviceMesh(tuple((name, prod(sizes) if name == axis else size) for name, size in mesh.axes))
    finer, parts = whole.split(axis, sizes)
    assert finer.device_count == whole.device_count
    for rank in range(whole.device_count):
        assert finer.index(rank, parts) == whole.index(rank, (axis,))


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("dp", "mesh.syntax", ["'dp'", "dp:2,tp:4"]),
        ("dp:2,,tp:2", "mesh.syntax", ["''", "name:size"]),
        ("dp:x", "mesh.syntax", ["'dp:x'"]),
        ("dp:-1", "mesh.syntax", ["'dp:-1'"]),
        ("dp:2,dp:4", "mesh.axis-repeated", ["'dp'", "once"]),
        ("dp:0", "mesh.axis-size", ["'dp'", "0", "at least 1"]),
    ],
)
def test_refused_texts(text: str, code: str, said: list[str]) -> None:
    with pytest.raises(LayoutError) as caught:
        DeviceMesh.parse(text)
    assert caught.value.code == code
    assert all(word in str(caught.value) for word in said), caught.value


def test_refused_names_and_splits() -> None:
    with pytest.raises(LayoutError, match=r"'d p'.*letters") as caught:
        DeviceMesh.of({"d p": 2})
    assert caught.value.code == "mesh.axis-name"
    mesh = DeviceMesh.parse("dp:2,tp:6")
    with pytest.raises(LayoutError, match=r"'tp' of size 6.*\(2, 2\).*product is 6") as caught:
        mesh.split("tp", (2, 2))
    assert caught.value.code == "mesh.split-size"
    with pytest.raises(LayoutError, match=r"dp:2,tp:6.*'pp'.*dp, tp") as caught:
        mesh.size("pp")
    assert caught.value.code == "mesh.axis-unknown"
    assert caught.value.diagnostic.subject == "pp"


def test_a_split_never_gives_a_name_that_the_mesh_has() -> None:
    """tp:4 beside tp0:2 can't be split into tp0 and tp1."""
    with pytest.raises(LayoutError) as caught:
        DeviceMesh.parse("tp:4,tp0:2").split("tp", (2, 2))
    assert caught.value.code == "mesh.axis-repeated"


@pytest.mark.parametrize(
    ("mesh", "axes", "per_node", "expected"),
    [
        ("dp:2,tp:8", ("tp",), 8, 8),
        ("dp:2,tp:8", ("dp",), 8, 1),
        ("dp:2,tp:8", ("dp", "tp"), 8, 8),
        ("dp:4,tp:4", ("dp",), 8, 2),
        ("dp:3,tp:4", ("dp",), 8, 1),
    ],
)
def test_members_per_node(mesh: str, axes: tuple[str, ...], per_node: int, expected: int) -> None:
    assert DeviceMesh.parse(mesh).members_per_node(axes, per_node) == expected
