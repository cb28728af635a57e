"""`selfcheck.py` of a bundle: it runs with torch alone, agrees with a right bundle, and finds a wrong one."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.resources import files as resources
from pathlib import Path

import pytest

pytest.importorskip("torch")

from planner import Plan, delivery, load_model
from planner.core.mesh import DeviceMesh
from planner.exporters.runtime.selfcheck import NOISE, TOO_NOISY, table
from planner.hardware import cluster_name
from planner.proof import selfcheck
from tests.exporters.ranks import RankProcesses
from tests.tiny import tiny_graph, tiny_plan

SMALL = tiny_plan("dp:2", ("zero3", "dp"), graph=tiny_graph("llama-biased", num_hidden_layers=1))


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return delivery.bundle(SMALL)


def large(name: str, mesh: str, *presets: tuple[str, str]) -> Plan:
    graph = load_model(name)
    plan = Plan.new(
        graph, cluster=cluster_name(DeviceMesh.parse(mesh).device_count), mesh=mesh, global_batch=64,
        seq=512 if "S" in graph.symbols else 0,
    )  # fmt: skip
    for preset, axis in presets:
        plan = plan.preset(preset, axis=axis)
    return plan


def written(files: Mapping[str, str], folder: Path) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a bundle, without the planner in reach."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def test_a_right_bundle(files: dict[str, str], tmp_path: Path) -> None:
    ran = run(written(files, tmp_path), sys.executable, "selfcheck.py", "--device", "cpu")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("2 ranks {'dp': 2}, gloo, float64; at its own sizes\n")
    rows = re.findall(r"^(\S+) +(\S+)  ok$", ran.stdout, re.M)
    assert rows[0][0] == "loss"
    assert len(rows) == 1 + sum(len(b.parameters) for b in (SMALL.graph.root, SMALL.graph.root.repeats[0].block))
    assert all(float(error) <= 1e-10 for _, error in rows)


def test_gradients_that_are_summed_and_compressed(ranks: RankProcesses, tmp_path: Path) -> None:
    """They are compared as they are, with those of the whole model times as much."""
    plan = tiny_plan("dp:2", ("data_parallel", "dp"), graph=tiny_graph(num_hidden_layers=1), microbatches=2)
    plan = plan.gradients(fusion="auto", overlap=True, reduction="sum", compression="one_bit")
    codes, texts = ranks.selfcheck(2, written(delivery.bundle(plan), tmp_path))
    assert codes == (0, 0), texts


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_wrong_bundle(files: dict[str, str], ranks: RankProcesses, tmp_path: Path, dtype: str) -> None:
    """The gradient of the head is not added up but cut: only its row is wrong."""
    right = re.compile(r"(lm_head_weight = reshard\(.*?backward=\[)ReduceScatter\(", re.S)
    wrong = right.sub(r"\1Slice(", files["model.py"])
    assert wrong != files["model.py"]
    model = wrong.replace(
        "import AllGather, AllReduce, ReduceScatter", "import AllGather, AllReduce, ReduceScatter, Slice"
    )
    codes, texts = ranks.selfcheck(2, written(files | {"model.py": model}, tmp_path), dtype)
    assert codes == (1, 1), texts
    assert f"gloo, {dtype}" in texts[0]
    assert re.findall(r"^(\S+) .*WRONG$", texts[0], re.M)[0] == "lm_head.weight"
    assert "1 of " in texts[0].splitlines()[-1]


@pytest.mark.parametrize(("noise", "verdicts"), [(0.01, ["ok", "WRONG"]), (0.2, ["WRONG", "WRONG"])])
def test_where_all_could_be_rounding_nothing_is_taken_for_it(noise: float, verdicts: list[str]) -> None:
    text = table({"loss": 0.02, "weight": 0.06}, NOISE * noise, "head")
    assert re.findall(r"(ok|WRONG)$", text.rpartition("\n\n")[0], re.M) == verdicts
    assert ("check in float64" in text) is (noise >= TOO_NOISY)


def test_a_bundle_that_fails_does_not_hang(files: dict[str, str], tmp_path: Path) -> None:
    model = files["model.py"].replace(
        "        mesh = self.mesh\n", "        mesh = self.mesh\n        assert mesh.rank == 0\n"
    )
    ran = run(written(files | {"model.py": model}, tmp_path), sys.executable, "selfcheck.py", "--device", "cpu")
    assert ran.returncode not in {0, None}
    assert "AssertionError" in ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mesh", "presets"),
    [
        ("llama-3-8b", "dp:8,tp:8", (("zero3", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))),
        ("resnet-50", "dp:64", (("zero2", "dp"),)),
    ],
)
def test_reduced_sizes_under_torchrun(
    name: str, mesh: str, presets: tuple[tuple[str, str], ...], tmp_path: Path
) -> None:
    made = delivery.bundle(large(name, mesh, *presets))
    ranks = re.search(r"--nproc-per-node (\d+)", made["selfcheck.py"])
    assert ranks is not None
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", ranks[1], "selfcheck.py")
    ran = run(written(made, tmp_path), *torchrun, "--dtype", "float32", "--device", "cpu")
    assert ran.returncode == 0, ran.stderr
    assert "at reduced sizes" in ran.stdout.splitlines()[0]


def test_a_large_plan_carries_both_models_at_reduced_sizes() -> None:
    """What is made smaller, and what that leaves open, is said."""
    made = delivery.bundle(large("llama-3-8b", "dp:8,tp:8", ("zero3", "dp"), ("megatron", "tp")))
    checked = {name for name in made if name.startswith("check/")}
    assert checked == {f"check/{which}/{name}.py" for which in ("sharded", "whole") for name in ("model", "train")}
    doc = ast.get_docstring(ast.parse(made["selfcheck.py"])) or ""
    assert "at reduced sizes" in doc
    assert "Mesh axes were made smaller: tp 8 → 2, dp 8 → 4" in doc or "Mesh axes were made smaller: dp 8" in doc
    assert made == delivery.bundle(large("llama-3-8b", "dp:8,tp:8", ("zero3", "dp"), ("megatron", "tp")))


def test_it_is_made_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that would have to be traced keeps its sizes, so that exporting needs neither torch nor time."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a trace")

    monkeypatch.setattr("planner.importers.tracer.Tracer.graph", never)
    for name in ("bert-base", "resnet-50"):
        made = delivery.bundle(large(name, "dp:8", ("data_parallel", "dp")))
        assert "check/whole/model.py" in made, made["selfcheck.py"]


def test_what_can_not_be_checked_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys.modules["planner.proof.shrink"], "LARGEST_BYTES", 1)
    monkeypatch.setattr(selfcheck, "OWN_BYTES", 0)
    made = delivery.bundle(SMALL)
    assert not [name for name in made if name.startswith("check/")]
    ran = run(written(made, tmp_path), sys.executable, "selfcheck.py")
    assert ran.returncode == 2
    assert "No check of this plan could be made" in ran.stderr
    assert "a proof takes at most 1 B." in " ".join(ran.stderr.split())


def test_the_files_are_readable_and_need_torch_alone(files: dict[str, str]) -> None:
    allowed = {*sys.stdlib_module_names, "torch", "parallel", "model"}
    wanted = {"selfcheck.py", "check/whole/model.py", "check/whole/train.py"}
    assert wanted < files.keys()
    for name in (*wanted, "parallel/selfcheck.py", "parallel/comparison.py"):
        text = files[name]
        assert [line for line in text.splitlines() if len(line) > 120 or line != line.rstrip()] == [], name
        modules = [
            node.module or ""
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.ImportFrom) and not node.level
        ]
        assert {module.split(".")[0] for module in modules} <= allowed, name
    assert "python selfcheck.py" in files["README.md"]
    source = resources("planner.exporters.runtime").joinpath("selfcheck.py").read_text("utf-8")
    assert files["parallel/selfcheck.py"] == source
