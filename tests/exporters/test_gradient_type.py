"""Gradients in fp32 beside parameters in bf16: added up, reduced and kept as the precision says."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from types import ModuleType
from typing import Any

import pytest

from planner.collectives import COLLECTIVES
from planner.compose import bundle, evaluate
from planner.core.report import OPTIMIZER, STORAGE
from planner.plan import Plan
from tests.tiny import tiny_graph, tiny_plan

torch = pytest.importorskip("torch")
from tests.proof.threads import each_rank  # noqa: E402

GRAPH = tiny_graph(num_hidden_layers=1)
WIDE, NARROW = "bf16-fp32grad", "bf16"
PLANS = {
    "one": ("dp:1", (), 64),
    "zero2-tp-sp": ("dp:2,tp:2", (("zero2", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp")), 4),
    "zero3": ("dp:2", (("zero3", "dp"),), 8),
    "fused": ("dp:2", (("data_parallel", "dp"),), 8),
    "pipeline": ("pp:2,dp:2", (("zero1", "dp"),), 32),
}
"""Mesh, presets, and microbatches of two samples each."""


@dataclass(frozen=True)
class Found:
    """The gradients of a step on one rank, the bytes that they take, and what was passed."""

    gradients: dict[str, Any]
    nbytes: int
    log: tuple[Any, ...]


class Run:
    """A model whose parameters bfloat16 holds exactly, on one rank."""

    def __init__(self, train: ModuleType, dtype: str) -> None:
        self.settings: Any = train.SETTINGS
        self.mesh = self.of("mesh").Mesh(self.settings.mesh)
        self.mesh.compute = getattr(torch, dtype)
        self.model = train.MODEL(self.mesh).to(self.mesh.compute)
        self.of("parameters").initialise(self.model, self.mesh, seed=0, std=0.1)
        for parameter in self.model.parameters():
            parameter.data.copy_(parameter.data.bfloat16())
        optimizer = self.of("optimizer").MasterAdamW(self.model, self.mesh)
        rate, state = self.of("rate").Rate(0.0, 1), self.of("trainer").State(0)
        self.of("trainer").Training(self.model, self.settings, self.mesh, optimizer, rate=rate, state=state)
        self.batch = self.of("data").synthetic_batch(0, self.settings.inputs, seed=0)
        self.mesh.log = []

    def of(self, module: str) -> Any:
        return sys.modules[f"parallel.{module}"]

    def step(self, batch: Any, settings: Any, scale: float) -> Found:
        self.of("trainer").loss_of_step(self.model, batch, settings, self.mesh, scale=scale)
        own = self.of("gradients").own_gradients(self.model)
        found = {n: own[n].total if n in own else p.grad for n, p in self.model.named_parameters()}
        storages = {g.untyped_storage().data_ptr(): g.untyped_storage().nbytes() for g in found.values()}
        for parameter in self.model.parameters():
            parameter.grad = None
        for gradient in own.values():
            gradient.total = None
        return Found(found, sum(storages.values()), tuple(self.mesh.log))


def at_once(train: ModuleType, *, dtype: str) -> Found:
    run = Run(train, dtype)
    return run.step(run.batch, run.settings, 1.0)


def one_by_one(train: ModuleType, *, dtype: str) -> dict[str, Any]:
    """Return the sum, in float64, of the gradients of the microbatches, each taken alone."""
    run = Run(train, dtype)
    inputs, count = run.settings.inputs, run.settings.microbatches
    alone = replace(run.settings, samples=run.settings.samples // count, microbatches=1)
    total: dict[str, Any] = {}
    for index in range(count):
        part = run.of("data").microbatch(run.batch, inputs, index, count)
        found = run.step(part, alone, run.of("data").share(run.batch, part, inputs, count))
        total = {name: total.get(name, 0) + gradient.double() for name, gradient in found.gradients.items()}
    return total


@cache
def plan_of(name: str, precision: str) -> Plan:
    mesh, presets, microbatches = PLANS[name]
    plan = tiny_plan(mesh, *presets, graph=GRAPH).batch(global_batch=2 * microbatches, seq=8, microbatches=microbatches)
    if name == "pipeline":
        plan = plan.pipelined("pp", schedule="zb-h1")
    if name == "fused":
        plan = plan.gradients(fusion="auto")
    return plan.precise(precision)


def on_ranks(name: str, precision: str, work: Any) -> tuple[Any, ...]:
    dtype = "float64" if precision == "float64" else "bfloat16"
    plan = plan_of(name, precision)
    answers = each_rank(bundle(plan), plan.decisions.mesh.device_count, partial(work, dtype=dtype))
    assert not any(isinstance(answer, str) for answer in answers), answers
    return answers


@cache
def found(name: str, precision: str) -> tuple[Found, ...]:
    return on_ranks(name, precision, at_once)


def errors(gradients: dict[str, Any], exact: dict[str, Any]) -> Iterator[float]:
    assert gradients.keys() == exact.keys()
    for name, gradient in gradients.items():
        wanted = exact[name].double()
        yield float((gradient.double() - wanted).norm() / wanted.norm())


SLOW = pytest.mark.slow


@pytest.mark.parametrize("name", ["one", *(pytest.param(n, marks=SLOW) for n in ("zero2-tp-sp", "zero3", "fused"))])
def test_gradients_of_microbatches_add_up_in_the_type_of_the_precision(name: str) -> None:
    """In fp32 the sum loses nothing that shows; in bf16 it loses more than a thousandth."""
    summed = on_ranks(name, WIDE, one_by_one)
    for precision, fits in ((WIDE, True), (NARROW, False)):
        for rank, exact in zip(found(name, precision), summed, strict=True):
            assert {g.dtype for g in rank.gradients.values()} == {torch.float32 if fits else torch.bfloat16}
            largest = max(errors(rank.gradients, exact))
            assert largest < 1e-6 if fits else largest > 1e-3, (precision, largest)


@pytest.mark.slow
def test_a_pipeline_whose_backward_is_in_two_parts_adds_up_alike() -> None:
    """Against float64: what is left is the rounding of the computation itself."""
    for wide, narrow, exact in zip(*(found("pipeline", kind) for kind in (WIDE, NARROW, "float64")), strict=True):
        left, lost = (sum(errors(each.gradients, exact.gradients)) for each in (wide, narrow))
        assert left < 0.8 * lost


@pytest.mark.parametrize("precision", [WIDE, pytest.param(NARROW, marks=SLOW)])
@pytest.mark.parametrize("name", ["zero2-tp-sp", pytest.param("zero3", marks=SLOW), pytest.param("fused", marks=SLOW)])
def test_what_is_passed_and_kept_is_what_was_priced(name: str, precision: str) -> None:
    report = evaluate(plan_of(name, precision))
    rows = [row for row in report.collectives if row.readers not in {(OPTIMIZER,), (STORAGE,)}]
    planned: Counter[tuple[str, tuple[str, ...], int]] = Counter()
    for row in rows:
        if not COLLECTIVES[row.kind].local:
            planned[row.kind, row.axes, row.payload_bytes] += row.count
    memory = {item.name: item.value for item in report.memory.children}
    for rank in found(name, precision):
        assert Counter((kind, axes, max(into, out)) for kind, axes, into, out in rank.log) == planned
        assert rank.nbytes == memory["gradients"]


def test_a_torch_that_can_not_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from planner.exporters.runtime import gradients
    from planner.exporters.runtime.mesh import Mesh

    class Old(torch.nn.Module):
        def parameters(self, recurse: bool = True) -> Iterator[Any]:
            class Parameter:
                requires_grad, dtype = True, torch.bfloat16

            yield Parameter()

    mesh = Mesh({"whole": 1})
    with pytest.raises(
        RuntimeError, match=r"can't keep gradients in torch\.float32 beside parameters in torch\.bfloat"
    ):
        gradients.keep_gradients_in(Old(), mesh, torch.float32)
    gradients.keep_gradients_in(torch.nn.Linear(2, 2), mesh, torch.float32)
    assert mesh.gradient is None
