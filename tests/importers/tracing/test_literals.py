"""Numbers that a model writes are known although its tensors lie on the meta device."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
import torch

from planner.importers.aten.lower import lower
from planner.importers.aten.strip import strip
from planner.importers.tracing.trace import WithLoss, trace
from tests.importers.aten.running import OnTokens, assert_same, loss_of, tokens_of


def _written(x: Any) -> Any:
    least = torch.tensor(-2.5, dtype=x.dtype, device=x.device)
    return torch.maximum(x, least) * torch.tensor(3, device=x.device), x[:, [-1]], x[..., [2]], x[:, [0]]


def test_values_are_kept_on_the_meta_device() -> None:
    module = OnTokens(_written)
    shapes = {"tokens": tokens_of(4, 6).to("meta")}
    program = trace(WithLoss(OnTokens(_written).to("meta"), loss_of), shapes, {"tokens": ("B", "S")}, "small")
    assert all(buffer.values is not None for buffer in program.buffers)
    assert_same(module, lower(strip(program)).block)
