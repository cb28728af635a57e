"""Which nodes are computed again: by module, by operator, taken out again, and cut with the runs of layers."""

import pytest

from planner.compose import load_model, train
from planner.core.segments import Segments
from planner.errors import PlannerError
from planner.plan import Plan
from planner.presets import PRESETS
from tests.tiny import tiny_gpt2, tiny_graph, tiny_plan

LAYER = "model.layers.*"


def segments(plan: Plan, run: int = 1) -> dict[str, list[str]]:
    """Return segment → the short names of its nodes, in one run of layers."""
    found: dict[str, list[str]] = {}
    for assigned in train(plan).assignment.assemblies[run].nodes:
        if assigned.segment:
            short = assigned.node.name.replace("/", ".").rpartition(".")[2]
            found.setdefault(assigned.segment, []).append(short)
    return found


def plan_of(*targets: str, layers: int = 2) -> Plan:
    plan = tiny_plan("dp:1", graph=tiny_graph(num_hidden_layers=layers))
    for target in targets:
        plan = plan.recompute(target.removeprefix("-"), again=not target.startswith("-"))
    return plan


def test_a_module_is_a_segment() -> None:
    assert list(segments(plan_of("layers.*"))) == [LAYER]
    assert segments(plan_of("mlp")) == {f"{LAYER}.mlp": ["gate_proj", "up_proj", "swiglu", "down_proj"]}


def test_operators_of_one_target_that_follow_each_other_are_one() -> None:
    found = segments(plan_of("mlp.gate_proj|up_proj|down_proj"))
    assert found == {
        f"{LAYER}.mlp/gate_proj|up_proj|down_proj": ["gate_proj", "up_proj"],
        f"{LAYER}.mlp/gate_proj|up_proj|down_proj#2": ["down_proj"],
    }


def test_what_is_taken_out_leaves_two() -> None:
    found = segments(plan_of("layers.*", "-self_attn"))
    assert found == {
        LAYER: ["input_layernorm"],
        f"{LAYER}#2": ["residual_attention", "post_attention_layernorm", "gate_proj", "up_proj", "swiglu", "down_proj",
                       "residual_mlp"],
    }  # fmt: skip


def test_the_last_decision_wins() -> None:
    found = segments(plan_of("layers.*", "mlp"))
    assert list(found) == [LAYER, f"{LAYER}.mlp", f"{LAYER}#2"]
    assert segments(plan_of("mlp", "-layers.*")) == {}
    assert plan_of("mlp", "layers.*", "mlp").decisions.recompute == plan_of("layers.*", "mlp").decisions.recompute
    assert plan_of("mlp").recompute("mlp", again=None).decisions.recompute == ()


def test_runs_are_cut() -> None:
    plan = plan_of("layers.1-2.mlp", layers=4)
    assert [(a.start, a.stop) for a in train(plan).assignment.assemblies[1:]] == [(0, 1), (1, 3), (3, 4)]
    assert segments(plan, 1) == segments(plan, 3) == {}
    assert list(segments(plan, 2)) == [f"{LAYER}.mlp"]


@pytest.mark.parametrize("target", ["model", "layers", "*"])
def test_all_layers_are_no_segment(target: str) -> None:
    with pytest.raises(PlannerError) as caught:
        train(plan_of(target))
    assert caught.value.code == "plan.recompute-layers"
    assert "model.layers.*" in str(caught.value)


def test_a_target_that_names_nothing_is_told() -> None:
    with pytest.raises(PlannerError) as caught:
        train(plan_of("no_such"))
    assert caught.value.code == "plan.target-unmatched"
    found = train(plan_of("no_such", "mlp")).assignment.diagnostics
    assert [(d.code, d.subject) for d in found] == [("plan.target-unmatched", "no_such")]


def test_parts_of_one_operator_are_in_its_segment() -> None:
    plan = tiny_plan("tp:4", ("megatron", "tp")).recompute("loss")
    root = train(plan).assignment.assemblies[0]
    assert {a.segment for a in root.nodes if a.node.origin == "loss"} == {"/loss"}
    assert Segments.of(root, 0)


def test_presets_name_what_models_have() -> None:
    for name in ("llama-tiny", "bert-base", "gpt2"):
        graph = load_model(name) if name != "gpt2" else tiny_gpt2()
        plan = Plan.new(graph, cluster="1x1-h100-sxm", mesh={"dp": 1}, global_batch=1, seq=8)
        full, core = plan.preset("recompute_full"), plan.preset("recompute_selective")
        layers = graph.root.repeats[0].block
        assert set(segments(full)) == {graph.root.repeats[0].templates[0]}
        assert sum(map(len, segments(full).values())) == len(layers.nodes)
        attending = {"attention", "full_attention", "attention_scores", "softmax", "attend"}
        chosen = {n.name for n in layers.nodes if n.op in attending}
        named = {a.node.name for a in train(core).assignment.assemblies[1].nodes if a.segment}
        assert chosen <= named < {n.name for n in layers.nodes}
    assert PRESETS["recompute_full"].axes == ()
