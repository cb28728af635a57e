"""Gradients that are reduced together, beside backward, or as a sum are those of the unsharded model."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from statistics import median
from types import ModuleType
from typing import Any

import pytest

from planner.compose import bundle, train
from planner.core.summed import data_ranks
from planner.plan import Plan
from planner.proof import Proof
from planner.proof.shrink import shrink, uncovered
from tests.tiny import tiny_gpt2, tiny_graph, tiny_plan

from .test_presets import assert_proven

torch = pytest.importorskip("torch")
from .threads import each_rank, runtime  # noqa: E402

FUSIONS: dict[str, dict[str, object]] = {
    "none": {},
    "auto": {"fusion": "auto"},
    "size": {"fusion": "size", "bucket_bytes": 9000},
    "index": {"fusion": "index", "indices": (2, 9, 14)},
}
STATES: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "zero0": ("dp:2,tp:2", (("data_parallel", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))),
    "zero1": ("dp:2,tp:2", (("zero1", "dp"), ("megatron", "tp"))),
    "zero2": ("dp:2,tp:2", (("zero2", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))),
    "zero2, two data axes": ("dp:2,rep:2", (("zero2", "dp"), ("data_parallel", "rep"))),
    "zero3": ("dp:4", (("zero3", "dp"),)),
}
ALL = list(product(FUSIONS, (False, True), STATES, (1, 2)))
QUICK = {
    ("auto", True, "zero0", 2),
    ("size", False, "zero0", 1),
    ("size", True, "zero2", 2),
    ("index", True, "zero1", 1),
    ("none", True, "zero2, two data axes", 2),
    ("auto", False, "zero3", 2),
}
GRAPH = tiny_graph("llama-biased", tied=True)


def plan_of(state: str, microbatches: int = 1, **decision: object) -> Plan:
    mesh, presets = STATES[state]
    plan = tiny_plan(mesh, *presets, graph=GRAPH, microbatches=microbatches)
    return plan.gradients(**decision)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fusion", "overlap", "state", "microbatches"),
    [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in ALL],
)
def test_fused_and_overlapped(
    prove_here: Callable[..., Proof], fusion: str, overlap: bool, state: str, microbatches: int
) -> None:
    plan = plan_of(state, microbatches, **FUSIONS[fusion], overlap=overlap)
    assert train(plan).buckets or (fusion == "none" and not overlap)
    assert_proven(prove_here(plan))


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("state", ["zero0", "zero2"])
def test_deferred(prove_here: Callable[..., Proof], state: str, overlap: bool) -> None:
    """Some parameters' gradients are reduced once a step, others after every microbatch, each kind in its buckets."""
    plan = plan_of(state, 2, **FUSIONS["size"], overlap=overlap).store("*mlp*", of="gradient", deferred=True)
    assert {bucket.deferred for bucket in train(plan).buckets} == {False, True}
    assert_proven(prove_here(plan))


@pytest.mark.parametrize(
    ("state", "fusion"), [("zero1", "auto"), pytest.param("zero2", "size", marks=pytest.mark.slow)]
)
def test_training(prove_here: Callable[..., Proof], state: str, fusion: str) -> None:
    """Losses and parameters after several updates are those of the unsharded model."""
    plan = plan_of(state, 2, **FUSIONS[fusion], overlap=True)
    assert_proven(prove_here(plan, kind="training", steps=4))


@pytest.mark.parametrize(("state", "microbatches"), [("zero0", 2), ("zero2, two data axes", 1)])
def test_sum(prove_here: Callable[..., Proof], state: str, microbatches: int) -> None:
    """The unsharded model's gradients are multiplied by data ranks and microbatches; the loss is not."""
    plan = plan_of(state, microbatches, reduction="sum")
    assert data_ranks(train(plan).assignment) == (2 if "two" not in state else 4)
    assert_proven(prove_here(plan))
    mean = bundle(replace(plan, decisions=replace(plan.decisions, gradients=plan_of(state).decisions.gradients)))
    wrong = prove_here(plan, mean)
    assert not any(row.ok for row in wrong.rows if row.name != "loss")
    assert next(row.ok for row in wrong.rows if row.name == "loss")


def test_sum_is_what_adding_up_the_gradients_of_local_means_gives() -> None:
    """The means of four parts of two samples, with equally many targets, differentiated one by one and added."""
    plan = plan_of("zero0", 2, reduction="sum")
    of_parts = each_rank(bundle(tiny_plan("whole:1", graph=GRAPH)), 1, partial(gradients, parts=4))[0]
    assert isinstance(of_parts, dict)
    for found in each_rank(bundle(plan), 4, gradients):
        assert isinstance(found, dict)
        # What tensor parallelism cuts is compared by proofs.
        whole = [name for name in found if found[name].shape == of_parts[name].shape]
        assert len(whole) >= 5
        for name in whole:
            torch.testing.assert_close(found[name], of_parts[name], rtol=1e-10, atol=1e-12)


def gradients(train_module: ModuleType, *, parts: int = 1) -> dict[str, torch.Tensor]:
    """Return the gradients of a step on targets that are never ignored, added up over parts that are steps alone."""
    modules = runtime()
    own: Any = train_module
    inputs = tuple(replace(feed, ignored=None) for feed in own.SETTINGS.inputs)
    batch = modules["parallel.data"].synthetic_batch(0, inputs, seed=0)
    mesh = modules["parallel.mesh"].Mesh(own.SETTINGS.mesh)
    mesh.compute = torch.float64
    model = own.MODEL(mesh).double()
    modules["parallel.parameters"].initialise(model, mesh, seed=0, std=0.1)
    for index in range(parts):
        size = own.SETTINGS.samples // parts
        feeds = tuple(replace(feed, shape=(feed.shape[0] // parts, *feed.shape[1:])) for feed in inputs)
        settings = replace(own.SETTINGS, inputs=feeds, samples=size)
        part = tuple(x[index * size : (index + 1) * size] for x in batch)
        modules["parallel.trainer"].loss_of_step(model, part, settings, mesh)
    apart = modules["parallel.gradients"].own_gradients(model)
    held = {name: apart[name].total if name in apart else p.grad for name, p in model.named_parameters()}
    return {name: gradient for name, gradient in held.items() if gradient is not None}


def test_sum_trains_like_the_unsharded_sum(prove_here: Callable[..., Proof]) -> None:
    assert_proven(prove_here(plan_of("zero1", 2, reduction="sum", fusion="auto"), kind="training", steps=3))


@pytest.mark.slow
def test_other_modules(prove_here: Callable[..., Proof]) -> None:
    """Parameters of the root, of modules with biases, and of embeddings that positions add to."""
    plan = tiny_plan("dp:4", ("zero2", "dp"), graph=tiny_gpt2(), microbatches=2)
    assert_proven(prove_here(plan.gradients(fusion="size", bucket_bytes=5000, overlap=True)))


@pytest.mark.parametrize(
    ("fusion", "overlap", "state", "microbatches"),
    [("size", True, "zero2", 2), pytest.param("auto", True, "zero0", 1, marks=pytest.mark.slow)],
)
def test_on_processes(prove: Callable[..., Proof], fusion: str, overlap: bool, state: str, microbatches: int) -> None:
    """What threads prove, processes prove whose collectives really run beside backward."""
    assert_proven(prove(plan_of(state, microbatches, **FUSIONS[fusion], overlap=overlap)))


@pytest.mark.parametrize(
    ("mode", "usual"),
    [("int8", 0.1), *(pytest.param(*case, marks=pytest.mark.slow) for case in (("bf16", 0.01), ("fp16", 0.001)))],
)
@pytest.mark.parametrize("state", ["zero0", pytest.param("zero2, two data axes", marks=pytest.mark.slow)])
def test_compressed_on_processes(prove: Callable[..., Proof], state: str, mode: str, usual: float) -> None:
    """Processes pass exactly the planned bytes, and the gradients are off by what the mode rounds.

    A gradient that is small beside others of its block is off by more, so it is the median that is bounded.
    """
    proof = prove(plan_of(state, 2, **FUSIONS["size"], overlap=True, compression=mode))
    assert (proof.failures, proof.collectives) == ((), ())
    errors = [row.error for row in proof.rows if row.name != "loss"]
    assert 1e-10 < median(errors) < usual


@pytest.mark.parametrize("overlap", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("schedule", ["1f1b", pytest.param("zb-h1", marks=pytest.mark.slow)])
def test_stages_of_a_pipeline(prove: Callable[..., Proof], schedule: str, overlap: bool) -> None:
    """A stage has buckets of its own; what several stages hold is in none."""
    plan = tiny_plan("pp:2,dp:2", ("data_parallel", "dp"), graph=GRAPH, microbatches=2)
    plan = plan.gradients(fusion="auto", overlap=overlap).pipelined("pp", schedule)
    held = [{m.parameter for m in bucket.members} for bucket in train(plan).buckets]
    assert not any("embed_tokens" in name for names in held for name in names)
    assert_proven(prove(plan))


@pytest.mark.parametrize("kind", ["gradients", pytest.param("training", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "change",
    [
        lambda plan: plan.recompute("layers.*"),
        lambda plan: plan.preset("offload_optimizer"),
        pytest.param(lambda plan: plan.preset("offload_parameters"), marks=pytest.mark.slow),
        pytest.param(lambda plan: plan.store("*", axes=("dp",), regather=True), marks=pytest.mark.slow),
    ],
    ids=["recompute", "optimizer on the host", "parameters on the host", "fetched again"],
)
def test_with_what_else_changes_backward(
    prove_here: Callable[..., Proof], change: Callable[[Plan], Plan], kind: str
) -> None:
    plan = change(plan_of("zero2", 2, **FUSIONS["size"], overlap=True))
    assert_proven(prove_here(plan, kind=kind, steps=3 if kind == "training" else 1))


def test_a_dropped_member_is_found(prove_here: Callable[..., Proof]) -> None:
    """A parameter that is left out of its bucket is reduced by itself: right numbers by other collectives."""
    plan = plan_of("zero0", fusion="auto")
    files = dict(bundle(plan))
    name = '"model.layers.0-1.mlp.up_proj.weight",'
    assert name in files["train.py"]
    lines = [line for line in files["train.py"].splitlines() if name not in line]
    proof = prove_here(plan, files | {"train.py": "\n".join(lines) + "\n"})
    assert proof.collectives
    assert not proof.ok


def test_what_a_bucket_waits_for_in_vain_is_named(prove_here: Callable[..., Proof]) -> None:
    plan = plan_of("zero0", fusion="auto")
    files = dict(bundle(plan))
    broken = files["train.py"].replace("0-1.mlp.up_proj.weight", "0-1.mlp.up_proj.weights")
    proof = prove_here(plan, files | {"train.py": broken})
    assert any("model.layers.0.mlp.up_proj.weights" in failure for failure in proof.failures)


def test_the_small_model_has_as_many_buckets_in_proportion() -> None:
    plan = plan_of("zero0", fusion="size", bucket_bytes=20_000, compression="int8")
    small = shrink(plan, 4)
    decision = small.decisions.gradients
    assert (decision.fusion, decision.compression) == ("size", "none")
    share = small.graph.parameter_count / plan.graph.parameter_count
    assert decision.bucket_bytes == pytest.approx(20_000 * share, abs=1)
    assert any("not as int8" in note for note in uncovered(plan, small))
    placed = shrink(plan_of("zero0", fusion="index", indices=(2, 9, 14)), 4).decisions.gradients
    assert placed.fusion == "index"
    assert list(placed.indices) == sorted(set(placed.indices))
