"""Bundles in the native form compute what the unsharded model does, with the plan's collectives of tensor parallelism.

gloo has no all-to-all in DTensor, which gathers and cuts instead; no style of this form asks for one.
"""

from collections.abc import Callable

import pytest

from planner.compose import bundle
from planner.core.graph import ModelGraph
from planner.plan import Plan
from planner.proof import Proof
from tests.tiny import tiny_gpt2, tiny_graph, tiny_plan

from .native_models import gpt_like
from .test_presets import assert_proven
from .test_traced import small_plan

pytest.importorskip("torch")

SP = (("megatron", "tp"), ("sequence_parallel", "tp"))
PLANS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "dp": ("dp:4", (("data_parallel", "dp"),)),
    "zero2": ("dp:4", (("zero2", "dp"),)),
    "zero3": ("dp:4", (("zero3", "dp"),)),
    "hsdp": ("rep:2,dp:2", (("data_parallel", "rep"), ("zero3", "dp"))),
    "tp": ("tp:4", (("megatron", "tp"),)),
    "tp-sp": ("tp:4", SP),
    "dp-tp": ("dp:2,tp:2", (("data_parallel", "dp"), ("megatron", "tp"))),
    "tp-dp": ("tp:2,dp:2", (("data_parallel", "dp"), ("megatron", "tp"))),
    "dp-tp-sp": ("dp:2,tp:2", (("data_parallel", "dp"), *SP)),
    "zero3-tp-sp": ("dp:2,tp:2", (("zero3", "dp"), *SP)),
    "zero2-tp": ("dp:2,tp:2", (("zero2", "dp"), ("megatron", "tp"))),
    "hsdp-tp-sp": ("dp:2,tp:2,rep:2", (("data_parallel", "rep"), ("zero3", "dp"), *SP)),
}
MODELS: dict[str, Callable[[], ModelGraph]] = {
    "llama": lambda: tiny_graph("llama-biased"),
    "qwen3": lambda: tiny_graph("qwen3", tied=True),
    "gpt": gpt_like,
    "gpt2": tiny_gpt2,
}
QUICK = {("llama", "zero3-tp-sp"), ("qwen3", "dp-tp-sp"), ("gpt", "dp-tp-sp"), ("gpt2", "hsdp")}
# GPT-2's own weights are [in, out], which styles know nothing of: it is sharded over samples only.
CASES = [
    pytest.param(model, name, id=f"{model}-{name}", marks=() if (model, name) in QUICK else pytest.mark.slow)
    for model in MODELS
    for name, (mesh, _) in PLANS.items()
    if model != "gpt2" or "tp" not in mesh
]


def plan_of(model: str, name: str, microbatches: int = 1) -> Plan:
    mesh, presets = PLANS[name]
    return tiny_plan(mesh, *presets, graph=MODELS[model](), microbatches=microbatches)


@pytest.mark.parametrize(("model", "name"), CASES)
def test_it_computes_the_same(prove: Callable[..., Proof], model: str, name: str) -> None:
    plan = plan_of(model, name)
    proof = prove(plan, bundle(plan, "native"))
    assert_proven(proof)
    assert proof.compared or name == "tp"


@pytest.mark.parametrize("name", [pytest.param("zero3-tp-sp", marks=pytest.mark.slow), "dp-tp"])
@pytest.mark.parametrize("deferred", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_microbatches(prove: Callable[..., Proof], name: str, deferred: bool) -> None:
    """Reduced after each, or once a step."""
    plan = plan_of("llama", name, microbatches=2)
    if deferred:
        axes = ("dp",) if "zero" in name else ()
        plan = plan.store("*", of="gradient", axes=axes, deferred=True)
    files = bundle(plan, "native")
    assert f"sync_each={not deferred}" in files["train.py"]
    assert_proven(prove(plan, files))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dp", "zero2", "zero3-tp-sp", "dp-tp"])
def test_steps_of_the_optimizer(prove: Callable[..., Proof], name: str) -> None:
    plan = plan_of("gpt", name)
    assert_proven(prove(plan, bundle(plan, "native"), kind="training", steps=3))


MISTAKES = {
    "averaged gradients": ("set_gradient_divide_factor(1.0)", "set_gradient_divide_factor(2.0)"),
    "a norm without its style": ('    "input_layernorm": SequenceParallel(use_local_output=True),\n', ""),
    "a sum that is not scattered": (
        '"mlp.down_proj": RowwiseParallel(output_layouts=Shard(1))', '"mlp.down_proj": RowwiseParallel()',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [n if n == "averaged gradients" else pytest.param(n, marks=pytest.mark.slow)
                                  for n in MISTAKES])  # fmt: skip
def test_a_mistake_shows(prove: Callable[..., Proof], name: str) -> None:
    plan = plan_of("qwen3", "dp-tp-sp")
    files = bundle(plan, "native")
    right, wrong = MISTAKES[name]
    assert right in files["parallelize.py"]
    proof = prove(plan, files | {"parallelize.py": files["parallelize.py"].replace(right, wrong)})
    assert not proof.ok


@pytest.mark.slow
def test_uneven_batches_and_vocabularies(prove: Callable[..., Proof]) -> None:
    """Three ranks of samples cut 8 sequences, and a vocabulary of 33 is cut over 2."""
    graph = tiny_graph("llama", vocab_size=33)
    plan = tiny_plan("dp:3,tp:2", ("data_parallel", "dp"), *SP, graph=graph)
    assert_proven(prove(plan, bundle(plan, "native")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mesh", "presets"),
    [("mamba2", "dp:4", (("zero3", "dp"),)), ("gpt_neox", "dp:4", (("zero3", "dp"),)),
     ("convnext", "dp:2,tp:2", (("data_parallel", "dp"), ("megatron", "tp")))],
)  # fmt: skip
def test_traced_models(prove: Callable[..., Proof], name: str, mesh: str, presets: tuple[tuple[str, str], ...]) -> None:
    """Their lines leave one size of a reshape open."""
    plan = small_plan(name, mesh)
    for preset, axis in presets:
        plan = plan.preset(preset, axis=axis)
    assert_proven(prove(plan, bundle(plan, "native")))


# ------------------------------------------------------------------ pipelines

SCHEDULES = {
    "gpipe": 1, "1f1b": 1, "interleaved-1f1b": 2, "looped-bfs": 2, "interleaved-zero-bubble": 2, "zb-v": 2,
    "dualpipe-v": 2,
}  # fmt: skip
"""Those that torch has, with the number of stages on each rank."""
WITH: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "alone": ("", ()),
    "dp": (",dp:2", (("data_parallel", "dp"),)),
    "zero2": (",dp:2", (("zero2", "dp"),)),
    "zero3": (",dp:2", (("zero3", "dp"),)),
    "tp": (",tp:2", (("megatron", "tp"),)),
    "tp-sp": (",tp:2", SP),
}
DEEP: dict[str, Callable[[int], ModelGraph]] = {
    "llama": lambda layers: tiny_graph("llama-biased", num_hidden_layers=layers),
    "qwen3": lambda layers: tiny_graph("qwen3", tied=True, num_hidden_layers=layers),
    "gpt": gpt_like,
    "gpt2": lambda layers: tiny_gpt2(n_layer=layers),
}
QUICK_STAGED = {("qwen3", "1f1b", "tp-sp"), ("gpt", "zb-v", "zero3")}
# An even model on few ranks, and one schedule of each kind.
STAGED = [
    pytest.param(
        model, schedule, more, id=f"{model}-{schedule}-{more}",
        marks=() if (model, schedule, more) in QUICK_STAGED else pytest.mark.slow,
    )
    for model in DEEP
    for schedule in SCHEDULES
    for more, (axes, _) in WITH.items()
    if (model != "gpt2" or "tp" not in axes) and (model == "qwen3" or more in {"alone", "zero3", "tp-sp"})
]  # fmt: skip


def in_stages(model: str, schedule: str, more: str, *, ranks: int = 2, microbatches: int = 4) -> Plan:
    """Return a plan of as many layers as stages, and one more."""
    count = SCHEDULES[schedule] * ranks
    graph = DEEP[model](count + 1)
    axes, presets = WITH[more]
    plan = tiny_plan(f"pp:{ranks}{axes}", *presets, graph=graph)
    plan = plan.batch(global_batch=2 * microbatches, seq=8, microbatches=microbatches)
    path = graph.root.repeats[0].name
    stages = {f"{path}.{index + 1}": index for index in range(1, count)} | {"lm_head": count - 1}
    return plan.pipelined("pp", schedule, per_rank=SCHEDULES[schedule], stages={f"{path}.0-1": 0, **stages})


@pytest.mark.parametrize(("model", "schedule", "more"), STAGED)
def test_stages_compute_the_same(prove: Callable[..., Proof], model: str, schedule: str, more: str) -> None:
    plan = in_stages(model, schedule, more)
    assert_proven(prove(plan, bundle(plan, "native")))


@pytest.mark.slow
@pytest.mark.parametrize("more", ["zero3", "tp-sp"])
@pytest.mark.parametrize("schedule", ["1f1b", "interleaved-1f1b", "zb-v"])
def test_four_ranks_of_stages(prove: Callable[..., Proof], schedule: str, more: str) -> None:
    """Copies of the table of tokens are on the first and the last alone, or on one rank twice."""
    plan = in_stages("qwen3", schedule, more, ranks=4, microbatches=8 if schedule == "zb-v" else 4)
    assert_proven(prove(plan, bundle(plan, "native")))


@pytest.mark.slow
@pytest.mark.parametrize("more", ["zero3", "tp"])
@pytest.mark.parametrize("last", ["model.norm", "lm_head"])
def test_stages_without_layers(prove: Callable[..., Proof], last: str, more: str) -> None:
    """The first has the table of tokens alone, the last what comes after the layers."""
    axes, presets = WITH[more]
    plan = tiny_plan(f"pp:4{axes}", *presets, graph=tiny_graph()).batch(global_batch=8, seq=8, microbatches=4)
    stages = {"model.embed_tokens": 0, "model.layers.0": 1, "model.layers.1": 2, "model.norm": 2, last: 3, "lm_head": 3}
    assert_proven(prove(plan.pipelined("pp", stages=stages), bundle(plan.pipelined("pp", stages=stages), "native")))


@pytest.mark.slow
@pytest.mark.parametrize("more", ["alone", "zero2", "tp-sp"])
def test_steps_of_the_optimizer_in_stages(prove: Callable[..., Proof], more: str) -> None:
    plan = in_stages("qwen3", "1f1b", more)
    assert_proven(prove(plan, bundle(plan, "native"), kind="training", steps=3))


STAGED_MISTAKES = {
    "averaged microbatches": ("scale_grads=False", "scale_grads=True"),
    "copies that are not added": (
        '    "model.embed_tokens.weight": {0: "model.embed_tokens.weight", 1: "lm_head.weight"},\n', "",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", STAGED_MISTAKES)
def test_a_mistake_in_stages_shows(prove: Callable[..., Proof], name: str) -> None:
    plan = in_stages("qwen3", "1f1b", "zero3")
    files = bundle(plan, "native")
    right, wrong = STAGED_MISTAKES[name]
    assert right in files["pipeline.py"]
    proof = prove(plan, files | {"pipeline.py": files["pipeline.py"].replace(right, wrong)})
    assert not proof.ok
