"""The files that start a bundle: they parse, and start what the cluster has."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.compose import export
from planner.exporters.explicit.launch import launch_files
from planner.hardware import cluster
from tests.tiny import tiny_plan

SPEC = cluster("4x8-h100-sxm")


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return launch_files("meta-llama/Llama 3.1", SPEC)


def test_scripts_are_valid_and_may_be_run(tmp_path: Path) -> None:
    export(tiny_plan("dp:1"), tmp_path / "bundle")
    for script in (tmp_path / "bundle" / "launch").iterdir():
        if script.suffix != ".yaml":
            assert os.access(script, os.X_OK) == (script.suffix == ".sh"), script
            subprocess.run(["bash", "-n", str(script)], check=True)


@pytest.fixture
def bundle(files: dict[str, str], tmp_path: Path) -> Path:
    """A folder with the files, and programs that say how they were called."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        path.chmod(0o755)
    tools = {
        "torchrun": 'echo "$TORCH_ELASTIC_SHUTDOWN_TIMEOUT $PWD $*"',
        "scontrol": "printf 'node7\\nnode8\\n'",
        "srun": 'echo "srun $MASTER_ADDR $NNODES $1"; shift; SLURM_NODEID=3 exec "$@"',
    }
    for name, line in tools.items():
        tool = tmp_path / "bin" / name
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(f"#!/usr/bin/env bash\n{line}\n")
        tool.chmod(0o755)
    return tmp_path


def said(bundle: Path, script: str, *options: str, **environment: str) -> list[str]:
    done = subprocess.run(
        ["bash", str(bundle / script), *options], cwd="/", capture_output=True, text=True, check=True,
        env={"PATH": f"{bundle / 'bin'}:{os.environ['PATH']}", **environment},
    )  # fmt: skip
    return done.stdout.splitlines()


def test_torchrun_gets_the_cluster_and_the_options(bundle: Path) -> None:
    (line,) = said(bundle, "launch/torchrun.sh", "--steps", "a b", NODE_RANK="2", MASTER_ADDR="first")
    assert line == (
        f"120 {bundle} --nnodes 4 --nproc-per-node 8 --node-rank 2 --master-addr first --master-port 29500 "
        "train.py --steps a b"
    )


def test_slurm_starts_one_torchrun_a_node(bundle: Path) -> None:
    lines = said(
        bundle, "launch/slurm.sbatch", "--steps", "7", SLURM_SUBMIT_DIR=str(bundle), SLURM_JOB_NODELIST="node[7-8]",
        SLURM_JOB_NUM_NODES="4",
    )  # fmt: skip
    assert lines == [
        "srun node7 4 --kill-on-bad-exit=1",
        f"120 {bundle} --nnodes 4 --nproc-per-node 8 --node-rank 3 --master-addr node7 --master-port 29500 "
        "train.py --steps 7",
    ]


def test_slurm_asks_for_the_nodes(files: dict[str, str]) -> None:
    asked = [line.split()[1] for line in files["launch/slurm.sbatch"].splitlines() if line.startswith("#SBATCH")]
    wanted = {"--job-name=train-meta-llama-llama-3-1", "--nodes=4", "--ntasks-per-node=1", "--gpus-per-node=8"}
    assert wanted <= set(asked)


def test_kubernetes_runs_a_pod_for_each_node(files: dict[str, str], bundle: Path) -> None:
    service, job = yaml.safe_load_all(files["launch/kubernetes.yaml"])
    spec: Any = job["spec"]
    pod: Any = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 4, 4)
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8}
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert pod["subdomain"] == service["metadata"]["name"]
    mounts, volumes = ([each["name"] for each in listed] for listed in (container["volumeMounts"], pod["volumes"]))
    assert mounts == volumes
    environment = {each["name"]: each["value"] for each in container["env"]} | {"JOB_COMPLETION_INDEX": "1"}
    command = shlex.join([*container["command"], *container["args"]])
    done = subprocess.run(
        ["bash", "-c", command], cwd=bundle, capture_output=True, text=True, check=True,
        env={"PATH": f"{bundle / 'bin'}:{os.environ['PATH']}", **environment},
    )  # fmt: skip
    assert done.stdout.endswith(
        "--node-rank 1 --master-addr train-meta-llama-llama-3-1-0.train-meta-llama-llama-3-1 --master-port 29500 "
        "train.py --steps 1000\n"
    )


def test_any_name_makes_a_name_of_a_job() -> None:
    for name in ("", "———", "9" * 80 + "-", "A/B_c"):
        _, job = yaml.safe_load_all(launch_files(name, SPEC)["launch/kubernetes.yaml"])
        assert 0 < len(job["metadata"]["name"]) <= 40
        assert re.fullmatch("[a-z]([a-z0-9-]*[a-z0-9])?", job["metadata"]["name"])
