"""Groups of repeated layers tell the true indices of their layers."""

from __future__ import annotations

import pytest

from planner.compose import choices_at, view
from planner.core.view import GroupView
from tests.tiny import tiny_plan

pytest.importorskip("torch")

from tests.proof.irregular import irregular_graph


def runs(name: str, *sharded: str) -> list[GroupView]:
    plan = tiny_plan("tp:2", graph=irregular_graph(name))
    for target in sharded:
        plan = plan.shard(target, {"n": "tp"})
    drawn, _ = view(plan)
    groups = {group.id: group for group in drawn.groups}
    assert len(groups) == len(drawn.groups)
    for node in drawn.nodes:
        assert node.group in groups or not node.group
        assert choices_at(plan, node.id)
    return [group for group in drawn.groups if group.total]


def told(groups: list[GroupView]) -> list[tuple[str, str, int, int, int, int]]:
    return [(g.path, g.label, g.layers, g.start, g.step, g.total) for g in groups]


def test_two_kinds_in_one_list() -> None:
    assert told(runs("two classes")) == [
        ("body.layers.0-1", "0–1", 2, 0, 1, 6),
        ("body.layers.2-5", "2–5", 4, 2, 1, 6),
    ]


def test_alternating_layers() -> None:
    assert told(runs("alternating")) == [
        ("body.layers.0-4+2", "0–4 by 2", 3, 0, 2, 7),
        ("body.layers.1-5+2", "1–5 by 2", 3, 1, 2, 7),
    ]


def test_an_edit_of_some_layers_cuts_at_them() -> None:
    assert told(runs("two classes", "layers.3.up"))[1:] == [
        ("body.layers.2-5", "2", 1, 2, 1, 6),
        ("body.layers.2-5", "3", 1, 3, 1, 6),
        ("body.layers.2-5", "4–5", 2, 4, 1, 6),
    ]
    assert told(runs("alternating", "layers.2.up")) == [
        ("body.layers.0-4+2", "0", 1, 0, 2, 7),
        ("body.layers.1-5+2", "1", 1, 1, 2, 7),
        ("body.layers.0-4+2", "2", 1, 2, 2, 7),
        ("body.layers.1-5+2", "3", 1, 3, 2, 7),
        ("body.layers.0-4+2", "4", 1, 4, 2, 7),
        ("body.layers.1-5+2", "5", 1, 5, 2, 7),
    ]
