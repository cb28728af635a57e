"""Models of bundles without point-to-point compile as one graph, and compute the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from planner.compose import export
from planner.plan import Plan
from tests.tiny import tiny_gpt2, tiny_graph, tiny_plan

pytest.importorskip("torch")

SP = (("megatron", "tp"), ("sequence_parallel", "tp"))
PLANS = {
    "tp-sp": lambda: tiny_plan("tp:2", *SP),
    "zero3-tp-sp": lambda: tiny_plan("dp:2,tp:2", ("zero3", "dp"), *SP, graph=tiny_graph("qwen3", tied=True)),
    "zero2-tp": lambda: tiny_plan("dp:2,tp:2", ("zero2", "dp"), ("megatron", "tp"), graph=tiny_gpt2()),
}


def difference(plan: Plan, backend: str, folder: Path) -> float:
    export(plan, folder / "bundle")
    command = [sys.executable, "-m", "tests.exporters.compiling", str(folder / "bundle"),
               str(plan.decisions.mesh.device_count), backend]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=900, check=False, cwd=Path(__file__).parents[2],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return float(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", ["tp-sp", pytest.param("zero3-tp-sp", marks=pytest.mark.slow),
                                  pytest.param("zero2-tp", marks=pytest.mark.slow)])  # fmt: skip
def test_it_is_one_graph(name: str, tmp_path: Path) -> None:
    """On one rank of a group that passes nothing; the numbers mean nothing there."""
    difference(PLANS[name](), "eager", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tp-sp", "zero2-tp"])
def test_it_computes_the_same_compiled(name: str, tmp_path: Path) -> None:
    assert difference(PLANS[name](), "aot_eager", tmp_path) <= 1e-12
