"""What ranks do to compile a bundle's model as one graph.

With the backend `eager` a single process plays one rank of a group that passes nothing: it shows whether the model is
one graph. Any other backend runs on processes joined by gloo, and losses and gradients have to be those of the model
that is not compiled.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

Found = dict[str, torch.Tensor]


def one_step(model: torch.nn.Module, train: ModuleType, mesh: Any) -> Found:
    """Return loss and gradients of a step, and clear the gradients."""
    modules = {name: importlib.import_module(f"parallel.{name}") for name in ("data", "gradients", "trainer")}
    batch = modules["data"].synthetic_batch(0, train.SETTINGS.inputs, seed=0)
    found = {"loss": modules["trainer"].loss_of_step(model, batch, train.SETTINGS, mesh)}
    own = modules["gradients"].own_gradients(model)
    for name, parameter in model.named_parameters():
        gradient = own[name].total if name in own else parameter.grad
        found[name.removeprefix("_orig_mod.")] = gradient.clone()
        parameter.grad = None
        if name in own:
            own[name].total = None
    return found


def compiled(rank: int, folder: str, ranks: int, backend: str) -> float:
    """Run one rank, and return the largest relative difference."""
    sys.path.insert(0, folder)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    if backend == "eager":
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", rank=rank, world_size=ranks, store=FakeStore())
    train = importlib.import_module("train")
    mesh = importlib.import_module("parallel.mesh").Mesh(train.SETTINGS.mesh)
    mesh.compute = torch.float64
    model = train.MODEL(mesh).double()
    importlib.import_module("parallel.parameters").initialise(model, mesh, seed=0, std=0.1)
    before = one_step(model, train, mesh)
    after = one_step(torch.compile(model, backend=backend, fullgraph=True), train, mesh)
    assert before.keys() == after.keys()
    return max(((after[name] - g).norm() / g.norm().clamp(min=1e-30)).item() for name, g in before.items())
