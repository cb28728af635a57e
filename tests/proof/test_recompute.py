"""What is computed again in backward gives the same gradients, and repeats the planned collectives and no other."""

from collections.abc import Callable
from random import Random

import pytest

from planner.compose import train
from planner.plan import Plan
from planner.proof import Proof
from tests.tiny import tiny_gpt2, tiny_graph, tiny_plan, with_dropout

from .small_models import encoder, experts, images, latent, model, recurrent
from .test_presets import PLANS, assert_proven

pytest.importorskip("torch")

CORE = "self_attn|attn.attention"
KINDS: dict[str, tuple[str, ...]] = {
    "full": ("layers|h.*",),
    "selective": (CORE,),
    "module": ("mlp", "self_attn|attn"),
    "one operator": ("mlp.gate_proj|c_fc", "input_layernorm|ln_1"),
    "all but attention": ("layers|h.*", "-self_attn|attn"),
    "all but its core, and parts apart": ("layers|h.*", f"-{CORE}", "mlp.swiglu|act"),
    "outside the layers": ("embed_tokens|wte", "norm|ln_f", "lm_head", "loss", "add_positions|positions|wpe"),
    "one layer": ("layers|h.1",),
}


def recomputed(plan: Plan, targets: tuple[str, ...]) -> Plan:
    for target in targets:
        plan = plan.recompute(target.removeprefix("-"), again=not target.startswith("-"))
    return plan


QUICK = {("full", "zero2-tp2-sp"), ("full", "tp4-sp"), ("selective", "dp2-tp2"), ("module", "zero2-tp2-sp"),
         ("one operator", "zero2-tp2-sp"), ("all but attention", "zero2-tp2-sp"), ("one layer", "zero4"),
         ("all but its core, and parts apart", "zero2-tp2-sp"), ("outside the layers", "zero2-tp2-sp")}  # fmt: skip
CASES = [
    pytest.param(kind, mesh, id=f"{kind}-{mesh}", marks=() if (kind, mesh) in QUICK else pytest.mark.slow)
    for kind in KINDS
    for mesh in PLANS
]


@pytest.mark.parametrize("microbatches", [1, 2])
@pytest.mark.parametrize(("kind", "mesh"), CASES)
def test_recompute(prove_here: Callable[..., Proof], kind: str, mesh: str, microbatches: int) -> None:
    axes, presets = PLANS[mesh]
    graph = with_dropout(tiny_graph("llama-biased", tied=True))
    plan = tiny_plan(axes, *presets, graph=graph, microbatches=microbatches)
    plan = recomputed(plan, KINDS[kind])
    assert any(scope.repeated for scope in train(plan).scopes)
    assert_proven(prove_here(plan))


@pytest.mark.parametrize("dropped", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mesh", [m if m == "zero2-tp2-sp" else pytest.param(m, marks=pytest.mark.slow) for m in PLANS])
def test_gpt2(prove_here: Callable[..., Proof], kind: str, mesh: str, dropped: bool) -> None:
    axes, presets = PLANS[mesh]
    changes = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.25 * dropped)
    assert_proven(prove_here(recomputed(tiny_plan(axes, *presets, graph=tiny_gpt2(**changes)), KINDS[kind])))


BODIES = {body.__name__: body for body in (encoder, experts, images, latent, recurrent)}
SPLITS: dict[str, tuple[str, ...]] = {"encoder": ("q|k|v", "n"), "experts": ("up", "n"), "latent": ("q|k", "n")}


@pytest.mark.parametrize("seed", [None, 0, 1, *(pytest.param(s, marks=pytest.mark.slow) for s in range(2, 12))])
@pytest.mark.parametrize("name", BODIES)
def test_other_operators(prove_here: Callable[..., Proof], name: str, seed: int | None) -> None:
    """All of a model as one segment, and any nodes of it: the table knows what keeps something, whatever is cut."""
    # Copies of parameters are kept: on a CPU the pieces of an LSTM keep a weight for each token.
    plan = tiny_plan("dp:2,tp:2", ("zero3", "dp"), graph=model(name, BODIES[name])).store("*", axes=("dp",))
    if name in SPLITS:
        target, factor = SPLITS[name]
        plan = plan.shard(target, {factor: "tp"})
    if seed is None:
        plan = plan.recompute("*")
    else:
        draw = Random(seed)
        for node in plan.graph.root.nodes:
            plan = plan.recompute(node.name) if draw.random() < 0.6 else plan
    assert_proven(prove_here(plan))
