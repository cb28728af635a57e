"""AdamW where its state lies, with a master copy in fp32 where parameters have fewer bits."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from .gradients import Gradient, own_gradients, run
from .mesh import Mesh
from .parameters import Update, updates_of


@dataclass(frozen=True)
class _Part:
    """A parameter, the values that the optimizer updates (the parameter itself where it can), and how they meet."""

    name: str
    parameter: nn.Parameter
    master: nn.Parameter
    update: Update
    gradient: Gradient | None


class MasterAdamW:
    """AdamW on shards; the parameters follow from the optimizer's values after each step.

    Where the plan lays the optimizer's state out like the parameter, both are one in fp32 and more, and low-precision
    parameters are rounded from a master copy (Micikevicius et al. 2018, "Mixed precision training", section 3.1). Where
    it does not (ZeRO-1 and 2), gradients go to the state's layout, and new values come back.
    """

    def __init__(
        self,
        model: nn.Module,
        mesh: Mesh,
        *,
        betas: tuple[float, float] = (0.9, 0.95),
        weight_decay: float = 0.1,
    ) -> None:
        updates, gradients = updates_of(model), own_gradients(model)
        self.mesh = mesh
        self.parts = [
            _Part(name, parameter, _master(parameter, update, mesh), update, gradients.get(name))
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
            for update in (updates.get(name, Update()),)
        ]
        # Where both are, those on the host and those on the device are updated apart.
        places = {part.master.device: None for part in self.parts}
        groups = [{"params": [p.master for p in self.parts if p.master.device == place]} for place in places]
        self.adam = torch.optim.AdamW(groups, betas=betas, weight_decay=weight_decay)

    @torch.no_grad()
    def step(self, rate: float, factor: torch.Tensor | float = 1.0) -> None:
        """Update the parameters from their gradients and clear the gradients.

        Parameters
        ----------
        rate
            Learning rate of this step.
        factor
            What the gradients are multiplied by, in the optimizer's precision.
        """
        for part in self.parts:
            gradient = part.parameter.grad if part.gradient is None else part.gradient.total
            self._clear(part)
            if gradient is not None:
                moved = run(part.update.reduce, gradient, self.mesh).to(part.master.dtype)
                # Not in its place: autograd may have given several parameters one tensor.
                moved = moved if isinstance(factor, float) and factor == 1 else moved * factor
                part.master.grad = moved.to(part.master.device)
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.step()
        self.adam.zero_grad()
        self.publish()

    @torch.no_grad()
    def publish(self) -> None:
        """Bring the optimizer's values to the parameters."""
        for part in self.parts:
            if part.master is not part.parameter:
                # Rounded first, so that fewer bytes are passed.
                values = part.master.to(part.parameter.dtype)
                if part.update.publish:
                    values = run(part.update.publish, values.to(self.mesh.device), self.mesh)
                part.parameter.copy_(values)

    def clear(self) -> None:
        """Clear the gradients without an update."""
        for part in self.parts:
            self._clear(part)

    @staticmethod
    def _clear(part: _Part) -> None:
        part.parameter.grad = None
        if part.gradient is not None:
            part.gradient.total = None


@torch.no_grad()
def _master(parameter: nn.Parameter, update: Update, mesh: Mesh) -> nn.Parameter:
    whole = parameter.dtype in {torch.float32, torch.float64}
    if whole and update.state is None:
        return parameter
    values = run(update.master, parameter.detach().to(mesh.device), mesh)
    place = "cpu" if update.state_place == "host" else mesh.device
    return nn.Parameter(values.to(place, parameter.dtype if whole else torch.float32, copy=True))
