"""Checkpoints of a model whose parameters are DTensors: by name, read by any ranks, however these shard."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver

_MOMENTS = ("exp_avg", "exp_avg_sq")


def save(folder: str, model: nn.Module, optimizer: torch.optim.AdamW, done: int) -> None:
    """Write a checkpoint after a number of steps."""
    state_dict_saver.save({**_held(model, optimizer), "done": done}, checkpoint_id=folder)


@torch.no_grad()
def load(folder: str, model: nn.Module, optimizer: torch.optim.AdamW) -> int:
    """Read a checkpoint in place, and return how many steps it had done."""
    found = {**_held(model, optimizer), "done": 0}
    state_dict_loader.load(found, checkpoint_id=folder)
    for name, parameter in model.named_parameters():
        # Of copies of a parameter, one was read.
        parameter.copy_(found["model"][name])
        for key, value in optimizer.state[parameter].items():
            value.copy_(found["optimizer"][name][key])
    done = found["done"]
    assert isinstance(done, int)
    return done


def _held(model: nn.Module, optimizer: torch.optim.AdamW) -> dict[str, Any]:
    """Return parameters and the optimizer's state by their names, as the tensors that they are."""
    parameters: dict[str, torch.Tensor] = {}
    states: dict[str, dict[str, torch.Tensor]] = {}
    for name, parameter in model.named_parameters():
        state = optimizer.state[parameter]
        if not state:
            # What AdamW makes itself at the first gradient.
            state["step"] = torch.zeros(())
            state |= {key: torch.zeros_like(parameter.detach()) for key in _MOMENTS}
        parameters.setdefault(name, parameter.detach())
        states.setdefault(name, dict(state))
    return {"model": parameters, "optimizer": states}
