"""MindSpore's strategies in a plan: the axes that counts mean, split where need be, and what is refused."""

import pytest

from planner.compose import evaluate, load_model
from planner.core.graph import Node
from planner.core.mesh import DeviceMesh
from planner.errors import LayoutError, PlannerError
from planner.plan import Plan
from planner.surfaces import decide
from tests.cli.command import answer, shardwright

from .mindspore import gather

GRAPH = load_model("llama-tiny")
UP = "layers.*.mlp.up_proj"


def plan(mesh: str, devices: int = 8) -> Plan:
    return Plan.new(GRAPH, cluster=f"1x{devices}-h100-sxm", mesh=mesh, global_batch=8, seq=64)


def axes(made: Plan) -> dict[str, str]:
    return {decision.factor: "·".join(decision.axes) or "-" for decision in made.decisions.factors}


@pytest.mark.parametrize(
    ("mesh", "counts", "side", "finer", "found"),
    [
        ("dp:2,tp:4", ((2, 1, 1), (4, 1)), None, "dp:2,tp:4", {"batch": "dp", "seq": "-", "k": "-", "n": "tp"}),
        ("dp:2,tp:4", ((2, 1, 4), (1, 4)), None, "dp:2,tp:4", {"batch": "dp", "seq": "-", "k": "tp", "n": "-"}),
        ("dp:2,tp:4", ((8, 1, 1), (1, 1)), None, "dp:2,tp:4", {"batch": "dp·tp", "seq": "-", "k": "-", "n": "-"}),
        # 4 parts and the repetition on neighbouring ranks: tp is cut.
        ("dp:2,tp:4", ((1, 1, 1), (4, 1)), None, "dp:2,tp0:2,tp1:2",
         {"batch": "-", "seq": "-", "k": "-", "n": "dp·tp0"}),
        ("dp:2,tp:4", ((1, 1, 1), (4, 1)), "left", "dp:2,tp:4", {"batch": "-", "seq": "-", "k": "-", "n": "tp"}),
        ("tp:8", ((2, 2, 1), (2, 1)), None, "tp0:2,tp1:2,tp2:2",
         {"batch": "tp0", "seq": "tp1", "k": "-", "n": "tp2"}),
    ],
)  # fmt: skip
def test_counts_become_axes(mesh, counts, side, finer, found) -> None:
    made = plan(mesh).shard(UP, counts, side=side)
    assert (str(made.decisions.mesh), axes(made)) == (finer, found)
    assert evaluate(made).step_time.value > 0


def test_earlier_decisions_follow_a_split() -> None:
    made = plan("dp:2,tp:4").shard("lm_head", {"n": ("tp",)}).shard(UP, ((1, 1, 1), (4, 1)))
    assert next(d for d in made.decisions.factors if d.target == "lm_head").axes == ("tp0", "tp1")


def test_counts_divide_the_batch_of_one_microbatch() -> None:
    whole = plan("dp:8").shard(UP, ((8, 1, 1), (1, 1)))
    assert axes(whole)["batch"] == "dp"
    with pytest.raises(LayoutError, match="dim 0 of x has size 4, which 8 does not divide"):
        plan("dp:8").batch(global_batch=8, seq=64, microbatches=2).shard(UP, ((8, 1, 1), (1, 1)))


def test_a_table_that_is_split_repeats_to_the_left() -> None:
    made = plan("dp:2,tp:4").shard("embed_tokens", ((1, 1), (4, 1)))
    assert (str(made.decisions.mesh), axes(made)["vocab"]) == ("dp:2,tp:4", "tp")


def test_merged_heads_take_their_parts_from_the_major_factor() -> None:
    names = [n.name for n in GRAPH.root.repeats[0].block.nodes if n.op == "attention"]
    made = plan("dp:2,tp:4").shard(names[0], ((2, 4, 1, 1), (2, 4, 1, 1), (2, 4, 1, 1)))
    assert (axes(made)["batch"], axes(made)["g"]) == ("dp", "tp")


@pytest.mark.parametrize(
    ("mesh", "target", "counts", "code", "said"),
    [
        ("dp:2,tp:4", UP, ((3, 1, 1), (1, 1)), "mindspore.count-divides",
         "model.layers.*.mlp.up_proj: dim 0 of x has size 8, which 3 does not divide (8 % 3 = 2). "
         "Use a count that divides 8."),
        ("dp:2,tp:4", UP, ((2, 1, 2), (1, 4)), "mindspore.counts-disagree",
         "model.layers.*.mlp.up_proj: factor k is cut into 2 by dim 2 of x and into 4 by dim 1 of weight. "
         "Give both the same count."),
        ("dp:2,tp:4", UP, ((8, 2, 1), (1, 1)), "mindspore.device-count",
         "model.layers.*.mlp.up_proj: the tuple (8, 2, 1) of x needs 16 devices, which do not divide the 8 there are "
         "(8 % 16 = 8). Use counts whose product divides 8."),
        ("dp:2,tp:4", "mlp.nothing", ((1,),), "plan.target-unmatched",
         "'mlp.nothing' names no operator of llama-tiny. Use paths of this model."),
        ("a:3,b:2", UP, ((2, 1, 1), (1, 1)), "mesh.no-refinement",
         "The mesh a:3,b:2 and (2, 1, 1, 1, 3) have no common refinement: one counts ranks in runs of 2, the other in "
         "runs of 3 (3 % 2 = 1). Use sizes that divide each other, or another mesh."),
        ("dp:2,tp:4", "residual_mlp|up_proj", ((2, 1, 1), (4, 1)), "mindspore.tuple-length", ""),
    ],
)  # fmt: skip
def test_refused(mesh, target, counts, code, said) -> None:
    devices = 6 if mesh.startswith("a") else 8
    with pytest.raises(PlannerError) as caught:
        plan(mesh, devices).shard(target, counts)
    assert caught.value.code == code
    assert str(caught.value) == said or not said


def test_one_strategy_that_means_two_things() -> None:
    rule = gather((8, 8), (8, 8))
    nodes = [
        Node(name=name, op=op, operands=(), results=(), rule=rule, module="")
        for name, op in (("table", "embedding"), ("rows", "gather"))
    ]
    with pytest.raises(LayoutError) as caught:
        decide(nodes, ((4, 1), (1, 1)), frozenset(), DeviceMesh.parse("dp:2,tp:4"))
    assert (caught.value.code, str(caught.value)) == (
        "mindspore.strategy-differs",
        "The strategy puts factor vocab of rows over dp·tp0, and that of table over tp0·tp1. "
        "Give them strategies one by one.",
    )


def test_on_the_command_line() -> None:
    options = ("llama-tiny", "--mesh", "dp=2,tp=4", "--shard", f"{UP} ((2, 1, 1), (4, 1))")
    found = answer("evaluate", *options)["plan"]
    assert (found["mesh"], found["global_batch"]) == ([{"axis": "dp", "size": 2}, {"axis": "tp", "size": 4}], 2)
    left = answer("evaluate", "llama-tiny", "--mesh", "dp:2,tp:4", "--shard", f"{UP} ((1,1,1),(2,1)) left")
    assert [axis["axis"] for axis in left["plan"]["mesh"]] == ["dp", "tp0", "tp1"]
    ran = shardwright("evaluate", "llama-tiny", "--mesh", "tp:4", "--shard", f"{UP} ((1, 1, x), (4, 1))")
    assert ran.err.splitlines() == [
        "error: 'x' is not a number. Write whole numbers.",
        "  ((1, 1, x), (4, 1))",
        "          ^",
    ]
