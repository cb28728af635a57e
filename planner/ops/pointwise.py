"""From one row of the table of elementwise operators to its entry in `OPS`.

Operands are broadcast as torch does: dims are aligned at the right; what an operand lacks is not in its part of the
line, and a dim of size 1 that is repeated is written `1`. The gradient of such an operand is summed over what it was
repeated along, which the rule of raw layouts turns into Partial wherever that is sharded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from ..core.graph import Attribute
from ..core.rule import ShardingRule
from ..core.symbol import Size
from ..core.tensor import TensorMeta
from ..errors import RuleError
from .definition import Attributes, Local, OpDef, Shape, elements, names_of, shapes_of

_WIDTH = {"bool": 0, "int32": 1, "int64": 2, "float16": 3, "bfloat16": 3, "compute": 3, "float32": 4, "float64": 5}
"""Order of element types in which torch promotes the narrower one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One elementwise operator.

    Parameters
    ----------
    operands
        Names with blanks between.
    expression
        Torch expression; `{x}` is the operand or attribute `x`.
    terms
        Its terms, or a function of the attributes that gives them, where they decide whether it is linear.
    forward, backward
        FLOPs per element of the result; estimates where a kernel evaluates a series.
    saved
        Names with blanks between of what autograd keeps.
    kept_copies
        How many tensors of the result's size autograd keeps besides.
    constant
        Operands without gradient, with blanks between.
    along_channels
        Operands of one dim that lie along dim 1 instead of the last.
    dtype
        Element type of the result where it is not the operands'.
    casts
        Element types that the attribute `dtype` may ask for, if the result has that one; one of numbers gets gradients.
    """

    name: str
    summary: str
    operands: str = "x"
    expression: str
    terms: str | Callable[[Attributes], str] = ""
    forward: float = 1
    backward: float = 1
    saved: str = ""
    kept_copies: int = 0
    constant: str = ""
    along_channels: str = ""
    dtype: str = ""
    casts: tuple[str, ...] = ()


def operator(row: Row) -> OpDef:
    """Return the entry of `OPS` that a row describes."""
    names = tuple(row.operands.split())
    without = row.dtype == "bool" or "int64" in row.casts
    differentiable = () if without else tuple(n for n in names if n not in row.constant.split())

    def infer(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
        shape = broadcast(row.name, tuple(_aligned(row, n, m) for n, m in zip(names, operands, strict=True)))
        kinds = [m.dtype for n, m in zip(names, operands, strict=True) if n not in ("condition", "mask")]
        return (TensorMeta(shape, _cast(row, attributes) or row.dtype or max(kinds, key=_WIDTH.__getitem__)),)

    def rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], attributes: Attributes) -> ShardingRule:
        shape = results[0].shape
        factors = names_of(len(shape))
        tensors = []
        for name, meta in zip(names, operands, strict=True):
            if name in row.along_channels.split():
                tensors.append(factors[1])
            else:
                tensors.append(broadcast_line(factors, meta.shape, shape))
        return ShardingRule.parse(
            f"{', '.join(tensors)} -> {' '.join(factors)}", shapes=shapes_of(operands + results), names=names,
            terms=row.terms if isinstance(row.terms, str) else row.terms(attributes),
        )  # fmt: skip

    def backward_flops(operands: tuple[Shape, ...], results: tuple[Shape, ...]) -> float:
        repeated = sum(prod(shape) < elements(results) for n, shape in zip(names, operands, strict=True)
                       if n in differentiable)  # fmt: skip
        return (row.backward + repeated) * elements(results) if differentiable else 0.0

    def torch(local: Local) -> str:
        given = {name: literal(value) for name, value in local.node.attributes}
        return row.expression.format_map(given | dict(zip(names, local.arguments, strict=True)))

    return OpDef(
        name=row.name,
        summary=row.summary,
        operands=names,
        infer=infer,
        rule=rule,
        flops=lambda _operands, results: row.forward * elements(results),
        backward_flops=backward_flops,
        saved=tuple(row.saved.split()),
        extra_saved=lambda operands, size: float(row.kept_copies * size * max(map(prod, operands))),
        differentiable=differentiable,
        torch=torch,
    )


def broadcast(what: str, shapes: tuple[tuple[Size, ...], ...]) -> tuple[Size, ...]:
    """Return the shape that several broadcast to.

    Raises
    ------
    RuleError
        `rule.broadcast` when two sizes of a dim differ and none is 1.
    """
    rank = max(map(len, shapes))
    result: list[Size] = [1] * rank
    for shape in shapes:
        for dim, size in enumerate(shape, start=rank - len(shape)):
            if size != 1 and result[dim] not in (1, size):
                raise RuleError(
                    "rule.broadcast", f"{what}: sizes {result[dim]} and {size} of dim {dim} can't be broadcast.",
                    "Give operands of equal sizes, or of size 1.",
                )  # fmt: skip
            result[dim] = size if size != 1 else result[dim]
    return tuple(result)


def _cast(row: Row, attributes: Attributes) -> str:
    """Return the element type that a cast asks for; empty for other rows."""
    if row.casts and attributes["dtype"] not in row.casts:
        raise RuleError(
            "rule.cast", f"{row.name} does not give {attributes['dtype']!r}.", f"Use {', '.join(row.casts)}."
        )
    return str(attributes["dtype"]) if row.casts else ""


def _aligned(row: Row, name: str, meta: TensorMeta) -> tuple[Size, ...]:
    """Return the shape that takes part in broadcasting; one along the channels fits or `parse` refuses it."""
    return () if name in row.along_channels.split() else meta.shape


def broadcast_line(factors: list[str], shape: tuple[Size, ...], result: tuple[Size, ...]) -> str:
    """Return an operand's part of the line: names at the right, `1` where it is repeated."""
    skipped = len(result) - len(shape)
    pairs = zip(factors[skipped:], shape, result[skipped:], strict=True)
    return " ".join("1" if size == 1 != whole else factor for factor, size, whole in pairs)


def literal(value: Attribute) -> str:
    """Return a value as Python text."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value).replace("'", '"')
