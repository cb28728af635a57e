"""The log: one JSON form, numbers that follow from the clock, the plan's FLOPs and the device."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
import torch

from planner.compose import bundle
from planner.compose import evaluate as evaluate_plan
from planner.exporters.runtime import progress
from planner.exporters.runtime.mesh import Mesh
from planner.exporters.runtime.progress import Progress
from planner.exporters.runtime.scaling import LossScale
from planner.exporters.runtime.settings import Settings
from tests.tiny import tiny_plan

KEYS = [
    "step", "loss", "gradient_norm", "learning_rate", "loss_scale", "skipped", "seconds", "samples_per_second",
    "tokens_per_second", "mfu", "memory_bytes",
]  # fmt: skip
SETTINGS = Settings(
    mesh={"whole": 1}, samples=12, microbatches=1, inputs=(), dtype="bfloat16", tokens=8, flops=3e9,
    peak_flops={"bfloat16": 1e10},
)  # fmt: skip


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress, "perf_counter", lambda: now[0])
    return now


def written(path: Path, clock: list[float], settings: Settings = SETTINGS, loss: float = 2.5) -> dict[str, object]:
    """Three steps in six seconds."""
    told = Progress(settings, Mesh({"whole": 1}), dtype="bfloat16", file=str(path))
    for _ in range(3):
        told.passed()
    clock[0] += 6
    told.write(
        step=7, loss=torch.tensor(loss), norm=torch.tensor(0.5), rate=0.1, scale=LossScale(4.0), skipped=1
    )  # fmt: skip
    found: dict[str, object] = json.loads(path.read_text().splitlines()[-1])
    return found


def test_numbers(tmp_path: Path, clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    found = written(tmp_path / "log", clock)
    memory = found.pop("memory_bytes")
    assert isinstance(memory, int)
    assert memory > 10**7
    assert found == {
        "step": 7, "loss": 2.5, "gradient_norm": 0.5, "learning_rate": 0.1, "loss_scale": 4.0, "skipped": 1,
        "seconds": 2.0, "samples_per_second": 6.0, "tokens_per_second": 48.0, "mfu": None,
    }  # fmt: skip
    assert "step 7  loss 2.5  norm 0.5  lr 0.1  scale 4, 1 skipped  2 s  48 tokens/s" in capsys.readouterr().out


def test_keys_stay_and_lines_are_appended(tmp_path: Path, clock: list[float]) -> None:
    assert list(written(tmp_path / "log", clock)) == KEYS
    found = written(tmp_path / "log", clock, replace(SETTINGS, tokens=0), loss=float("nan"))
    assert list(found) == KEYS
    assert (found["loss"], found["tokens_per_second"]) == (None, None)
    assert len((tmp_path / "log").read_text().splitlines()) == 2


def test_mfu_on_a_gpu(clock: list[float]) -> None:
    """3 GFLOP in 2 s of 10 GFLOP/s on each of two devices."""
    mesh = Mesh({"whole": 1})
    mesh.device, mesh.sizes = torch.device("cuda"), {"dp": 2}
    told = Progress(SETTINGS, mesh, dtype="bfloat16", file=None)
    assert told.mfu(2.0) == pytest.approx(3 / 40)
    assert Progress(SETTINGS, mesh, dtype="float32", file=None).mfu(2.0) is None


def test_flops_and_peak_are_those_of_the_report() -> None:
    plan = tiny_plan("dp:2", ("data_parallel", "dp"), microbatches=2)
    report = evaluate_plan(plan)
    lines = bundle(plan)["train.py"].splitlines()
    assert f"    flops={report.flops!r}," in lines
    assert '    device="h100-sxm",' in lines
    assert '        "bfloat16": 989400000000000.0,' in lines
