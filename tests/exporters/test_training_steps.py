"""What an optimizer step is made of: microbatches, loss scaling, clipping, and where it stands."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

from planner.compose import bundle
from planner.exporters.runtime.data import Feed
from planner.exporters.runtime.mesh import Mesh
from planner.exporters.runtime.optimizer import MasterAdamW
from planner.exporters.runtime.parameters import Weights
from planner.exporters.runtime.rate import Rate
from planner.exporters.runtime.scaling import DOUBLED_AFTER, LossScale
from planner.exporters.runtime.settings import Settings
from planner.exporters.runtime.trainer import State, Training
from tests.proof.threads import each_rank
from tests.tiny import tiny_plan

SHARDED = (("zero2", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))


@pytest.mark.parametrize("presets", [(), SHARDED], ids=["one rank", "four ranks"])
def test_microbatches_leave_gradients_equal(presets: tuple[tuple[str, str], ...]) -> None:
    """1, 2 and 4 microbatches of one exported bundle, with unequal numbers of labels: float64, 1e-12."""

    def gradients(train: ModuleType) -> dict[int, tuple[torch.Tensor, dict[str, torch.Tensor]]]:
        modules = {name: sys.modules[f"parallel.{name}"] for name in ("data", "gradients", "mesh", "parameters")}
        trainer: Any = sys.modules["parallel.trainer"]
        mesh = modules["mesh"].Mesh(train.SETTINGS.mesh)
        found = {}
        for count in (2, 1, 4):
            model = train.MODEL(mesh).double()
            modules["parameters"].initialise(model, mesh, seed=0, std=0.1)
            batch = modules["data"].synthetic_batch(0, train.SETTINGS.inputs, seed=0)
            loss = trainer.loss_of_step(model, batch, train.SETTINGS.in_microbatches(count), mesh)
            own = modules["gradients"].own_gradients(model)
            each = {n: own[n].total if n in own else p.grad for n, p in model.named_parameters()}
            found[count] = (loss, each)
        return found

    plan = tiny_plan("dp:2,tp:2" if presets else "whole:1", *presets, microbatches=2)
    for rank in each_rank(bundle(plan), plan.decisions.mesh.device_count, gradients):
        assert not isinstance(rank, str), rank
        loss, expected = rank[1]
        assert len(expected) == 21
        for count in (2, 4):
            torch.testing.assert_close(rank[count][0], loss, rtol=1e-12, atol=0)
            for name, gradient in rank[count][1].items():
                error = (gradient - expected[name]).norm() / expected[name].norm()
                assert error < 1e-12, (count, name)


class Parabola(Weights):
    """Loss Σ (w − 3)² · b, on one rank."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__(mesh, w=((2,), "[-]", "normal"))

    def forward(self, by: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = ((self.w - 3).float() ** 2).sum() * by.float()
        return loss


SETTINGS = Settings(
    mesh={"whole": 1}, samples=4, microbatches=1, dtype="float16",
    inputs=(Feed(name="by", shape=(), dtype="float32", layout="[]", kind="normal"),),
)  # fmt: skip


def run(dtype: torch.dtype, *, scale: LossScale | None, clip: float | None = None) -> Training:
    mesh = Mesh({"whole": 1})
    model = Parabola(mesh).to(dtype)
    model.w.data.copy_(torch.tensor([1.0, 5.0]))
    return Training(
        model, SETTINGS, mesh, MasterAdamW(model, mesh, weight_decay=0.0), rate=Rate(0.1, 100),
        state=State(seed=0, scale=scale), clip=clip,
    )  # fmt: skip


def taken(training: Training, *factors: float) -> None:
    for factor in factors:
        training.step(lambda step, samples, factor=factor: (torch.tensor(factor),))  # type: ignore[misc]


def test_a_scaled_step_is_the_unscaled_one() -> None:
    """The power of two cancels out: gradients of 1e-9 vanish in fp16 without it.

    Adam's second step compares the first gradient with the second, so both must be right.
    """
    scaled, exact, lost = (
        run(torch.float16, scale=LossScale()),
        run(torch.float64, scale=None),
        run(torch.float16, scale=None),
    )
    for training in (scaled, exact, lost):
        taken(training, 1e-9, 3e-9)
    masters = [training.optimizer.parts[0].master.detach().double() for training in (scaled, exact)]
    torch.testing.assert_close(masters[0], masters[1], rtol=1e-2, atol=1e-2)
    assert (masters[1] - torch.tensor([1.0, 5.0])).abs().min() > 0.05
    assert torch.equal(lost.optimizer.parts[0].master, torch.tensor([1.0, 5.0]))


def test_a_step_that_is_not_finite_is_left_out() -> None:
    training = run(torch.float16, scale=LossScale(2.0**13))
    taken(training, 1.0)
    kept = training.optimizer.parts[0].master.detach().clone()
    moments = training.optimizer.adam.state[training.optimizer.parts[0].master]["exp_avg"].clone()
    taken(training, 1e5, float("nan"))
    assert torch.equal(training.optimizer.parts[0].master, kept)
    assert torch.equal(training.optimizer.adam.state[training.optimizer.parts[0].master]["exp_avg"], moments)
    assert training.state.scale is not None
    assert (training.state.skipped, training.state.step, training.state.samples) == (2, 3, 12)
    assert training.state.scale.value == 2.0**11


def test_clipping_is_by_the_unscaled_norm() -> None:
    """Adam does not feel a factor on all gradients of its first step; the moments do."""
    for dtype, scale in ((torch.float16, LossScale(2.0**10)), (torch.float64, None)):
        training = run(dtype, scale=scale, clip=0.5)
        taken(training, 1.0)
        gradient = torch.tensor([-4.0, 4.0], dtype=torch.float64)
        moment = training.optimizer.adam.state[training.optimizer.parts[0].master]["exp_avg"].double()
        torch.testing.assert_close(moment, 0.1 * gradient * 0.5 / gradient.norm(), rtol=1e-3, atol=0)


def test_the_scale_moves_as_torch_moves_it() -> None:
    """Against `torch.amp.GradScaler`, over steps of which some are not finite."""
    torch_scale, tracker = torch.tensor(2.0**16), torch.tensor(0, dtype=torch.int32)
    ours = LossScale()
    for step in range(3 * DOUBLED_AFTER):
        finite = step not in {5, 6, 7, DOUBLED_AFTER + 100}
        ours = ours.after(finite)
        found = torch.tensor(float(not finite))
        torch._amp_update_scale_(torch_scale, tracker, found, 2.0, 0.5, DOUBLED_AFTER)
        assert (ours.value, ours.good) == (torch_scale.item(), tracker.item())


def test_the_scale_does_not_fall_for_ever() -> None:
    with pytest.raises(FloatingPointError, match="not finite although the loss is not scaled up any more"):
        LossScale(1.0).after(False)


def test_a_checkpoint_keeps_where_training_is() -> None:
    state = State(seed=3, step=5, samples=40, skipped=1, scale=LossScale(8.0, 2))
    assert State(seed=3, scale=LossScale()).resumed(state.kept()) == state
    assert State(seed=3).resumed(state.kept()).scale is None
    assert State(seed=3, scale=LossScale()).resumed(State(seed=3, step=1).kept()).scale == LossScale()
    assert State(seed=3).resumed({"step": 0}) == State(seed=3)
