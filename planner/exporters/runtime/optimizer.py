"""AdamW with a master copy in fp32 where parameters have fewer bits."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn


class MasterAdamW:
    """AdamW on this rank's shards; low-precision parameters are rounded from a master copy after each step.

    Micikevicius et al. 2018, "Mixed precision training", section 3.1.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], *, rate: float) -> None:
        self.parameters = list(parameters)
        self.masters = [p if p.dtype in {torch.float32, torch.float64} else _master(p) for p in self.parameters]
        self.adam = torch.optim.AdamW(self.masters, lr=rate, betas=(0.9, 0.95), weight_decay=0.1)

    @torch.no_grad()
    def step(self) -> None:
        """Update the parameters from their gradients and clear the gradients."""
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            if master is not parameter and parameter.grad is not None:
                master.grad = parameter.grad.to(master.dtype)
                parameter.grad = None
        self.adam.step()
        self.adam.zero_grad()
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            if master is not parameter:
                parameter.copy_(master)


def _master(parameter: nn.Parameter) -> nn.Parameter:
    return nn.Parameter(parameter.detach().float())
