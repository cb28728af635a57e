"""Modules of torch.nn as users put them together: loss and gradients of what is lowered are torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")
import torch
from torch import nn

from planner.importers.aten.lower import lower
from planner.importers.aten.strip import strip

from .running import assert_same, traced


class Around(nn.Module):
    """A table before a module, and what is taken of its result."""

    def __init__(self, body: nn.Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self.table, self.body, self.call = nn.Parameter(torch.randn(11, 8)), body, call

    def forward(self, tokens: Any) -> Any:
        return (self.call(self.body, nn.functional.embedding(tokens, self.table)),)


def _first(body: Any, x: Any) -> Any:
    return body(x)[0]


def _stepped(body: Any, x: Any) -> Any:
    """Return the states of layers that take the sequence first."""
    made, state = body(x.transpose(0, 1))
    return torch.cat([made.flatten(0, 1), state[0] if state.dim() > 2 else state], 0)


def _masked(body: Any, x: Any) -> Any:
    return body(x, mask=nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype), is_causal=True)


def _decoded(body: Any, x: Any) -> Any:
    return body(x, x[:, :3] * 2)


def _attended(body: Any, x: Any) -> Any:
    made, weights = body(x, x, x)
    return made + weights.mean(-1, keepdim=True)


def _images(body: Any, x: Any) -> Any:
    return body(x[:, :3].repeat(1, 2, 1).reshape(x.shape[0], 2, 4, 6))


MODULES: dict[str, tuple[Callable[[], nn.Module], Callable[..., Any]]] = {
    "lstm": (lambda: nn.LSTM(8, 6, num_layers=2, bidirectional=True, batch_first=True), _first),
    "gru": (lambda: nn.GRU(8, 6, num_layers=2), _stepped),
    "rnn": (lambda: nn.RNN(8, 6, bias=False, batch_first=True), _first),
    "encoder": (lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True), 2,
        enable_nested_tensor=False), _masked),
    "decoder": (lambda: nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True), _decoded),
    "attention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), _attended),
    "images": (lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 1), nn.GroupNorm(2, 6), nn.SiLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(6, 5), nn.Dropout(0.0), nn.Softmax(-1)), _images),
    "gated": (lambda: nn.Sequential(
        nn.Linear(8, 16), nn.GLU(), nn.LayerNorm(8), nn.PReLU(), nn.Unflatten(-1, (2, 4)), nn.Flatten(2),
        nn.RMSNorm(8, eps=1e-5), nn.Hardswish(), nn.Identity()), lambda m, x: m(x)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_loss_and_gradients(name: str) -> None:
    torch.manual_seed(4)
    make, call = MODULES[name]
    module = Around(make(), call).double()
    flat = lower(strip(traced(module)))
    unknown = {node.attribute("target"): node.attribute("reason") for node in flat.block.nodes if node.op == "unknown"}
    assert unknown == {}
    assert_same(module, flat.block)
