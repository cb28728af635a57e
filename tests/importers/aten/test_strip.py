"""What `strip` leaves is what torch computes, written without checks, copies and writes in place."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

from planner.core.symbol import symbol  # noqa: E402
from planner.core.tensor import TensorMeta  # noqa: E402
from planner.importers.aten.lower import lower  # noqa: E402
from planner.importers.aten.program import Call, Input, Program, Ref  # noqa: E402
from planner.importers.aten.strip import strip  # noqa: E402

from .running import Case, OnTokens, assert_same, traced  # noqa: E402

FLAT = TensorMeta((symbol("B"), 8))


def targets(function: Any, *shapes: tuple[int, ...]) -> list[str]:
    """Return the calls that are left of a function, without those of the loss."""

    def run(model: Any, tokens: Any) -> tuple[Any, Any]:
        (made,) = model(tokens)
        return made.sum(), made

    calls = strip(traced(OnTokens(function, *shapes), run)).calls
    return [call.target.removeprefix("aten.") for call in calls][1:-1]


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x: x.contiguous().clone().to(torch.float64) * 1.5, ["mul.Tensor"]),
        (lambda x: F.dropout(x, 0.5, training=False) + F.dropout(x, 0.0), ["add.Tensor"]),
        (lambda x: x[:, :, :] + x.expand(-1, -1, 8).reshape(x.shape), ["add.Tensor"]),
        (lambda x: (x.exp() * 0, x.neg())[1], ["neg.default"]),
        (lambda x: x.neg().to(torch.float32).to(torch.float64), ["neg.default", "to.dtype", "to.dtype"]),
        (lambda x: x.transpose(0, 0).neg(), ["transpose.int", "neg.default"]),
        (lambda x: x.detach() + x, ["detach.default", "add.Tensor"]),
        (lambda x: torch.ones(8).detach() + x, ["ones.default", "add.Tensor"]),
    ],
)
def test_what_is_left(function: Any, left: list[str]) -> None:
    assert targets(function) == left


def _chained(x: Any) -> Any:
    y = x * 2
    part = y[:, 1:3].transpose(1, 2)
    part += 1
    part[:, 0].mul_(3)
    before = y.clone()
    y.fill_(0.5)
    return before, y + x, part


def _through_views(x: Any) -> Any:
    y = x * 2
    rows = y.view(y.shape[0], y.shape[1], 2, 4).permute(2, 0, 1, 3)
    rows[0] = 7.0
    y.unsqueeze(1)[:, 0, -1].zero_()
    first = y.flatten(1)
    y.sub_(x)
    return y, first, rows


def _of_an_earlier_view(x: Any) -> Any:
    y = x.neg()
    view = y[..., :4]
    other = y[..., 2:]
    view.copy_(x[..., 4:])
    other.add_(1)
    return y, view, other * view.mean()


def _counted(x: Any) -> Any:
    y = torch.zeros_like(x)
    for place in range(3):
        y[:, place] += x[:, place] * (place + 1)
        y[:, place].clamp_(min=0.0)
    return y


WRITES: dict[str, Case] = {f.__name__.lstrip("_"): (f, ()) for f in (
    _chained, _through_views, _of_an_earlier_view, _counted,
)}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_writes_in_place_are_seen_by_all_views(name: str) -> None:
    module = OnTokens(WRITES[name][0])
    program = strip(traced(module))
    assert not any(call.target.split(".")[1].rstrip("_") + "_" == call.target.split(".")[1] for call in program.calls)
    assert_same(module, lower(program).block)


def test_running_statistics_are_not_read() -> None:
    norm = torch.nn.BatchNorm1d(8, dtype=torch.float64)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.norm = torch.nn.Parameter(torch.randn(11, 8, dtype=torch.float64)), norm

        def forward(self, tokens: Any) -> Any:
            return (self.norm(F.embedding(tokens, self.table).mT),)

    program = strip(traced(Model()))
    assert program.buffers == ()
    (call,) = (c for c in program.calls if c.target == "aten.batch_norm.default")
    assert call.arguments[3:6] == (None, None, True)


def test_names_of_results_are_kept() -> None:
    """A second result of a call is read under its own name after the call's argument was replaced."""
    calls = (
        Call(name="same", target="aten.clone.default", arguments=(Ref("x"),), results=(FLAT,)),
        Call(name="top", target="aten.max.dim", arguments=(Ref("same"), -1), results=(
            TensorMeta((symbol("B"),)), TensorMeta((symbol("B"),), "int64"))),
        Call(name="sum", target="aten.sum.default", arguments=(Ref("top:1"),), results=(TensorMeta((), "int64"),)),
    )  # fmt: skip
    program = Program(
        name="one", inputs=(Input(name="x", meta=FLAT),), weights=(), buffers=(), calls=calls, outputs=("sum",)
    )
    left = strip(program).calls
    assert [(c.name, c.arguments) for c in left] == [("top", (Ref("x"), -1)), ("sum", (Ref("top:1"),))]
