"""A bundle alone, with nothing but torch, trains like the unsharded model in one process."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from planner.compose import export
from planner.plan import Plan
from tests.exporters.ranks import RankProcesses
from tests.tiny import tiny_graph, tiny_plan

pytest.importorskip("torch")

STEPS = 20
OPTIONS = ("--steps", str(STEPS), "--dtype", "float64", "--lr", "1e-2")


def losses(command: list[str], folder: Path, poison: Path) -> list[float]:
    """Run a bundle's training and return what it prints; importing planner there is an error."""
    package = poison / "planner"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text('raise ImportError("the bundle imports planner")\n')
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "RANK", "WORLD", "LOCAL", "MASTER"))}
    environment = kept | {"PYTHONPATH": str(poison), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    records = [json.loads(line) for line in (folder / "log.jsonl").read_text("utf-8").splitlines()]
    assert [record["step"] for record in records] == list(range(STEPS))
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [["step", str(step)] for step in range(STEPS)]
    return [record["loss"] for record in records]


@pytest.fixture(scope="module")
def alone(ranks: RankProcesses, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Losses of the unsharded model in one process."""
    folder = tmp_path_factory.mktemp("whole")
    export(tiny_plan("whole:1", graph=tiny_graph()), folder / "bundle")
    done = ranks.train(1, folder / "bundle", *OPTIONS)
    assert done.codes == (0,), done.texts
    return list(done.losses.values())


def plan_of(mesh: str, *presets: tuple[str, str]) -> Plan:
    return tiny_plan(mesh, *presets, graph=tiny_graph())


PLANS = {
    "zero3": plan_of("dp:2", ("zero3", "dp")),
    "zero-tp-sp": plan_of("dp:2,tp:2", ("zero3", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp")),
    "dp4": plan_of("dp:4", ("data_parallel", "dp")),
}


@pytest.mark.parametrize("name", ["zero3", *(pytest.param(n, marks=pytest.mark.slow) for n in ("zero-tp-sp", "dp4"))])
def test_ranks_train_like_one(name: str, alone: list[float], tmp_path: Path) -> None:
    """Under torchrun, where every rank loads torch anew: two of them are quick, and see as much of the bundle."""
    export(PLANS[name], tmp_path / "bundle")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(PLANS[name].decisions.mesh.device_count),
        "--master-addr", "127.0.0.1", "--master-port", str(port), "train.py", *OPTIONS, "--log-file", "log.jsonl",
    ]  # fmt: skip
    together = losses(command, tmp_path / "bundle", tmp_path / "poison")
    assert together == pytest.approx(alone, rel=1e-10)
    assert len(set(together)) == STEPS
