"""Rules that come to mind first, each put in place of the right one: the numbers must show it.

All that `docs/concepts/gradients.md` calls tempting and wrong is here, and whatever else gave wrong gradients once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from planner.compose import bundle, train
from planner.core.chunk import lengths
from planner.core.gradient import raw_layout
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.core.strategy import ShardStrategy
from planner.errors import RuleError
from planner.plan import Plan
from planner.proof import unsharded
from tests.ops.cases import CASES, MESH, evaluate_on, expression, meta, node, operands_of, run_sharded, whole
from tests.proof.threads import each_rank, here, runtime, threads
from tests.tiny import tiny_graph, tiny_plan, with_dropout

from .chain import chain_plan, fanout
from .wrong import Prove, Rule, Wrong, fails, rewritten


@pytest.fixture(scope="module")
def prove() -> Iterator[Prove]:
    with threads() as run:
        yield run


def block(mesh: str = "dp:2,tp:2", microbatches: int = 2, **sizes: int) -> Plan:
    """Grouped heads, biases, dropout, tied weights, tensor, sequence and data parallelism."""
    graph = with_dropout(tiny_graph("llama-biased", tied=True, num_hidden_layers=1, **sizes))
    presets = [(name, axis) for name, axis in (("data_parallel", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))
               if axis in mesh]  # fmt: skip
    return tiny_plan(mesh, *presets, graph=graph, microbatches=microbatches)


def chain(name: str) -> Plan:
    """Two linear operators in the ways that a rule is about."""
    whole_: tuple[dict[str, str], dict[str, tuple[int, ...]]] = ({}, {})
    ways = {
        "two raw layouts": {"a": whole_, "b0": ({"n": "t"}, {}), "b1": whole_},
        "kept partial": {"a": ({"k": "t"}, {}), "b0": ({}, {"t": (0, 2)})},
        "row, then column": {"a": ({"k": "t"}, {}), "b0": ({"n": "t"}, {})},
        "gathered for a whole reader": {"a": ({"seq": "t"}, {}), "b0": whole_},
        "two readers": {"a": ({"seq": "t"}, {}), "b0": ({"n": "t"}, {}), "b1": ({"n": "t"}, {})},
        "axes swapped": {"a": ({"n": "t u"}, {}), "b0": ({"k": "u t"}, {})},
    }
    return chain_plan("t:2,u:2" if "swapped" in name else "t:2", **ways[name])


PLANS: dict[str, Callable[[], Plan]] = {
    "block": block,
    "zero": lambda: block().preset("zero3", axis="dp"),
    **{name: (lambda name=name: chain(name)) for name in (  # type: ignore[misc]
        "two raw layouts", "kept partial", "row, then column", "gathered for a whole reader", "two readers",
        "axes swapped",
    )},
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_the_right_rules_pass(prove: Prove, name: str) -> None:
    proof = prove(PLANS[name]())
    assert proof.ok, [row for row in proof.rows if not row.ok] or proof.failures


RULES: tuple[tuple[Callable[[Wrong], Rule], str], ...] = (
    (lambda w: w.gradient_of_partial_is_partial, "block"),
    (lambda w: w.gradient_of_partial_is_partial, "kept partial"),
    (lambda w: w.raw_is_the_operand, "block"),
    (lambda w: w.raw_is_the_operand, "zero"),
    (lambda w: w.raw_is_the_operand, "two raw layouts"),
    (lambda w: w.raw_of_partial_is_partial, "kept partial"),
    (lambda w: w.raw_is_partial_wherever_it_is_not_sharded, "block"),
    (lambda w: w.raw_is_partial_wherever_it_is_not_sharded, "gathered for a whole reader"),
    (lambda w: w.backward_is_the_transpose, "block"),
    (lambda w: w.backward_is_the_transpose, "gathered for a whole reader"),
    (lambda w: w.unequal_gradients_are_added, "two raw layouts"),
    (lambda w: w.only_one_reader_is_asked, "two readers"),
    (lambda w: w.addends_are_added_on_every_rank, "block"),
    (lambda w: w.addends_are_added_on_every_rank, "kept partial"),
    (lambda w: w.the_order_of_axes_does_not_matter, "axes swapped"),
)


@pytest.mark.parametrize(
    ("rule", "name"), RULES, ids=[f"{rule(Wrong(MESH)).__name__}-{name}" for rule, name in RULES]
)  # fmt: skip
def test_a_wrong_rule_of_gradients_is_seen(prove: Prove, rule: Callable[[Wrong], Rule], name: str) -> None:
    plan = PLANS[name]()
    assert fails(prove, plan, rule(Wrong(plan.decisions.mesh)))


def test_special_operators_have_the_raw_layouts_of_their_parts(prove: Prove) -> None:
    """A norm over a sharded width reads its mean square whole: that gradient is a sum over the shards."""
    plan = block("tp:2").shard("input_layernorm|post_attention_layernorm", {"h": ("tp",), "seq": ()})
    assert not fails(prove, plan)
    rule = Wrong(plan.decisions.mesh).raw_is_the_operand
    assert fails(prove, plan, lambda f: rule(f) if f.value.endswith("mean_square") else f)


# -------------------------------------------------------- conventions


LOSS = "        return loss\n"


def all_reduced(fanout_of: str) -> Rule:
    """MindSpore's adjoint: an all-reduce comes back as an all-reduce."""

    def rule(found: Any) -> Any:
        return Wrong(DeviceMesh.parse("t:4")).backward_is_the_transpose(found) if found.value == fanout_of else found

    return rule


@pytest.mark.parametrize(
    ("divided", "reduced", "factor"), [(True, True, 1.0), (False, True, 4.0), (True, False, 0.25), (False, False, 1.0)]
)
def test_two_conventions_are_not_mixed(divided: bool, reduced: bool, factor: float) -> None:
    """A row-parallel product over four ranks, then whole: gradients of what comes before it, by either convention."""
    plan = chain_plan("t:4", a=({"k": "t"}, {}), b0=({}, {}))
    training = train(plan)
    if reduced:
        training = rewritten(training, all_reduced("a"))
    files = bundle(plan, training=training)
    if divided:
        assert LOSS in files["model.py"]
        files["model.py"] = files["model.py"].replace(LOSS, "        return loss / 4\n")
    right, found = (gradients(texts, 4) for texts in (bundle(plan), files))
    # Only what lies before the all-reduce can say which convention holds; what lies behind tells the division.
    for rank in range(4):
        torch.testing.assert_close(found[rank]["a.weight"], factor * right[rank]["a.weight"], rtol=1e-12, atol=0)
        after = 0.25 if divided else 1.0
        torch.testing.assert_close(found[rank]["b0.weight"], after * right[rank]["b0.weight"], rtol=1e-12, atol=0)


def gradients(texts: dict[str, str], world: int) -> tuple[dict[str, Any], ...]:
    """Return every rank's gradients of one step."""

    def work(train_module: ModuleType) -> dict[str, Any]:
        model, _ = made(train_module)
        return {name: p.grad for name, p in model.named_parameters()}

    found = each_rank(texts, world, work)
    assert not any(isinstance(answer, str) for answer in found), found
    return found  # type: ignore[return-value]


def made(train_module: ModuleType) -> tuple[Any, Any]:
    """Build the model on this rank and run one step."""
    modules = {name: sys.modules[f"parallel.{name}"] for name in ("data", "mesh", "parameters", "trainer")}
    settings = train_module.SETTINGS
    mesh = modules["mesh"].Mesh(settings.mesh)
    model = train_module.MODEL(mesh).double()
    modules["parameters"].initialise(model, mesh, seed=0, std=0.1)
    batch = modules["data"].synthetic_batch(0, settings.inputs, seed=0)
    modules["trainer"].loss_of_step(model, batch, settings, mesh)
    return model, mesh


def test_gradients_are_not_averaged_over_ranks(prove: Prove) -> None:
    """The loss is a mean over all targets already, and its gradients are sums."""
    plan = block("dp:2")
    assert fails(prove, plan, text=lambda text: text.replace(LOSS, '        return loss / mesh.size("dp")\n'))


# -------------------------------------------------------- means


def test_the_mean_of_local_means_is_not_the_mean(prove: Prove) -> None:
    """Ranks hold unequal numbers of valid targets."""
    plan = block("dp:2", microbatches=1)

    def text(model: str) -> str:
        """Divide the local sum by the local count, and average what comes out over the ranks."""
        made = [line for line in model.splitlines(keepends=True) if "count_targets = reshard" not in line]
        (place,) = [i for i, line in enumerate(made) if "sum_tokens = reshard" in line]
        made[place] = "        sum_tokens = ops.divide(sum_tokens, count_targets) / 2\n" + made[place]
        return "".join(made).replace("ops.divide(sum_tokens, count_targets)  #", "sum_tokens  #")

    assert fails(prove, plan, text=text)


def test_the_mean_of_microbatches_means_is_not_the_mean(prove: Prove, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = block("dp:2", microbatches=4)
    assert not fails(prove, plan)
    # Every microbatch counts alike, and not by its number of valid targets.
    monkeypatch.setattr(runtime()["parallel.trainer"], "share", lambda *_: 0.25)
    assert fails(prove, plan)


def test_the_example_of_unequal_counts() -> None:
    """Losses of 2, 5 and 3 valid targets on ranks: the mean of means weighs the fewest most."""
    losses = [np.array([0.1, 0.1]), np.array([0.5, 0.4, 0.5, 0.4, 0.5]), np.array([0.2, 0.3, 0.1])]
    right = np.concatenate(losses).mean()
    assert sum(part.sum() for part in losses) / sum(part.size for part in losses) == pytest.approx(right)
    assert np.mean([part.mean() for part in losses]) != pytest.approx(right, rel=0.1)


# -------------------------------------------------------- terms


def linear_in(name: str, operands: tuple[int, ...], one: Any = None) -> bool:
    """Say whether an operator's results on two shares of some operands add up to its result."""
    one = one or CASES[name]
    full = operands_of(one)
    generator = torch.Generator().manual_seed(3)
    first = [
        torch.rand(x.shape, generator=generator, dtype=x.dtype) if i in operands else x for i, x in enumerate(full)
    ]
    second = [x - y if i in operands else x for i, (x, y) in enumerate(zip(full, first, strict=True))]
    a, b, c = (evaluate_on(expression(one), share, MESH, 0)[0] for share in (first, second, full))
    return bool(torch.allclose(a + b, c))


X, MASK = meta(4, 4, 8), meta(4, 4, 8, dtype="bool")
SHIFT = node("shift", X, amount=1.0)


@pytest.mark.parametrize(
    ("name", "operands", "why"),
    [
        ("shift", (0,), "P + 1 adds 1 on every rank"),
        ("swiglu", (0,), "the gate is nonlinear"),
        ("swiglu", (0, 1), "a product of sums is not the sum of products"),
        ("mul", (0, 1), "a product of sums is not the sum of products"),
        ("linear", (0, 1), "a product of sums is not the sum of products"),
        ("attention", (0,), "softmax is nonlinear"),
        ("rms_norm", (0,), "the norm divides by what it normalises"),
        ("div", (1,), "1 / (p + q) is not 1 / p + 1 / q"),
        ("add", (0,), "y would be added on every rank, unless it is Partial too"),
        ("where", (1,), "the other piece would be added on every rank"),
    ],
)
def test_what_is_not_linear_has_no_term(name: str, operands: tuple[int, ...], why: str) -> None:
    one = SHIFT if name == "shift" else CASES[name]
    assert not linear_in(name, operands, one), why
    # What an axis may be Partial in at once: one operand of every term.
    allowed = [set(carriers) for carriers in product(*one.rule.terms)] if one.rule.terms else []
    assert set(operands) not in allowed


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_fill_and_padding_are_linear_with_zero_only(value: float) -> None:
    filled = node("masked_fill", X, MASK, value=value)
    padded = node("pad", X, dim=1, before=1, after=2, value=value)
    for one in (filled, padded):
        assert linear_in("", (0,), one) == (value == 0)
        assert one.rule.terms == (((0,),) if value == 0 else ())


# -------------------------------------------------------- places


def test_a_minor_factor_is_not_sharded_by_divisibility() -> None:
    """Shapes fit, contents are permuted."""
    one = CASES["merge_heads"]
    strategy = ShardStrategy.of({"e": ("a",)})
    operands = operands_of(one)
    (full,) = evaluate_on(expression(one), operands, MESH, 0)
    ((layout, world),) = run_sharded(one, strategy, operands, MESH)
    made_of = whole(layout, world, tuple(full.shape), MESH)
    assert made_of.shape == tuple(full.shape)
    assert not np.allclose(made_of, full.numpy())
    np.testing.assert_allclose(np.sort(made_of.ravel()), np.sort(full.numpy().ravel()))


def test_nested_chunks_are_not_flat_chunks() -> None:
    mesh = DeviceMesh.of({"t": 8, "u": 2, "v": 4})
    assert lengths(10, ("t",), mesh) != lengths(10, ("u", "v"), mesh)


@pytest.mark.parametrize("function", ["causal_attention", "rotary_table", "embedding_of_shard", "pick_target"])
def test_facts_of_the_whole_tensor_are_not_facts_of_a_shard(
    prove: Prove, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """A causal mask, positions and rows of a table start where the shard starts, not at 0."""
    plan = block("tp:2")
    if function in {"causal_attention", "rotary_table"}:
        whole_factors = {"g": (), "r": (), "seq": ("tp",)}
        plan = plan.shard("attention", whole_factors).shard("rotary_emb", {"seq": ("tp",)})
    assert not fails(prove, plan)
    operators = runtime()["parallel.operators"]
    right = getattr(operators, function)
    monkeypatch.setattr(operators, function, lambda *operands, first=0, **named: right(*operands, first=0, **named))
    assert fails(prove, plan)


@pytest.mark.parametrize("way", ["a generator for each rank", "one generator for all ranks"])
def test_independent_generators_do_not_make_dropout(prove: Prove, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Replicas drift apart, or shards that should differ are alike."""
    plan = block("dp:2", microbatches=1)
    generators: dict[int, torch.Generator] = {}

    def dropout(x: Any, *, p: float, key: Any, origin: Any, shape: Any) -> Any:
        rank = here.rank if way == "a generator for each rank" else 0
        generator = generators.setdefault(here.rank + 10 * here.world, torch.Generator().manual_seed(rank))
        return x.masked_fill(torch.rand(x.shape, generator=generator) < p, 0) / (1 - p)

    monkeypatch.setattr(runtime()["parallel.operators"], "dropout", dropout)
    with threads() as afresh:
        assert fails(afresh, plan)


# -------------------------------------------------------- all gradients together


@pytest.mark.parametrize("zero", [None, "zero1", "zero2", "zero3"])
def test_the_norm_counts_replicas_once(zero: str | None) -> None:
    plan = block()
    plan = plan.preset(zero, axis="dp") if zero else plan

    def norms(train_module: ModuleType) -> tuple[float, float]:
        model, mesh = made(train_module)
        right = sys.modules["parallel.clip"].gradient_norm(model, mesh).item()
        own = sys.modules["parallel.gradients"].own_gradients(model)
        held = [own[n].total if n in own else p.grad for n, p in model.named_parameters()]
        squares = sum(gradient.square().sum() for gradient in held).reshape(())
        several = tuple(axis for axis, size in mesh.sizes.items() if size > 1)
        every = sys.modules["parallel.steps"].AllReduce(axes=several)(squares, mesh) if several else squares
        return right, every.sqrt().item()

    ((expected, _),) = each_rank(bundle(unsharded(plan)), 1, norms)
    for right, naive in each_rank(bundle(plan), 4, norms):
        assert right == pytest.approx(expected, rel=1e-12)
        assert naive != pytest.approx(expected, rel=1e-2)


def test_clipping_scales_to_the_bound() -> None:
    def clipped(train_module: ModuleType) -> tuple[float, float, float]:
        model, mesh = made(train_module)
        clip = sys.modules["parallel.clip"]
        before = clip.gradient_norm(model, mesh).item()
        own = sys.modules["parallel.gradients"].own_gradients(model)

        def scaled_to(bound: float) -> float:
            factor = clip.clip_factor(clip.gradient_norm(model, mesh), bound)
            for name, p in model.named_parameters():
                (own[name].total if name in own else p.grad).mul_(factor)
            return float(clip.gradient_norm(model, mesh))

        return before, scaled_to(2 * before), scaled_to(before / 3)

    for before, untouched, after in each_rank(bundle(block().preset("zero2", axis="dp")), 4, clipped):
        assert (untouched, after) == (pytest.approx(before), pytest.approx(before / 3))


# -------------------------------------------------------- refusals


def test_only_sums_carry_gradients() -> None:
    """Each summand of a sum gets the whole gradient; a maximum's operands do not."""
    top = Layout.parse("[-, -] max(t)")
    with pytest.raises(RuleError) as caught:
        raw_layout(Layout.parse("[-, -, t]"), (top,), "top")
    assert caught.value.code == "rule.partial-gradient"
    with pytest.raises(RuleError):
        raw_layout(top, (Layout.parse("[-, -]"),), "top")


def test_results_must_agree_on_what_is_replicated() -> None:
    with pytest.raises(RuleError) as caught:
        raw_layout(Layout.parse("[-]"), (Layout.parse("[t]"), Layout.parse("[-]")), "split")
    assert caught.value.code == "rule.results-disagree"


def test_a_right_loss_says_nothing_about_the_backward(prove: Prove) -> None:
    """Without any reduction in backward the loss is what it was, and gradients are wrong on every rank."""
    plan = block()
    rule = Wrong(plan.decisions.mesh).raw_is_the_operand
    wrong = fails(prove, plan, rule)
    assert "loss" not in wrong
    assert len(wrong) > 10


def test_the_plan_of_two_raw_layouts_has_two() -> None:
    assert len(fanout(train(chain("two raw layouts")), "a").backward) == 2


def test_nothing_is_changed_for_nothing(prove: Prove) -> None:
    with pytest.raises(AssertionError, match="changes nothing"):
        fails(prove, block("tp:2"), lambda found: found)
