"""A proof that fails names the edge that is at fault: checked on bundles with one step dropped."""

from collections.abc import Callable

import pytest

from planner.compose import bundle, train, view
from planner.proof import Proof
from planner.proof.fault import general, suspects
from tests.tiny import tiny_graph, tiny_plan

from .mutants import PLANS
from .sabotage import Sabotage, sabotages

PLAN = tiny_plan(
    "dp:2,tp:2", ("data_parallel", "dp"), ("megatron", "tp"), graph=tiny_graph("llama-biased", num_hidden_layers=1)
)

CASES = {
    # A weight's own gradient is not summed over the data axis.
    "own": ("lm_head_weight", "backward", "lm_head.weight", {"lm_head.weight"}),
    # What comes back to the result of the last norm is not summed: all above it is wrong, the head is right.
    "above": ("LlamaModel.norm backward", "", "model.norm", None),
    # The sum of the losses of the data axis is left out: the loss is wrong.
    "forward": ("count_targets", "forward", "loss~count_targets", None),
}
"""Part of the place, direction, edge, and the wrong rows if they are known."""


def dropped(place: str, direction: str) -> Sabotage:
    found = sabotages(bundle(PLAN)["model.py"], PLAN.decisions.mesh.names)
    return next(c for c in found if c.change == "drop" and place in c.place and c.place.endswith(direction))


@pytest.mark.parametrize("name", CASES)
def test_the_edge_is_named(prove_here: Callable[..., Proof], name: str) -> None:
    place, direction, edge, rows = CASES[name]
    change = dropped(place, direction)
    proof = prove_here(PLAN, bundle(PLAN) | {"model.py": change.text})
    wrong = [row for row in proof.rows if not row.ok]
    assert {row.edge for row in wrong} == {edge}
    assert rows is None or {row.name for row in wrong} == rows
    nodes = {n.node.name for scope in train(PLAN).scopes for n in scope.assembly.nodes}
    for row in wrong:
        assert row.node in nodes
        assert edge in row.hint
        assert change.axes[0] in row.hint
    assert all(not (row.node or row.edge or row.hint) for row in proof.rows if row.ok)


def test_most_faults_are_named(prove_here: Callable[..., Proof]) -> None:
    """Two sums of one size over one axis look the same to the count; then both are named. Steps within a rank do not
    show in it, so what is named when one is left out may be another edge.
    """
    files = bundle(PLAN)
    named = {}
    for change in [c for c in sabotages(files["model.py"], PLAN.decisions.mesh.names) if c.change == "drop"][::3]:
        wrong = [row for row in prove_here(PLAN, files | {"model.py": change.text}).rows if not row.ok]
        if wrong:
            named[str(change)] = all(change.value in (row.edge, *_others(row.hint)) for row in wrong)
    assert len(named) > 5
    assert [name for name, found in named.items() if not found and "Zero" not in name] == []


def _others(hint: str) -> list[str]:
    return hint.partition("As likely: ")[2].rstrip(".").split(", ")


def test_a_gradient_spoils_what_is_above_it() -> None:
    """On the path of the residual stream, each edge further up has fewer parameters above it."""
    found = {s.edge: s.spoils for s in suspects(train(PLAN), 0) if s.backward}
    parameters = {general(p.parameter.name) for a in train(PLAN).assignment.assemblies for p in a.parameters}
    assert found["lm_head.weight"] == {"lm_head.weight"}
    assert found["model.norm"] == parameters - {"lm_head.weight"}
    assert found["model.layers.*.mlp.up_proj.weight"] == {"model.layers.*.mlp.up_proj.weight"}


def test_names_are_those_of_the_view() -> None:
    plan = PLANS["block"]()
    drawn, _ = view(plan)
    edges, nodes = {e.value for e in drawn.edges}, {n.name for n in drawn.nodes}
    for suspect in suspects(train(plan), 0):
        assert suspect.edge in edges
        assert suspect.node in nodes
