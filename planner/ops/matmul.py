"""Matrix products: with a parameter, of two batches, and of each expert's tokens with its own matrix."""

from __future__ import annotations

from math import prod

from ..core.rule import ShardingRule
from ..core.tensor import TensorMeta
from ..errors import RuleError
from .definition import Attributes, Local, OpDef, Shape, leading, shapes_of
from .pointwise import broadcast, broadcast_line
from .window import whole_number


def _infer(operands: tuple[TensorMeta, ...], _: Attributes) -> tuple[TensorMeta, ...]:
    x, weight = operands[:2]
    return (TensorMeta((*x.shape[:-1], weight.shape[0]), x.dtype),)


def _rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    lead = leading(len(operands[0].shape) - 1)
    bias = len(operands) == 3
    return ShardingRule.parse(
        f"{lead} k, n k{', n' if bias else ''} -> {lead} n",
        shapes=shapes_of(operands + results),
        names=("x", "weight", "bias"),
        terms="x*weight + bias" if bias else "x*weight",
    )


def _flops(operands: tuple[Shape, ...], _: tuple[Shape, ...]) -> float:
    return 2.0 * prod(operands[0]) * operands[1][0]


def _torch(local: Local) -> str:
    return f"F.linear({', '.join(local.arguments)})"


def _matmul_infer(operands: tuple[TensorMeta, ...], _: Attributes) -> tuple[TensorMeta, ...]:
    x, y = operands
    if min(len(x.shape), len(y.shape)) < 2:
        raise RuleError("rule.matmul", f"matmul of {x} and {y}.", "Give both operands at least two dims.")
    batch = broadcast("matmul", (x.shape[:-2], y.shape[:-2]))
    return (TensorMeta((*batch, x.shape[-2], y.shape[-1]), x.dtype),)


def _matmul_rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    batch = results[0].shape[:-2]
    names = ["batch", "head"] if len(batch) == 2 else leading(len(batch)).split()
    x, y = (broadcast_line(names, meta.shape[:-2], batch) for meta in operands)
    return ShardingRule.parse(
        f"{x} m k, {y} k n -> {' '.join(names)} m n", shapes=shapes_of(operands + results), names=("x", "y"),
        terms="x*y",
    )  # fmt: skip


def _matmul_flops(operands: tuple[Shape, ...], results: tuple[Shape, ...]) -> float:
    return 2.0 * prod(results[0]) * operands[0][-1]


def _matmul_copies(operands: tuple[Shape, ...], element_bytes: int) -> float:
    """Return the bytes of the copies that are made of an operand of several matrices that is repeated."""
    batch = broadcast("matmul", (operands[0][:-2], operands[1][:-2]))
    repeated = (s for s in operands if 1 < prod(s[:-2]) < prod(map(whole_number, batch)))
    return float(element_bytes * sum(prod(map(whole_number, batch)) * s[-2] * s[-1] for s in repeated))


def _expert_infer(operands: tuple[TensorMeta, ...], _: Attributes) -> tuple[TensorMeta, ...]:
    x, weight = operands
    return (TensorMeta((*x.shape[:-1], weight.shape[1]), x.dtype),)


def _expert_rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    rows = ["slot"] if len(operands[0].shape) == 3 else ["batch", "slot"]
    before = " ".join(["expert", *rows])
    return ShardingRule.parse(
        f"{before} k, expert n k -> {before} n", shapes=shapes_of(operands + results), names=("x", "weight"),
        terms="x*weight", even=frozenset({"expert"}),
    )  # fmt: skip


LINEAR = OpDef(
    name="linear",
    summary="y = x·weightᵀ, plus bias if it has one",
    operands=("x", "weight", "bias?"),
    infer=_infer,
    rule=_rule,
    flops=_flops,
    backward_flops=lambda operands, results: 2 * _flops(operands, results),
    saved=("x", "weight"),
    product=True,
    differentiable=("x", "weight", "bias"),
    matmul=True,
    torch=_torch,
)
MATMUL = OpDef(
    name="matmul",
    summary="x·y of the last two dims, the others broadcast",
    operands=("x", "y"),
    infer=_matmul_infer,
    rule=_matmul_rule,
    flops=_matmul_flops,
    backward_flops=lambda operands, results: 2 * _matmul_flops(operands, results),
    saved=("x", "y"),
    product=True,
    extra_saved=_matmul_copies,
    differentiable=("x", "y"),
    matmul=True,
    torch=lambda local: f"torch.matmul({', '.join(local.arguments)})",
)
EXPERT_LINEAR = OpDef(
    name="expert_linear",
    summary="x·weightᵀ of every expert with the tokens in its slots",
    operands=("x", "weight"),
    infer=_expert_infer,
    rule=_expert_rule,
    flops=_matmul_flops,
    backward_flops=lambda operands, results: 2 * _matmul_flops(operands, results),
    saved=("x", "weight"),
    product=True,
    differentiable=("x", "weight"),
    matmul=True,
    torch=lambda local: f"ops.expert_linear({', '.join(local.arguments)})",
)
