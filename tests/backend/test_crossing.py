"""Covers: routes.redistribute between meshes, through reshapes and by MindSpore's planner."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Caller

PATH = "/api/v1/redistribute"
GRID = [{"name": "a", "size": 3}, {"name": "b", "size": 8}]
OTHER = [{"name": "c", "size": 8}, {"name": "d", "size": 3}]
BODY: dict[str, Any] = {"source": "[a, b]", "target": "[c, d]", "mesh": GRID, "to_mesh": OTHER, "shape": [24, 24]}


def test_to_another_mesh(client: Caller) -> None:
    found = client.ok(client.post(PATH, json=BODY))
    assert [step["kind"] for step in found["steps"]] == ["handover"]
    assert (found["steps"][0]["axes"], found["steps"][0]["group_size"]) == (["a", "b"], 24)
    assert found["received_bytes"] == found["bound_bytes"] == 24 * 2
    assert found["seconds"] == found["steps"][0]["seconds"] > 0
    last = found["slices"][-1]
    assert (last["mesh"], last["slices"][9]) == ([["c", 8], ["d", 3]], [[9, 12], [0, 8]])
    # Rank 9 holds columns 3 to 5 of these rows already.
    assert found["steps"][0]["arrives"][9] == [[[9, 12], [0, 3]], [[9, 12], [6, 8]]]


def test_through_a_reshape(client: Caller) -> None:
    body = {"source": "[a, b, -]", "target": "[a, b]", "mesh": "a:3,b:8", "shape": "3x8x16", "to_shape": "24x16"}
    found = client.ok(client.post(PATH, json=body))
    assert [step["kind"] for step in found["steps"]] == ["all_to_all", "view"]
    assert not any(found["steps"][1]["arrives"])
    assert [held["shape"] for held in found["slices"]] == [[3, 8, 16], [3, 8, 16], [24, 16]]


def test_by_mindspores_planner(client: Caller) -> None:
    body = {
        "source": "[4, 2] | [1, 0]",
        "target": "[8] | [0, -1]",
        "mesh": [{"name": "a", "size": 8}],
        "shape": [32, 64],
    }
    plain = client.ok(client.post(PATH, json=body | {"planner": "mindspore"}))
    assert plain["operators"] == ["Reshape", "AllGather", "Split", "Concat", "StridedSlice", "Reshape"]
    permuted = client.ok(client.post(PATH, json=body | {"planner": "mindspore-alltoall"}))
    assert permuted["operators"] == ["Reshape", "AlltoAll", "Reshape"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"planner": "mindspore"}, "mindspore.no-divisor-chain"),
        ({"planner": "best"}, "http.invalid"),
        ({"to_shape": [24, 25]}, "reshape.elements"),
        ({"to_mesh": [{"name": "c", "size": 8}, {"name": "d", "size": 2}]}, "mesh.matrix-ranks"),
        ({"to_mesh": [{"name": "c", "size": 8}] * 2}, "mesh.axis-repeated"),
        ({"mesh": [{"name": "a", "size": 64}, {"name": "b", "size": 32}],
          "to_mesh": [{"name": "c", "size": 32}, {"name": "d", "size": 64}]}, "http.mesh-too-large"),
    ],
)  # fmt: skip
def test_says_why_not(client: Caller, changes: dict[str, Any], code: str) -> None:
    client.problem(client.post(PATH, json=BODY | changes), 422, code)


def test_too_many_axes_are_refused(client: Caller) -> None:
    mesh = [{"name": name, "size": 2} for name in "abcdef"]
    body = {"source": "[a·b·c·d·e·f]", "target": "[-, f]", "mesh": mesh, "shape": [64], "to_shape": [32, 2]}
    client.problem(client.post(PATH, json=body), 422, "http.axes-too-many")
