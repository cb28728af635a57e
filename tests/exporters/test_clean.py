"""Exported code is as ruff writes it, and ruff and mypy find nothing in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from planner.compose import export, load_model
from planner.plan import Plan
from tests.exporters.test_bundle import plans

RULES = ["--isolated", "--line-length=120"]
SELECT = ["--select=A,B,C90,E,F,I,PT,RUF,SIM,TID,UP", "--ignore=RUF001,RUF002,RUF003,TID252"]
"""Those that this repository holds itself to, but for docstrings of each forward."""
TYPES = ["--strict", "--allow-untyped-calls", "--no-warn-return-any", "--disable-error-code=unused-ignore"]
"""Strict, but for what torch's own interface leaves untyped."""


def of_zoo(name: str) -> Plan:
    graph = load_model(name)
    plan = Plan.new(
        graph, cluster="1x2-h100-sxm", mesh={"dp": 2}, global_batch=8, seq=64 if "S" in graph.symbols else 0
    )
    return plan.preset("zero3", axis="dp")


IRREGULAR = ("bert-base", "gpt2", "mamba2-130m", "resnet-50", "unet-sd1", "vit-l-16", "whisper-tiny")
SMALL = plans()


def planned(name: str) -> Plan:
    return SMALL[name] if name in SMALL else of_zoo(name)


QUICK = ("presets", "random 8-5", "mamba2-130m")


def found(folder: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command, "."], cwd=folder, capture_output=True, text=True, check=False
    )  # fmt: skip
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in (*SMALL, *IRREGULAR)]
)
def test_ruff_finds_nothing(name: str, tmp_path: Path) -> None:
    pytest.importorskip("ruff")
    export(planned(name), tmp_path / "bundle")
    assert found(tmp_path / "bundle", "ruff", "format", "--diff", *RULES) == ""
    assert found(tmp_path / "bundle", "ruff", "check", *RULES, *SELECT) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["presets", "random 8-5", "whisper-tiny"])
def test_mypy_finds_nothing(name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    pytest.importorskip("mypy")
    pytest.importorskip("torch")
    export(planned(name), tmp_path / "bundle")
    cache_folder = tmp_path_factory.getbasetemp() / "mypy"
    assert found(tmp_path / "bundle", "mypy", f"--cache-dir={cache_folder}", *TYPES) == ""
