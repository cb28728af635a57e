"""What compression has not sent is in checkpoints: a resumed run is the uninterrupted one, or says what it left out."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import Any

import pytest

from planner.compose import export
from planner.plan import Plan
from tests.exporters.ranks import RankProcesses, imported
from tests.tiny import tiny_graph, tiny_plan

torch = pytest.importorskip("torch")

GRAPH = tiny_graph(num_hidden_layers=1)
STEPS = 4


def compressed(mesh: str, *presets: tuple[str, str], compression: str = "one_bit", microbatches: int = 1) -> Plan:
    plan = tiny_plan(mesh, *presets, graph=GRAPH, microbatches=microbatches)
    return plan.gradients(fusion="auto", compression=compression)


class Run:
    """A run of a bundle on one rank."""

    def __init__(self, train: Any, save: Path | None = None, *, resume: bool = False, scaled: bool = False) -> None:
        of = {name: self.of(name) for name in ("mesh", "optimizer", "parameters", "rate", "resume", "trainer")}
        torch.set_default_dtype(torch.float64)
        mesh = of["mesh"].Mesh(train.SETTINGS.mesh)
        mesh.compute = torch.float64
        model = train.MODEL(mesh).double()
        of["parameters"].initialise(model, mesh, seed=0, std=0.1)
        if hasattr(model, "spread"):
            model.spread()
        scale = self.of("scaling").LossScale(2.0**10) if scaled else None
        self.said = io.StringIO()
        with contextlib.redirect_stdout(self.said):
            self.training = of["trainer"].Training(
                model, train.SETTINGS, mesh, of["optimizer"].MasterAdamW(model, mesh),
                rate=of["rate"].Rate(1e-2, STEPS), state=of["trainer"].State(0, scale=scale),
                checkpoints=of["resume"].Checkpoints(save=save, resume="latest" if resume else None),
            )  # fmt: skip
        self.source = of["trainer"].synthetic(train.SETTINGS, 0)

    def of(self, name: str) -> Any:
        __import__(f"parallel.{name}")
        return sys.modules[f"parallel.{name}"]

    def losses(self, until: int) -> list[float]:
        found = []
        with contextlib.redirect_stdout(self.said):
            while self.training.state.step < until:
                found.append(self.training.step(self.source).loss.item())
            self.training.save(last=True)
        return found

    def kept(self) -> float:
        """Return the size of what is not sent yet."""
        shards = self.of("feedback").residuals(self.training.model, self.training.mesh)
        return sum(float(shard.local.double().norm()) for shard in shards.values())


def in_parts(rank: int, bundle: Path, saved: Path) -> tuple[list[float], list[float], list[float], str]:
    """Return the losses of a run, of one in two parts, and of one that forgets what was not sent."""
    train = imported(bundle)
    whole = Run(train).losses(STEPS)
    first = Run(train, saved)
    parts = first.losses(STEPS // 2)
    again = Run(train, saved, resume=True)
    assert again.kept() == first.kept() > 0
    # Before it saves, one that goes on without.
    other = Run(train, saved, resume=True)
    other.of("feedback").rescale(other.training.model, 0.0)
    other.training.checkpoints = other.of("resume").Checkpoints()
    without = parts + other.losses(STEPS)
    return whole, parts + again.losses(STEPS), without, again.said.getvalue()


PLANS = {
    "one bit": compressed("dp:2", ("data_parallel", "dp")),
    "zero2 int8": compressed("dp:2,tp:2", ("zero2", "dp"), ("megatron", "tp"), compression="int8", microbatches=2),
    "pipeline": compressed("pp:2,dp:2", ("zero1", "dp"), microbatches=4).pipelined("pp", schedule="dualpipe"),
}


@pytest.mark.parametrize("name", [n if n == "one bit" else pytest.param(n, marks=pytest.mark.slow) for n in PLANS])
def test_a_resumed_run_is_the_uninterrupted_one(name: str, ranks: RankProcesses, tmp_path: Path) -> None:
    export(PLANS[name], tmp_path / "bundle")
    world = PLANS[name].decisions.mesh.device_count
    for whole, parts, without, said in ranks.run(world, in_parts, tmp_path / "bundle", tmp_path / "saved"):
        assert parts == whole
        assert without[: STEPS // 2 + 1] == whole[: STEPS // 2 + 1]
        assert without != whole
        assert "left out" not in said


def scaled(rank: int, bundle: Path, saved: Path) -> tuple[list[float], list[float]]:
    """Return the losses of a run without a loss scale, and of one whose scale doubles with every step and then goes."""
    train = imported(bundle)
    whole = Run(train).losses(STEPS)
    run = Run(train, saved, scaled=True)
    run.of("scaling").DOUBLED_AFTER = 1
    first = run.losses(STEPS - 1)
    assert run.training.state.scale.value == 2.0 ** (10 + STEPS - 1)
    return whole, first + Run(train, saved, resume=True).losses(STEPS)


@pytest.mark.slow
def test_what_is_kept_follows_the_loss_scale(ranks: RankProcesses, tmp_path: Path) -> None:
    """Powers of two round nothing, so that losses are equal to the last bit."""
    export(PLANS["one bit"], tmp_path / "bundle")
    for whole, other in ranks.run(2, scaled, tmp_path / "bundle", tmp_path / "saved"):
        assert other == whole


def moved(rank: int, bundles: list[Path], saved: Path) -> list[str]:
    """Save by the first bundle, go on by each of the others, and return what they say."""
    Run(imported(bundles[0]), saved).losses(1)
    said = []
    for bundle in bundles[1:]:
        run = Run(imported(bundle), saved, resume=True)
        run.training.checkpoints = run.of("resume").Checkpoints()
        assert run.kept() == 0
        run.losses(2)
        said.append(run.said.getvalue())
    return said


@pytest.mark.slow
def test_another_plan_starts_from_zero_and_says_so(ranks: RankProcesses, tmp_path: Path) -> None:
    others = {
        "other mesh": compressed("tp:2", ("zero2", "tp")),
        "other compression": compressed("dp:2", ("data_parallel", "dp"), compression="int8"),
        "none": tiny_plan("dp:2", ("data_parallel", "dp"), graph=GRAPH),
    }
    bundles = []
    for name, plan in ({"first": PLANS["one bit"]} | others).items():
        export(plan, tmp_path / name)
        bundles.append(tmp_path / name)
    first, second = ranks.run(2, moved, bundles, tmp_path / "saved")
    for text in first:
        assert "what compression had not sent yet is left out, since the mesh, the buckets of gradients or" in text
    assert second == ["", "", ""]
