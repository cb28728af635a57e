"""From decisions to an assignment: runs, parameters, what matches nothing, and errors."""

from collections.abc import Callable
from typing import Any

import pytest

from planner.assign import assign
from planner.core.assignment import Assembly, AssignedNode, Assignment
from planner.errors import LayoutError, PlannerError, RuleError
from planner.plan import Plan
from tests.tiny import tiny_graph, tiny_plan

GATE = "model.layers.*.mlp.gate_proj"


def assignment(plan: Plan) -> Assignment:
    return assign(plan.graph, plan.decisions)


def runs(plan: Plan) -> list[tuple[int, int]]:
    return [(a.start, a.stop) for a in assignment(plan).assemblies[1:]]


def find(plan: Plan, name: str, scope: int) -> AssignedNode:
    return next(n for n in assignment(plan).assemblies[scope].nodes if n.node.name == name)


def four_layers() -> Plan:
    return tiny_plan("dp:2,tp:2", graph=tiny_graph(num_hidden_layers=4))


def test_without_decisions_everything_is_whole_and_one_run() -> None:
    plan = four_layers()
    assert runs(plan) == [(0, 4)]
    for assembly in assignment(plan).assemblies:
        assert all(not layout.used for n in assembly.nodes for layout in (*n.operands, *n.results))
        assert all(not p.storage.used for p in assembly.parameters)


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        (["layers.*.mlp.gate_proj"], [(0, 4)]),
        (["layers.1.mlp.gate_proj"], [(0, 1), (1, 2), (2, 4)]),
        (["layers.0-1.mlp.gate_proj"], [(0, 2), (2, 4)]),
        (["layers.2-9.mlp.gate_proj"], [(0, 2), (2, 4)]),
        (["layers.0-3.mlp.gate_proj"], [(0, 4)]),
        (["layers.1.mlp.gate_proj", "layers.2.mlp.up_proj"], [(0, 1), (1, 2), (2, 3), (3, 4)]),
        (["layers.1.mlp.gate_proj", "layers.1.mlp.up_proj"], [(0, 1), (1, 2), (2, 4)]),
    ],
)
def test_runs_are_cut_where_decisions_differ(targets: list[str], expected: list[tuple[int, int]]) -> None:
    plan = four_layers().shard("gate_proj", {"n": "tp"})
    for target in targets:
        plan = plan.shard(target, {"n": "dp"})
    assert runs(plan) == expected


def test_runs_hold_what_their_layers_were_told() -> None:
    plan = four_layers().shard("gate_proj", {"n": "tp"}).shard("layers.2.mlp.gate_proj", {"n": "dp"})
    assert [find(plan, GATE, scope).strategy.axes("n") for scope in (1, 2, 3)] == [("tp",), ("dp",), ("tp",)]
    made = assignment(plan).assemblies
    assert [a.title for a in made] == ["", "model.layers.0-1", "model.layers.2", "model.layers.3"]
    # Each run carries on what the one before it gives.
    assert [dict(a.operands)["hidden"] for a in made[1:]] == [
        "model.embed_tokens",
        made[1].results[0],
        made[2].results[0],
    ]
    assert made[3].results == ("model.layers",)


def test_later_decisions_win() -> None:
    plan = four_layers().shard("mlp.gate_proj", {"n": "tp"}).shard("layers.*.mlp.gate_proj", {"n": "dp"})
    assert find(plan, GATE, 1).strategy.axes("n") == ("dp",)
    assert find(plan.shard("mlp.gate_proj", {"n": ()}), GATE, 1).strategy.axes("n") == ()


def test_a_carried_value_keeps_its_layout_from_layer_to_layer() -> None:
    plan = four_layers().shard("residual_mlp", {"seq": "tp"})
    run = assignment(plan).assemblies[1]
    (_, _, carried), *_ = run.inputs
    assert str(carried) == "[-, tp, -]"
    made = {v.name: lay for n in run.nodes for v, lay in zip(n.node.results, n.results, strict=True)}
    assert made[run.carried[0][1]].adjoint == carried


def test_decisions_that_name_nothing_are_kept_and_reported() -> None:
    plan = four_layers().shard("gate_proj", {"n": "tp"}).shard("attn.gate", {"n": "tp"}).store("no.such", axes=("dp",))
    plan = plan.keep("layers.7.self_attn.rotary_q", "tp", (0,)).shard("gate_proj", {"vocab": "tp"})
    found = [d for d in assignment(plan).diagnostics if d.code == "plan.target-unmatched"]
    assert [d.subject for d in found] == ["attn.gate", "gate_proj", "layers.7.self_attn.rotary_q", "no.such"]
    assert {d.severity for d in found} == {"warning"}
    assert all(d.subject in d.message and d.hint for d in found)


def test_a_plan_that_names_nothing_at_all_is_refused() -> None:
    plan = four_layers().shard("transformer.h.*.attn", {"n": "tp"}).store("wte", axes=("dp",))
    with pytest.raises(PlannerError, match=r"None of the plan's 2 decisions.*'transformer\.h\.\*\.attn'") as caught:
        assignment(plan)
    assert caught.value.code == "plan.target-unmatched"


def parameter(assembly: Assembly, name: str) -> tuple[str, str, str, bool]:
    found = next(p for p in assembly.parameters if p.parameter.name.endswith(name))
    return str(found.storage), str(found.gradient), str(found.optimizer), found.regather


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda p: p, "[tp, -]"),
        (lambda p: p.store("gate_proj", axes=("dp",)), "[tp·dp, -]"),
        (lambda p: p.store("*", axes=("tp", "dp")), "[tp·dp, -]"),
        (lambda p: p.store("gate_proj.weight", layout="[-, dp·tp]"), "[-, dp·tp]"),
        (lambda p: p.store("gate_proj", layout="[-, tp]").store("gate_proj", axes=("dp",)), "[dp, tp]"),
        (lambda p: p.store("gate_proj", axes=("dp",)).store("gate_proj", layout="[-, -]"), "[-, -]"),
        (lambda p: p.store("gate_proj", axes=()), "[tp, -]"),
    ],
)
def test_parameter_layouts(change: Callable[[Plan], Plan], expected: str) -> None:
    plan = change(four_layers().shard("gate_proj", {"n": "tp"}))
    assert parameter(assignment(plan).assemblies[1], "gate_proj.weight") == (expected, expected, expected, False)


@pytest.mark.parametrize(
    ("decisions", "expected"),
    [
        (({"of": "optimizer", "axes": ("a",)},), ("[-, -]", "[-, -]", "[a, -]")),
        (({"of": "gradient", "axes": ("a",)},), ("[-, -]", "[a, -]", "[a, -]")),
        (({"axes": ("a",)},), ("[a, -]", "[a, -]", "[a, -]")),
        # Each follows the one before, in whatever order they are decided.
        (({"of": "optimizer", "axes": ("b",)}, {"axes": ("a",)}), ("[a, -]", "[a, -]", "[a·b, -]")),
        (({"of": "gradient", "layout": "[-, b]"}, {"of": "optimizer", "axes": ("a",)}), ("[-, -]", "[-, b]", "[a, b]")),
        (({"axes": ("a",)}, {"of": "gradient", "layout": "[-, -]"}), ("[a, -]", "[-, -]", "[-, -]")),
        # Of two on the same, a layout wins over what was before it, and axes are added to it.
        (({"of": "gradient", "axes": ("a",)}, {"of": "gradient", "layout": "[b, -]"}), ("[-, -]", "[b, -]", "[b, -]")),
        (
            ({"of": "gradient", "layout": "[b, -]"}, {"of": "gradient", "axes": ("a",)}),
            ("[-, -]", "[b·a, -]", "[b·a, -]"),
        ),
        # An axis of size 1 moves nothing.
        (({"of": "optimizer", "axes": ("one",)},), ("[-, -]", "[-, -]", "[-, -]")),
    ],
)
def test_gradient_and_optimizer_layouts(decisions: tuple[dict[str, Any], ...], expected: tuple[str, str, str]) -> None:
    plan = tiny_plan("a:2,b:2,one:1")
    for decision in decisions:
        plan = plan.store("gate_proj.weight", **decision)
    assert parameter(assignment(plan).assemblies[1], "gate_proj.weight")[:3] == expected


def test_the_last_decision_says_whether_gradients_are_deferred() -> None:
    plan = tiny_plan("a:4").store("*", of="gradient", deferred=True)
    (found,) = {p.deferred for p in assignment(plan).assemblies[1].parameters}
    assert found
    back = plan.store("up_proj.weight", of="gradient")
    late = {p.parameter.name.split(".")[-2]: p.deferred for p in assignment(back).assemblies[1].parameters}
    assert [name for name, deferred in late.items() if not deferred] == ["up_proj"]


@pytest.mark.parametrize(
    ("decision", "code"),
    [({"of": "loss"}, "plan.parameter-state"), ({"of": "gradient", "regather": True}, "plan.parameter-flag"),
     ({"deferred": True}, "plan.parameter-flag"), ({"of": "optimizer", "deferred": True}, "plan.parameter-flag")],
)  # fmt: skip
def test_decisions_on_parameters_that_say_nothing(decision: dict[str, Any], code: str) -> None:
    with pytest.raises(PlannerError) as caught:
        tiny_plan("a:4").store("*", **decision)
    assert caught.value.code == code


def test_regather_only_where_there_is_something_to_gather() -> None:
    plan = four_layers().shard("gate_proj", {"n": "tp"}).store("*", axes=("dp",), regather=True)
    run = assignment(plan).assemblies[1]
    assert parameter(run, "gate_proj.weight")[3]
    still = plan.store("gate_proj", layout="[tp, -]", regather=True)
    assert not parameter(assignment(still).assemblies[1], "gate_proj.weight")[3]


@pytest.mark.parametrize(
    ("mesh", "name", "expected"),
    [
        # Three divides 48 and not 32; five divides neither, and 48 is the larger part of the two.
        ("a:3,b:1", "gate_proj.weight", "[a, -]"),
        ("a:3,b:1", "down_proj.weight", "[-, a]"),
        ("a:5,b:1", "gate_proj.weight", "[a, -]"),
        ("a:5,b:1", "down_proj.weight", "[-, a]"),
        ("a:5,b:1", "model.norm.weight", "[a]"),
    ],
)
def test_a_parameter_is_taken_further_on_a_dim_that_divides_else_on_its_largest(
    mesh: str, name: str, expected: str
) -> None:
    made = assignment(tiny_plan(mesh).store("*", axes=("a",)))
    found = next(p for a in made.assemblies for p in a.parameters if p.parameter.name.endswith(name))
    assert str(found.storage) == str(found.gradient) == str(found.optimizer) == expected


def test_the_largest_dim_is_the_one_of_which_a_rank_holds_most() -> None:
    plan = tiny_plan("b:4,a:5").store("gate_proj", layout="[b, -]").store("gate_proj", axes=("a",))
    assert parameter(assignment(plan).assemblies[1], "gate_proj.weight")[0] == "[b, a]"


@pytest.mark.parametrize(
    ("change", "error", "code", "said"),
    [
        (lambda p: p.shard("gate_proj", {"n": ("tp", "tp")}), RuleError, "layout.axis-reused", ["gate_proj", "'tp'"]),
        (lambda p: p.shard("gate_proj", {"n": "dp", "k": "dp"}), RuleError, "layout.axis-reused", ["'dp'", "k", "n"]),
        (lambda p: p.shard("gate_proj", {"n": "xp"}), LayoutError, "mesh.axis-unknown", ["'xp'", "dp, tp"]),
        (lambda p: p.shard("rotary_q", {"e": "tp"}), RuleError, "rule.factor-blocked", ["rotary_q", "e"]),
        (lambda p: p.shard("self_attn.attention", {"r": "tp"}), RuleError, "rule.minor-factor", ["r", "(g r)"]),
        (lambda p: p.keep("swiglu", "tp", (0,)), RuleError, "rule.partial-carrier", ["swiglu", "tp"]),
        (lambda p: p.keep("loss", "tp", ()), RuleError, "rule.partial-nonlinear", ["loss", "tp"]),
        (lambda p: p.store("gate_proj", layout="[tp]"), LayoutError, "layout.rank-mismatch", ["[tp]", "(48, 32)"]),
        (lambda p: p.store("gate_proj", layout="[xp, -]"), LayoutError, "mesh.axis-unknown", ["'xp'"]),
        (
            lambda p: p.store("norm", of="gradient", layout="[-] +tp"),
            LayoutError,
            "plan.parameter-partial",
            ["The gradient of", "norm", "[-] +tp"],
        ),
        (lambda p: p.store("norm", layout="[-] +tp"), LayoutError, "plan.parameter-partial", ["norm", "[-] +tp"]),
    ],
)
def test_illegal_decisions(
    change: Callable[[Plan], Plan], error: type[PlannerError], code: str, said: list[str]
) -> None:
    with pytest.raises(error) as caught:
        assignment(change(four_layers()))
    assert caught.value.code == code
    assert all(word in str(caught.value) for word in said), caught.value


def test_heads_that_do_not_divide() -> None:
    plan = tiny_plan("tp:3", graph=tiny_graph(num_attention_heads=8)).shard("self_attn.attention", {"g": "tp"})
    with pytest.raises(RuleError, match=r"g of size 4 over tp \(3 parts\).*4 % 3 = 1") as caught:
        assignment(plan)
    assert caught.value.code == "rule.factor-even"


def test_a_composite_operator_is_assigned_by_its_parts() -> None:
    plan = four_layers().shard("lm_head", {"n": "tp"}).shard("input_layernorm", {"h": "dp"})
    names = [n.node.op for n in assignment(plan).assemblies[0].nodes if n.node.origin == "loss"]
    assert names == ["row_max", "sum_exp", "pick_target", "log_loss", "sum_tokens", "count_targets", "divide"]
    run = assignment(plan).assemblies[1]
    norm = [n for n in run.nodes if n.node.origin.endswith("input_layernorm")]
    assert [(n.node.op, str(n.results[0])) for n in norm] == [
        ("mean_square", "[-, -] +dp"),
        ("rms_scale", "[-, -, dp]"),
    ]
