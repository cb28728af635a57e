"""What packing gradients costs, beside the bytes that the runtime's copies move and a closed form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from planner.compose import evaluate, train
from planner.core.bucket import Bucket
from planner.core.mesh import DeviceMesh
from planner.cost import price_stages
from planner.cost.buckets import packing_bytes
from planner.cost.communication import copy_seconds
from planner.exporters.explicit.steps import call
from planner.pipelining import places_of
from planner.plan import Plan
from tests.tiny import tiny_graph, tiny_plan

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from planner.exporters.runtime import steps as runtime_steps  # noqa: E402
from planner.exporters.runtime.fusion import OpenBucket, Queue  # noqa: E402
from planner.exporters.runtime.gradients import Gradient  # noqa: E402
from planner.exporters.runtime.mesh import Mesh  # noqa: E402

ELEMENT = 8
VIEWS = {"view", "_unsafe_view", "permute", "select", "slice", "split", "split_with_sizes", "detach"}
GRAPH = tiny_graph(num_hidden_layers=2)
MEGATRON = ("megatron", "tp")
PLANS = {
    "data": tiny_plan("dp:2", ("data_parallel", "dp"), graph=GRAPH).gradients(fusion="auto"),
    "gradients cut": tiny_plan("dp:2,tp:2", ("zero2", "dp"), MEGATRON, graph=GRAPH).gradients(fusion="auto"),
    "two data axes": tiny_plan("rep:2,dp:2", ("zero2", "dp"), ("data_parallel", "rep"), graph=GRAPH).gradients(
        fusion="auto"
    ),
    "each alone": tiny_plan("dp:2,tp:2", ("zero2", "dp"), MEGATRON, graph=GRAPH).gradients(
        fusion="size", bucket_bytes=1
    ),
}


class Copied(TorchDispatchMode):
    """Counts the bytes that copies read and write."""

    def __init__(self) -> None:
        super().__init__()
        self.nbytes: list[int] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if name in {"cat", "clone", "copy_", "index", "_to_copy"}:
            self.nbytes.append(2 * out.numel() * out.element_size())
        else:
            assert name in VIEWS, name
        return out


class Nothing:
    """A collective that passes nothing and is done at once."""

    def wait(self) -> None:
        pass

    def all_reduce(self, x: Any, *_: Any) -> Iterator[tuple[Nothing, bool]]:
        yield self, False
        return x

    def reduce_scatter(self, parts: Any, *_: Any) -> Iterator[tuple[Nothing, bool]]:
        yield self, False
        return parts[0]


def copied(bucket: Bucket, layers: int, mesh: DeviceMesh) -> list[int]:
    """Return the bytes of the copies of a bucket of the runtime that is filled with raw gradients."""
    on = Mesh(dict.fromkeys(mesh.names, 1))
    on.sizes = dict(mesh.axes)
    given = []
    for member in bucket.members:
        made = [eval(call(step, mesh), vars(runtime_steps)) for step in member.moved.steps]
        raw = member.moved.steps[0].source_shape
        given += [(made, torch.zeros(raw, dtype=torch.float64)) for _ in range(layers or member.iterations)]
    gradients = [Gradient("", deferred=False) for _ in given]
    opened = OpenBucket([str(n) for n in range(len(given))], gradients, Queue(overlap=False), Nothing(), on)  # type: ignore[arg-type]
    with Copied() as seen:
        for gradient, (made, raw) in zip(gradients, given, strict=True):
            opened.take(gradient, made, raw)
    return seen.nbytes


@pytest.mark.parametrize("name", PLANS)
def test_what_is_priced_is_what_is_copied(name: str) -> None:
    plan = PLANS[name]
    training, mesh = train(plan), plan.decisions.mesh
    assert len(training.buckets) > 1
    for bucket in training.buckets:
        assert not any(step.kind in {"slice", "pad", "zero"} for m in bucket.members for step in m.moved.steps)
        for layers, _ in bucket.cuts:
            assert sorted(copied(bucket, layers, mesh)) == sorted(packing_bytes(bucket, layers, mesh, ELEMENT))


def large(**decision: object) -> Plan:
    graph = tiny_graph(num_hidden_layers=4, hidden_size=512, intermediate_size=2048)
    plan = tiny_plan("dp:8", ("data_parallel", "dp"), graph=graph).precise("bf16")
    return plan.batch(global_batch=64, seq=64, microbatches=4).gradients(**decision)  # type: ignore[arg-type]


def test_copies_of_an_all_reduce_by_hand() -> None:
    """All gradients are read and written once a microbatch, or once a step; nothing hides them."""
    plan = large(fusion="auto")
    training = train(plan)
    each = [
        (times, 2 * 2 * sum(m.shared[0].source_elements * (layers or m.iterations) for m in bucket.members))
        for bucket in training.buckets
        for layers, times in bucket.cuts
    ]
    once = sum(times * copy_seconds(nbytes, plan.cluster) for times, nbytes in each)
    reports = {
        microbatches: evaluate(made)
        for microbatches, made in ((4, plan), (1, plan.store("*", of="gradient", deferred=True)),
                                   (-4, large(fusion="auto", overlap=True)))
    }  # fmt: skip
    for microbatches, report in reports.items():
        assert report.step_time.child("packing of gradients").value == pytest.approx(abs(microbatches) * once)
        assert report.step_time.value == pytest.approx(sum(child.value for child in report.step_time.children))
        low, high = report.interval
        assert low <= report.step_time.value <= high * (1 + 1e-12)
    assert "packing of gradients" not in {child.name for child in evaluate(large()).step_time.children}


def test_a_stage_packs_its_own() -> None:
    plan = tiny_plan("pp:2,dp:2", ("data_parallel", "dp"), graph=GRAPH, microbatches=4).pipelined("pp")
    fused = plan.gradients(fusion="auto")
    before, after = (price_stages(train(p), p.decisions, p.cluster, places_of(p)) for p in (plan, fused))
    for stage, alone in zip(after, before, strict=True):
        reductions = [each.priced.seconds.gradients for each in (stage, alone)]
        backward = [each.times.backward_input + each.times.backward_weight for each in (stage, alone)]
        packing = stage.priced.seconds.packing
        assert packing > 0
        assert 4 * (backward[0] - backward[1]) == pytest.approx(packing + reductions[0] - reductions[1])
