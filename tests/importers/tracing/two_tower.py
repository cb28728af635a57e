"""A user's module with what gets in the way: two towers, a custom operator, a data-dependent branch, tied weights and a
parameter that nothing reads."""

from __future__ import annotations

import torch
from torch import Tensor, nn


@torch.library.custom_op("two_tower::shift", mutates_args=())
def shift(x: Tensor, by: float) -> Tensor:
    return x + by


@torch.library.custom_op("two_tower::secret", mutates_args=())
def secret(x: Tensor) -> Tensor:
    return x.clone()


@shift.register_fake
def _(x: Tensor, by: float) -> Tensor:
    return torch.empty_like(x)


class TwoTower(nn.Module):
    """Users and items, each through its own tower; the score of a pair is their product."""

    def __init__(self, *, branch: bool = False, operator: str = "shift") -> None:
        super().__init__()
        self.items = nn.Embedding(96, 16)
        self.user = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
        self.item = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16))
        self.score = nn.Linear(16, 96, bias=False)
        self.score.weight = self.items.weight
        self.unused = nn.Parameter(torch.zeros(3))
        self.branch, self.operator = branch, operator

    def forward(self, history: Tensor, features: Tensor, labels: Tensor) -> Tensor:
        item = self.item(self.items(history)).mean(1)
        user = self.user(features)
        if self.branch and user.sum() > 0:
            user = -user
        if self.operator == "shift":
            user = torch.ops.two_tower.shift(user, 1.0)
        elif self.operator == "secret":
            user = torch.ops.two_tower.secret(user)
        return nn.functional.cross_entropy(self.score(user * item), labels)


def plain() -> TwoTower:
    return TwoTower(operator="")


def branching() -> TwoTower:
    return TwoTower(branch=True)


class Classes(nn.Module):
    """Logits without a loss, and a loss among others."""

    def __init__(self, *, loss: bool = False) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 5)
        self.loss = loss

    def forward(self, x: Tensor) -> Tensor | dict[str, Tensor]:
        logits = self.inner(x)
        return {"norm": logits.norm(), "logits": logits, "loss": logits.square().mean()} if self.loss else logits


def broken() -> nn.Module:
    raise ZeroDivisionError("of all things")


def needs_values() -> nn.Module:
    layer = nn.Linear(4, 4)
    assert float(layer.weight.detach().sum()) < 100
    return layer
