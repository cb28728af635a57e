"""One tensor of autograd's may be the gradient of several parameters: nothing writes into it, or keeps all of it."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from planner.compose import bundle, load_model, train  # noqa: E402
from planner.exporters.runtime.mesh import Mesh  # noqa: E402
from planner.exporters.runtime.steps import Slice  # noqa: E402
from planner.plan import Plan  # noqa: E402
from tests.proof.threads import each_rank  # noqa: E402

WIDTH = 8


class Sum(nn.Module):
    """A product with the sum of two parameters, which autograd hands the same gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.zeros(WIDTH, WIDTH))
        self.other = nn.Parameter(torch.zeros(WIDTH, WIDTH))

    def forward(self, x: Any, target: Any) -> Any:
        return ((x @ (self.one + self.other)).sum(-1) - target).square().mean()


def plan_of(mesh: str) -> Plan:
    graph = load_model(Sum(), (torch.ones(4, WIDTH), torch.ones(4)))
    cluster = f"1x{mesh.partition(':')[2]}-h100-sxm"
    return Plan.new(graph, cluster=cluster, mesh=mesh, global_batch=4, microbatches=1, precision="float64")


def moments(train: ModuleType) -> dict[str, Any]:
    """Return Adam's first moments, which tell the size of gradients, after a step that clips them."""
    of = {name: sys.modules[f"parallel.{name}"] for name in ("mesh", "optimizer", "parameters", "rate", "trainer")}
    trainer: Any = of["trainer"]
    mesh = of["mesh"].Mesh(train.SETTINGS.mesh)
    model = train.MODEL(mesh).double()
    of["parameters"].initialise(model, mesh, seed=0, std=0.1)
    optimizer = of["optimizer"].MasterAdamW(model, mesh)
    run = trainer.Training(
        model, train.SETTINGS, mesh, optimizer, rate=of["rate"].Rate(0.1, 1), state=trainer.State(0), clip=1e-3
    )
    run.step(trainer.synthetic(train.SETTINGS, 0))
    return {part.name: optimizer.adam.state[part.master]["exp_avg"].clone() for part in optimizer.parts}


def test_gradients_that_are_one_tensor_are_clipped_once() -> None:
    """Each rank computes the whole product and keeps a slice of the gradient, which is one of the same tensor twice."""
    (whole,) = each_rank(bundle(plan_of("tp:1")), 1, moments)
    plan = plan_of("tp:2").store("one", of="gradient", layout="[tp, -]").store("other", of="gradient", layout="[tp, -]")
    steps = [s.kind for f in train(plan).scopes[0].fanouts for d in f.backward for s in d.redistribution.steps]
    assert steps.count("slice") == 2
    for rank, found in enumerate(each_rank(bundle(plan), 2, moments)):
        assert not isinstance(found, str), found
        for name, moment in found.items():
            expected = whole[name][rank * WIDTH // 2 : (rank + 1) * WIDTH // 2]
            torch.testing.assert_close(moment, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("dim", [0, 1])
def test_a_slice_keeps_nothing_but_itself(dim: int) -> None:
    """What is priced as a shard does not hold the whole."""
    mesh = Mesh({"tp": 1})
    mesh.sizes["tp"] = 2
    x = torch.randn(6, 4)
    part = Slice(dim=dim, axes=("tp",))(x, mesh)
    assert torch.equal(part, x.narrow(dim, 0, x.shape[dim] // 2))
    assert part.is_contiguous()
    assert part.untyped_storage().nbytes() == x.untyped_storage().nbytes() // 2
