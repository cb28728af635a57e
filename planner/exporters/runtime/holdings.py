"""All that a run changes, by name: values of parameters and the optimizer's state, each as this rank's shard.

A parameter has one value here, the optimizer's, which has all bits; what is stored for computing follows from it. So a
run goes on in any precision, on any mesh and under any layouts.
"""

from __future__ import annotations

import torch
from torch import nn

from .optimizer import MasterAdamW
from .parameters import specs_of
from .shards import Shard

VALUE = "model."
STATE = "optimizer."
_MOMENTS = ("exp_avg", "exp_avg_sq")


def values(model: nn.Module, optimizer: MasterAdamW) -> dict[str, Shard]:
    """Return `model.NAME` → value, those of parameters that are not trained included."""
    trained = {part.name: part for part in optimizer.parts}
    found: dict[str, Shard] = {}
    parameters = dict(model.named_parameters())
    for name, (shape, layout, _) in specs_of(model).items():
        part = trained.get(name)
        if part is None:
            found[VALUE + name] = Shard(parameters[name], shape, layout)
        else:
            found[VALUE + name] = Shard(part.master, shape, part.update.state or layout)
    return found


def holdings(model: nn.Module, optimizer: MasterAdamW) -> dict[str, Shard]:
    """Return the values, and `optimizer.NAME.…` → moments and number of updates of the trained ones."""
    found = values(model, optimizer)
    for part in optimizer.parts:
        value = found[VALUE + part.name]
        state = optimizer.adam.state[part.master]
        if not state:
            # What AdamW makes itself at the first gradient.
            state["step"] = torch.zeros(())
            state |= {key: torch.zeros_like(part.master) for key in _MOMENTS}
        found[f"{STATE}{part.name}.step"] = Shard(state["step"], (), "[]")
        for key in _MOMENTS:
            found[f"{STATE}{part.name}.{key}"] = Shard(state[key], value.shape, value.layout)
    return found
