"""Reductions over dims.

`sum` and `mean` leave a partial sum where a reduced dim is sharded; a mean is a local sum over the global count. The
others are nonlinear, and defined by parts there: `amax` and `amin` find the extremum without gradient and share it out
to all elements that tie, as torch does; `var` takes the whole mean first.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..core.graph import Node
from ..core.rule import ShardingRule
from ..core.strategy import ShardStrategy
from ..core.tensor import TensorMeta
from .definition import Attributes, Cuts, Local, OpDef, Parts, names_of, per_element
from .lines import attributes_of, integer, integers, line, misfit, of_operand
from .parts import Named, PartsOf

Metas = tuple[TensorMeta, ...]


def reduced(attributes: Attributes, rank: int) -> tuple[int, ...]:
    """Return the dims that are reduced, counted from the front; all of them if the attribute is left out."""
    if "dims" not in attributes:
        return tuple(range(rank))
    dims = integers(attributes, "dims")
    if any(not -rank <= d < rank for d in dims) or len({d % rank for d in dims}) < len(dims):
        raise misfit(f"{dims} are no dims of a tensor that has {rank}")
    return tuple(sorted(d % rank for d in dims))


def _left(operand: TensorMeta, attributes: Attributes, dtype: str = "") -> TensorMeta:
    gone = reduced(attributes, len(operand.shape))
    keep = bool(attributes.get("keepdim", False))
    shape = tuple(1 if d in gone else n for d, n in enumerate(operand.shape) if keep or d not in gone)
    return TensorMeta(shape, dtype or operand.dtype)


def _lines(rank: int, attributes: Attributes, keep: bool | None = None) -> tuple[list[str], list[str], list[str]]:
    """Return the operand's dims, the result's, and the reduced ones."""
    dims = names_of(rank)
    gone = reduced(attributes, rank)
    keep = bool(attributes.get("keepdim", False)) if keep is None else keep
    left = ["1" if d in gone else name for d, name in enumerate(dims) if keep or d not in gone]
    return dims, left, [dims[d] for d in gone]


def _linear_rule(operands: Metas, results: Metas, attributes: Attributes) -> ShardingRule:
    dims, left, _ = _lines(len(operands[0].shape), attributes)
    return line(operands, results, [dims], [left], names=("x",), terms="x")


def _special_rule(operands: Metas, results: Metas, attributes: Attributes) -> ShardingRule:
    dims, left, gone = _lines(len(operands[0].shape), attributes)
    return line(operands, results, [dims], [left], special=frozenset(gone))


def _part_rule(held: int, reduce: Callable[[Attributes], str] = lambda _: "sum") -> Callable[..., ShardingRule]:
    """Return the rule of a part that reads x and `held` values of each reduced group, which keep the reduced dims."""

    def rule(operands: Metas, results: Metas, attributes: Attributes) -> ShardingRule:
        dims, left, _ = _lines(len(operands[0].shape), attributes)
        groups = _lines(len(operands[0].shape), attributes, keep=True)[1]
        return line(operands, results, [dims, *[groups] * held], [left], reduce=reduce(attributes))

    return rule


def _call(local: Local, function: str, *more: str) -> str:
    """Write a reduction as a method of x, or as a function if it has a dot."""
    attributes = attributes_of(local)
    dims = reduced(attributes, len(local.operands[0]))
    arguments = [f"({', '.join(map(str, dims))}{',' if len(dims) == 1 else ''})", *more]
    if attributes.get("keepdim", False):
        arguments.append("keepdim=True")
    if "." in function:
        return f"{function}({', '.join([*local.arguments, *arguments])})"
    return f"{local.arguments[0]}.{function}({', '.join(arguments)})"


def _count(local: Local) -> int:
    """Return the number of elements of the whole tensor that make one of the result."""
    gone = _lines(len(local.operands[0]), attributes_of(local))[2]
    return prod(local.whole[f] for f in gone)


def _mean_torch(local: Local) -> str:
    gone = _lines(len(local.operands[0]), attributes_of(local))[2]
    return f"{_call(local, 'sum')} / {_count(local)}" if set(gone) & set(local.start) else _call(local, "mean")


def _extreme_parts(node: Node, strategy: ShardStrategy, op: OpDef, largest: bool) -> Parts:
    """Find the extremum over the shards, and let all elements that tie share it."""
    if not any(strategy.axes(f) for f in node.rule.special):
        return ()
    given = dict(node.attributes) | {"largest": largest}
    parts = PartsOf(op, node, strategy)
    x = parts.operand("x", node.results[0].meta.dtype)
    if x is None or x[1].dtype.startswith(("int", "bool")):
        parts.add(EXTREMUM, (x,), attributes=given, last=True)
        return parts.finished()
    top = parts.add(EXTREMUM, (x,), attributes=given | {"keepdim": True})
    ties = parts.add(COUNT_TIES, (x, top), attributes=given | {"keepdim": True})
    parts.add(SHARE_TIES, (x, top, ties), attributes=given, last=True)
    return parts.finished()


def _extreme(name: str, summary: str, largest: bool) -> OpDef:
    def parts(node: Node, strategy: ShardStrategy, _: Cuts) -> Parts:
        return _extreme_parts(node, strategy, op, largest)

    op = OpDef(
        name=name, summary=summary, operands=("x",), infer=lambda operands, a: (_left(operands[0], a),),
        rule=_special_rule, flops=of_operand(1), backward_flops=of_operand(2), saved=("x", "result"),
        differentiable=("x",), torch=lambda local: _call(local, name), parts=parts,
    )  # fmt: skip
    return op


def _var_parts(node: Node, strategy: ShardStrategy, _: Cuts) -> Parts:
    """Take the whole mean, then the partial sums of the squared deviations from it."""
    if not any(strategy.axes(f) for f in node.rule.special):
        return ()
    parts = PartsOf(VAR, node, strategy)
    x: Named | None = parts.operand("x", node.results[0].meta.dtype)
    mean = parts.add(MEAN, (x,), attributes=dict(node.attributes) | {"keepdim": True})
    parts.add(SQUARED_DEVIATION, (x, mean), last=True)
    return parts.finished()


def _var_torch(local: Local) -> str:
    return _call(local, "reductions.variance", f"correction={integer(attributes_of(local), 'correction', 1)}")


def _deviation_torch(local: Local) -> str:
    divisor = _count(local) - integer(attributes_of(local), "correction", 1)
    return _call(local, "reductions.squared_deviation", f"divisor={divisor}")


SUM = OpDef(
    name="sum",
    summary="sum over dims",
    operands=("x",),
    infer=lambda operands, a: (_left(operands[0], a),),
    rule=_linear_rule,
    flops=of_operand(1),
    backward_flops=per_element(0),
    differentiable=("x",),
    torch=lambda local: _call(local, "sum"),
)
MEAN = OpDef(
    name="mean",
    summary="mean over dims: the local sum over the global count",
    operands=("x",),
    infer=lambda operands, a: (_left(operands[0], a),),
    rule=_linear_rule,
    flops=of_operand(1),
    backward_flops=of_operand(1),
    differentiable=("x",),
    torch=_mean_torch,
)
AMAX = _extreme("amax", "largest element over dims", largest=True)
AMIN = _extreme("amin", "smallest element over dims", largest=False)
EXTREMUM = OpDef(
    name="extremum",
    summary="largest, or smallest, element of each shard, without gradient",
    operands=("x",),
    infer=lambda operands, a: (_left(operands[0], a),),
    rule=_part_rule(0, reduce=lambda a: "max" if a["largest"] else "min"),
    flops=of_operand(1),
    backward_flops=per_element(0),
    torch=lambda local: _call(local, "reductions.extremum", f"largest={attributes_of(local)['largest']}"),
)
COUNT_TIES = OpDef(
    name="count_ties",
    summary="number of elements that are equal to the extremum",
    operands=("x", "top"),
    infer=lambda operands, a: (_left(operands[0], a),),
    rule=_part_rule(1),
    flops=of_operand(2),
    backward_flops=per_element(0),
    torch=lambda local: _call(local, "reductions.count_ties"),
)
SHARE_TIES = OpDef(
    name="share_ties",
    summary="sum of x / ties over the elements that are equal to the extremum",
    operands=("x", "top", "ties"),
    infer=lambda operands, a: (_left(operands[0], a),),
    rule=_part_rule(2),
    flops=of_operand(2),
    backward_flops=of_operand(1),
    saved=("ties",),
    # Which elements tie.
    extra_saved=lambda operands, _: 1.0 * prod(operands[0]),
    differentiable=("x",),
    torch=lambda local: _call(local, "reductions.share_ties"),
)
VAR = OpDef(
    name="var",
    summary="variance over dims",
    operands=("x",),
    infer=lambda operands, a: (_left(operands[0], a),),
    rule=_special_rule,
    flops=of_operand(4),
    backward_flops=of_operand(3),
    saved=("x",),
    differentiable=("x",),
    torch=_var_torch,
    parts=_var_parts,
)
SQUARED_DEVIATION = OpDef(
    name="squared_deviation",
    summary="sum of (x − mean)² over a divisor",
    operands=("x", "mean"),
    infer=lambda operands, a: (_left(operands[0], a),),
    rule=_part_rule(1),
    flops=of_operand(3),
    backward_flops=of_operand(3),
    # The deviations.
    extra_saved=lambda operands, element_bytes: 1.0 * element_bytes * prod(operands[0]),
    differentiable=("x", "mean"),
    torch=_deviation_torch,
)
REDUCTIONS = (SUM, MEAN, AMAX, AMIN, EXTREMUM, COUNT_TIES, SHARE_TIES, VAR, SQUARED_DEVIATION)
