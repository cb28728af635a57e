"""The view of a plan tells where parameters lie, what is computed again, and which gradients share collectives."""

from __future__ import annotations

import pytest

from planner.compose import train, view
from planner.core.view import PlanView
from planner.plan import Plan
from tests.tiny import tiny_graph, tiny_plan


def data_parallel(**gradients: object) -> Plan:
    plan = tiny_plan("dp:2", ("data_parallel", "dp"), graph=tiny_graph(num_hidden_layers=5))
    return plan.gradients(**gradients)  # type: ignore[arg-type]


def parameters(drawn: PlanView) -> dict[str, tuple[int, ...]]:
    """Return parameter → the buckets that the badges of its edge name."""
    return {
        edge.id: tuple(dict.fromkeys(bucket for badge in edge.badges for bucket in badge.buckets))
        for edge in drawn.edges
        if edge.kind == "parameter"
    }


def test_places_are_told_of_parameters_alone() -> None:
    plan = data_parallel().store("self_attn", place="host").store("*", of="optimizer", place="host")
    drawn, _ = view(plan)
    for edge in drawn.edges:
        if edge.kind != "parameter":
            assert (edge.place, edge.optimizer_place) == ("", "")
        else:
            assert edge.place == ("host" if "self_attn" in edge.value else "device"), edge.value
            assert edge.optimizer_place == "host"


def test_what_is_computed_again_is_told_in_the_layers_where_it_is() -> None:
    drawn, _ = view(data_parallel().recompute("layers.1-2.mlp"))
    again = {node.id for node in drawn.nodes if node.recomputed}
    names = ("gate_proj", "up_proj", "swiglu", "down_proj")
    assert again == {node.id for node in drawn.nodes if node.label in names and "layers.1-2" in node.id}
    assert len(again) == len(names)


def test_without_buckets_every_collective_is_its_own() -> None:
    drawn, _ = view(data_parallel())
    assert drawn.buckets == ()
    assert set(parameters(drawn).values()) == {()}


@pytest.mark.parametrize(
    "gradients",
    [
        {"fusion": "auto"},
        {"fusion": "size", "bucket_bytes": 30_000},
        {"fusion": "index", "indices": (1, 12, 30)},
        {"overlap": True},
        {"compression": "int8"},
    ],
    ids=str,
)
def test_buckets_are_those_that_the_report_has(gradients: dict[str, object]) -> None:
    plan = data_parallel(**gradients)
    drawn, report = view(plan)
    reductions = [row for row in report.collectives if row.gradients]
    assert sum(b.collectives * b.runs for b in drawn.buckets) == sum(row.count for row in reductions)
    assert max(b.nbytes for b in drawn.buckets) >= max(row.payload_bytes for row in reductions)
    if gradients.get("compression") is None:
        # A row for each number of layers: the largest of a bucket comes first.
        payloads = {(row.gradients, row.payload_bytes): row.seconds for row in reductions}
        for bucket in drawn.buckets:
            names = tuple(dict.fromkeys(edge.partition(":")[2] for edge in bucket.edges))
            assert payloads[names, bucket.nbytes] == bucket.seconds
    # Each gradient is in one bucket, and its edge names that one.
    found = parameters(drawn)
    for edge, positions in found.items():
        assert positions == tuple(i for i, bucket in enumerate(drawn.buckets) if edge in bucket.edges), edge
    layers = {scope.assembly.title: scope.assembly.count for scope in train(plan).scopes}
    gradients_in_all = sum(layers[edge.partition(":")[0]] for edge in found)
    of_equal_size = [b for b in drawn.buckets if not b.layers or layers[b.edges[0].partition(":")[0]] % b.layers == 0]
    if len(of_equal_size) == len(drawn.buckets):
        assert sum(b.gradients * b.count for b in drawn.buckets) == gradients_in_all


def test_a_deferred_bucket_runs_once_a_step() -> None:
    plan = data_parallel(fusion="auto").batch(global_batch=8, seq=16, microbatches=2)
    now, _ = view(plan)
    late, _ = view(plan.store("*", of="gradient", deferred=True))
    assert [b.deferred for b in late.buckets] == [True] * len(now.buckets)
    assert [b.runs * 2 for b in late.buckets] == [b.runs for b in now.buckets]
