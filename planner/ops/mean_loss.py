"""Losses of two tensors of one shape, averaged over all elements: one row each.

The number of elements is known, so that the mean is a sum over the shard divided by the global count: every factor is a
reduction, and the result a partial sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..core.rule import ShardingRule
from ..core.tensor import TensorMeta
from ..errors import RuleError
from .definition import Attributes, Local, OpDef, Shape, names_of, shapes_of

_REDUCTIONS = ("mean", "batchmean", "sum")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One loss: its torch function, FLOPs per element, what autograd keeps, and options that are attributes."""

    name: str
    summary: str
    function: str
    forward: float
    backward: float
    saved: tuple[str, ...] = ("x", "target")
    kept_copies: int = 0
    options: tuple[str, ...] = ()


def _operator(row: Row) -> OpDef:
    def infer(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
        if attributes.get("reduction", "mean") not in _REDUCTIONS:
            raise RuleError(
                "rule.loss-reduction", f"{row.name} can't be reduced by {attributes['reduction']!r}.",
                f"Use {', '.join(_REDUCTIONS)}.",
            )  # fmt: skip
        return (TensorMeta((), "float32"),)

    def rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
        dims = " ".join(names_of(len(operands[0].shape)))
        return ShardingRule.parse(f"{dims}, {dims} ->", shapes=shapes_of(operands + results))

    def torch(local: Local) -> str:
        attributes = dict(local.node.attributes)
        first = local.node.rule.factors[0]
        count = {"mean": prod(local.whole.values()), "batchmean": local.whole[first], "sum": 1}
        arguments = [row.function, *local.arguments, f"count={count[str(attributes.get('reduction', 'mean'))]}"]
        arguments += [f"{name}={attributes[name]!r}" for name in row.options if name in attributes]
        return f"ops.mean_loss({', '.join(arguments)})"

    def flops(per_element: float, operands: tuple[Shape, ...]) -> float:
        return per_element * prod(operands[0])

    return OpDef(
        name=row.name,
        summary=row.summary,
        operands=("x", "target"),
        infer=infer,
        rule=rule,
        flops=lambda operands, _: flops(row.forward, operands),
        backward_flops=lambda operands, _: flops(row.backward, operands),
        saved=row.saved,
        # In fp32 whatever the operands are.
        extra_saved=lambda operands, _: 4.0 * row.kept_copies * prod(operands[0]),
        differentiable=("x", "target"),
        torch=torch,
    )


ROWS = (
    Row(name="mse_loss", summary="mean of (x − target)²", function="F.mse_loss", forward=3, backward=4),
    Row(name="l1_loss", summary="mean of |x − target|", function="F.l1_loss", forward=2, backward=2,
        saved=(), kept_copies=1),
    Row(name="huber_loss", summary="mean of (x − target)² / 2, linear beyond delta", function="F.huber_loss",
        forward=5, backward=6, options=("delta",)),
    Row(name="smooth_l1_loss", summary="mean of (x − target)² / (2 · beta), linear beyond beta",
        function="F.smooth_l1_loss", forward=5, backward=6, options=("beta",)),
    Row(name="bce_with_logits", summary="mean of the binary cross-entropy of sigmoid(x)",
        function="F.binary_cross_entropy_with_logits", forward=20, backward=6),
    Row(name="kl_div", summary="mean of target · (log target − x), x a log-probability", function="F.kl_div",
        forward=10, backward=3, saved=(), kept_copies=2, options=("log_target",)),
)  # fmt: skip
MEAN_LOSSES: tuple[OpDef, ...] = tuple(_operator(row) for row in ROWS)
