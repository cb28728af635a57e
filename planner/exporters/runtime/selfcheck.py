"""Check on this machine that the sharded model computes what the whole model does, on every rank.

Both run one step from the same values on the same batch. By itself, it starts one process a rank here; under torchrun
it is one of them. On as many GPUs as ranks it goes through NCCL, else through gloo on the CPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from math import prod
from pathlib import Path
from types import ModuleType

import torch
import torch.distributed as dist

from .comparison import compute, errors
from .mesh import Mesh

TOLERANCE = {"float64": 1e-10, "float32": 1e-3}
"""Largest relative error that is rounding, where the model is not more sensitive to it than that."""
NOISE = 4.0
"""Times the largest error of the whole model in float32, beside itself in float64, that sharding may have."""
TOO_NOISY = 0.1
"""From this error of the whole model on, float32 can't tell right from wrong."""
TIMEOUT = timedelta(minutes=10)
"""How long a rank waits for the others."""


def main(sharded_folder: Path, whole_folder: Path, sizes: str) -> None:
    """Parse the command line, check, and exit with 0 if all is equal, else with 1.

    Parameters
    ----------
    sharded_folder, whole_folder
        Where the `train.py` and the `model.py` of each lie.
    sizes
        At which sizes they are, for the table's head.
    """
    parser = argparse.ArgumentParser(description="Compare the sharded model with the whole one, on every rank.")
    parser.add_argument("--dtype", default="float64", choices=list(TOLERANCE))
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"], help="auto: GPUs, if enough")
    parser.add_argument("--seed", type=int, default=0, help="of parameters and batch")
    arguments = parser.parse_args()
    torch.set_default_dtype(getattr(torch, arguments.dtype))
    sharded = load(sharded_folder)
    ranks = prod(sharded.SETTINGS.mesh.values())
    if "RANK" not in os.environ:
        sys.exit(start(ranks))
    gpus = torch.cuda.device_count()
    here = int(os.environ.get("LOCAL_WORLD_SIZE", ranks))
    cuda = arguments.device == "cuda" or (arguments.device == "auto" and gpus >= here)
    local = int(os.environ["LOCAL_RANK"])
    device = torch.device(f"cuda:{local}" if cuda else "cpu")
    if cuda:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    dtype = getattr(torch, arguments.dtype)
    whole: dict[str, torch.Tensor] = {}
    limit = TOLERANCE[arguments.dtype]
    if int(os.environ["RANK"]) == 0:
        # Before this process joins the group: the whole model's mesh is one rank.
        model = load(whole_folder)
        alike = model.SETTINGS.summed_like(sharded.SETTINGS)
        alone = Mesh(alike.mesh, device)
        computed = compute(model.MODEL, alike, alone, dtype=dtype, seed=arguments.seed)
        whole = computed.tensors
        if dtype == torch.float32:
            exact = compute(model.MODEL, alike, alone, dtype=torch.float64, seed=arguments.seed)
            limit = max(limit, *(NOISE * error for _, error in errors(computed, exact.tensors, alone)))
    dist.init_process_group("nccl" if cuda else "gloo", timeout=TIMEOUT)
    try:
        whole = told(whole, dtype, device)
        mesh = Mesh(sharded.SETTINGS.mesh, device)
        # What compression rounds is no error, and would hide one.
        settings = sharded.SETTINGS.uncompressed()
        found = compute(sharded.MODEL, settings, mesh, dtype=dtype, seed=arguments.seed)
        rows = worst(dict(errors(found, whole, mesh)), list(whole), device)
        agreed = torch.tensor(limit, dtype=torch.float64, device=device)
        dist.broadcast(agreed, src=0)
        limit = agreed.item()
        if dist.get_rank() == 0:
            backend = f"{dist.get_backend()}, {arguments.dtype}"
            print(table(rows, limit, f"{ranks} ranks {sharded.SETTINGS.mesh}, {backend}; {sizes}"), flush=True)
    finally:
        dist.destroy_process_group()
    sys.exit(0 if all(right(error, limit) for error in rows.values()) else 1)


def start(ranks: int) -> int:
    """Run this command once a rank, and return the exit status; when one fails, the others are ended."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {
        "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }  # fmt: skip
    running = [
        subprocess.Popen(
            [sys.executable, *sys.argv], env=os.environ | common | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        )
        for rank in range(ranks)
    ]
    try:
        while any(process.poll() is None for process in running):
            if failed := next((p for p in running if p.poll()), None):
                # All exit with 1 if numbers differ; one that failed leaves the others waiting.
                time.sleep(3)
                return int(failed.returncode)
            time.sleep(0.05)
        return max(abs(process.returncode) for process in running)
    finally:
        for process in running:
            process.kill()
            process.wait()


def told(mine: Mapping[str, torch.Tensor], dtype: torch.dtype, device: torch.device) -> dict[str, torch.Tensor]:
    """Return the tensors of rank 0 on every rank."""
    names: list[dict[str, torch.Size]] = [{name: tensor.shape for name, tensor in mine.items()}]
    dist.broadcast_object_list(names, src=0, device=device)
    found = {}
    for name, shape in names[0].items():
        found[name] = mine[name].contiguous() if name in mine else torch.empty(shape, dtype=dtype, device=device)
        dist.broadcast(found[name], src=0)
    return found


def worst(mine: Mapping[str, float], names: list[str], device: torch.device) -> dict[str, float]:
    """Return the largest error of each tensor over all ranks; what no rank has is infinitely wrong."""
    # A rank that lacks one, such as a stage of a pipeline, has nothing to say of it. NaN must win: as infinity it does.
    known = [mine.get(name, -1.0) for name in names]
    found = torch.tensor([e if e == e else float("inf") for e in known], dtype=torch.float64, device=device)
    dist.all_reduce(found, op=dist.ReduceOp.MAX)
    return {name: error if error >= 0 else float("inf") for name, error in zip(names, found.tolist(), strict=True)}


def right(error: float, limit: float) -> bool:
    """Return whether an error is rounding; where all could be, none is taken for it."""
    return error <= limit < NOISE * TOO_NOISY


def table(rows: Mapping[str, float], limit: float, head: str) -> str:
    """Return the errors for people."""
    width = max(map(len, rows))
    lines = [
        f"{name:{width}}  {error:8.1e}  {'ok' if right(error, limit) else 'WRONG'}" for name, error in rows.items()
    ]
    wrong = sum(not right(error, limit) for error in rows.values())
    verdict = f"{wrong} of {len(rows)} WRONG" if wrong else f"all {len(rows)} equal up to {limit:.2g}"
    if limit >= NOISE * TOO_NOISY:
        verdict += "; rounding alone changes some as much: check in float64"
    return "\n".join([head, "", *lines, "", verdict])


def load(folder: Path) -> ModuleType:
    """Import the `train.py` of a folder with the `model.py` beside it."""
    for name in ("model", "stages"):
        sys.modules.pop(name, None)
    path = folder / "train.py"
    spec = importlib.util.spec_from_file_location(f"{folder.name}_train", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} can't be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module
