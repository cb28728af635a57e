"""Training of bundles in the native form: mixed precision, and checkpoints across forms of a plan."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
import torch
import torch.distributed as dist

from planner.compose import export
from planner.plan import Plan
from tests.exporters.ranks import RankProcesses
from tests.tiny import tiny_graph, tiny_plan

STEPS = 10
SP = (("megatron", "tp"), ("sequence_parallel", "tp"))
CASES = {
    "zero3": ("dp:2", (("zero3", "dp"),)),
    "tp-sp": ("tp:2", SP),
    "zero3-tp-sp": ("dp:2,tp:2", (("zero3", "dp"), *SP)),
    "stages-zero3": ("pp:2,dp:2", (("zero3", "dp"),)),
    "stages-tp-sp": ("pp:2,tp:2", SP),
}


def plan_of(name: str, precision: str = "float64") -> Plan:
    mesh, presets = CASES.get(name, ("dp:1", (("data_parallel", "dp"),)))
    plan = tiny_plan(mesh, *presets, graph=tiny_graph("qwen3", tied=True), microbatches=2).precise(precision)
    if not name.startswith("stages"):
        return plan
    return plan.pipelined("pp", stages={"model.layers.0": 0, "model.layers.1": 1, "lm_head": 1})


def trained(
    rank: int, folder: str, dtype: str = "", load: str = "", save: str = "", steps: int = STEPS
) -> tuple[list[float], set[str]]:
    """Train on one batch that is given again and again; return the losses and the element types of the gradients."""
    for name in [n for n in sys.modules if n in {"model", "parallelize", "pipeline", "train"} or n[:8] == "parallel"]:
        del sys.modules[name]
    sys.path.insert(0, folder)
    try:
        train: Any = importlib.import_module("train")
        native: Any = importlib.import_module("parallel.native")
        data: Any = importlib.import_module("parallel.data")
    finally:
        sys.path.remove(folder)
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    mesh = train.device_mesh("cpu")
    spread = train.in_stages if hasattr(train, "in_stages") else train.parallelize
    model = native.built(train.MODEL, spread, mesh, getattr(torch, dtype or train.SETTINGS.dtype))
    native.initialise(model, train.SETTINGS, seed=0)
    optimizer = native.adamw(model, 3e-3)
    if load:
        assert native.load(load, model, optimizer) > 0
    batch = data.synthetic_batch(0, train.SETTINGS.inputs, seed=0)
    losses = []
    for _ in range(steps):
        losses.append(native.loss_of_step(model, batch, train.SETTINGS, mesh).item())
        native.clip_gradients(model, 1.0)
        optimizer.step()
        optimizer.zero_grad()
    if save:
        native.save(save, model, optimizer, steps)
    return losses, {str(p.dtype) for p in model.parameters()}


@pytest.mark.parametrize(
    "name", [name if name == "tp-sp" else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_ten_steps_in_bf16_follow_one_process(ranks: RankProcesses, tmp_path: Path, name: str) -> None:
    """Losses fall, and differ from those of one process, in bf16 and in float64, by a part of what bf16 tells apart.

    They are means over 64 targets, taken in fp32: in bf16, they would be off by more.
    """
    export(plan_of("alone", "bf16"), tmp_path / "alone", "native")
    export(plan_of("alone"), tmp_path / "exact", "native")
    export(plan_of(name, "bf16"), tmp_path / "sharded", "native")
    ((exact, _),) = ranks.run(1, trained, str(tmp_path / "exact"))
    ((alone, _),) = ranks.run(1, trained, str(tmp_path / "alone"))
    together = ranks.run(plan_of(name).decisions.mesh.device_count, trained, str(tmp_path / "sharded"))
    least = torch.finfo(torch.bfloat16).eps / 4
    for losses, types in together:
        assert types == {"torch.float32"}
        assert losses == pytest.approx(alone, abs=least, rel=0)
        assert losses == pytest.approx(exact, abs=least, rel=0)
        assert losses != pytest.approx(exact, rel=1e-6)
    assert alone[-1] < alone[0] - 0.3


@pytest.mark.slow
def test_a_run_goes_on_in_another_form(ranks: RankProcesses, tmp_path: Path) -> None:
    """Six steps in one piece are four in stages, and two more in shards; and the other way round."""
    for name in ("alone", "stages-tp-sp", "zero3"):
        export(plan_of(name), tmp_path / name, "native")
    (whole, _), *_ = ranks.run(1, trained, str(tmp_path / "alone"), "", "", "", 6)
    for first, second in (("stages-tp-sp", "zero3"), ("zero3", "stages-tp-sp")):
        folder = str(tmp_path / f"from-{first}")
        found: list[float] = []
        for name, load, save, steps in ((first, "", folder, 4), (second, folder, "", 2)):
            world = plan_of(name).decisions.mesh.device_count
            (losses, _), *_ = ranks.run(world, trained, str(tmp_path / name), "", load, save, steps)
            found += losses
        assert found == pytest.approx(whole, rel=1e-9)
