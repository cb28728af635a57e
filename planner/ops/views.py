"""Other views of a tensor's memory: dims in another order, dims of size 1 put in, taken out or repeated."""

from __future__ import annotations

from ..core.rule import ShardingRule
from ..core.symbol import parse
from ..core.tensor import TensorMeta
from .definition import Attributes, Local, OpDef, dim_of, names_of, per_element
from .lines import attributes_of, integers, line, misfit, names_where

Metas = tuple[TensorMeta, ...]


def _order(attributes: Attributes, rank: int) -> tuple[int, ...]:
    order = integers(attributes, "dims")
    if sorted(d % rank for d in order if -rank <= d < rank) != list(range(rank)):
        raise misfit(f"{order} is no order of {rank} dims")
    return tuple(d % rank for d in order)


def _permute_infer(operands: Metas, attributes: Attributes) -> Metas:
    (x,) = operands
    return (TensorMeta(tuple(x.shape[d] for d in _order(attributes, len(x.shape))), x.dtype),)


def _permute_rule(operands: Metas, results: Metas, attributes: Attributes) -> ShardingRule:
    dims = names_of(len(operands[0].shape))
    made = [dims[d] for d in _order(attributes, len(dims))]
    return line(operands, results, [dims], [made], names=("x",), terms="x")


def _permute_torch(local: Local) -> str:
    order = _order(attributes_of(local), len(local.operands[0]))
    return f"{local.arguments[0]}.permute({', '.join(map(str, order))})"


def _expand_infer(operands: Metas, attributes: Attributes) -> Metas:
    (x,) = operands
    text = attributes.get("sizes")
    if not isinstance(text, str):
        raise misfit(f"the attribute sizes is {text!r}, no text such as 'B, S, 8'")
    shape = tuple(parse(size) for size in text.split(","))
    added = len(shape) - len(x.shape)
    if added < 0 or any(old not in (1, new) for old, new in zip(x.shape, shape[added:], strict=True)):
        raise misfit(f"{x} can't be expanded to [{text}]")
    return (TensorMeta(shape, x.dtype),)


def _expand_rule(operands: Metas, results: Metas, _: Attributes) -> ShardingRule:
    made = names_where(results[0].shape)
    added = len(made) - len(operands[0].shape)
    read = ["1" if size == 1 else name for name, size in zip(made[added:], operands[0].shape, strict=True)]
    return line(operands, results, [read], [made], names=("x",), terms="x")


def _expand_torch(local: Local) -> str:
    return f"{local.arguments[0]}.expand({', '.join(map(str, local.results[0]))})"


def _squeeze_infer(operands: Metas, attributes: Attributes) -> Metas:
    (x,) = operands
    dim = dim_of(attributes, len(x.shape))
    if x.shape[dim] != 1:
        raise misfit(f"dim {dim} of {x} has not the size 1, so it can't go")
    return (TensorMeta((*x.shape[:dim], *x.shape[dim + 1 :]), x.dtype),)


def _squeeze_rule(operands: Metas, results: Metas, attributes: Attributes) -> ShardingRule:
    made = names_of(len(results[0].shape))
    dim = dim_of(attributes, len(operands[0].shape))
    return line(operands, results, [[*made[:dim], "1", *made[dim:]]], [made], names=("x",), terms="x")


def _squeeze_torch(local: Local) -> str:
    return f"{local.arguments[0]}.squeeze({dim_of(attributes_of(local), len(local.operands[0]))})"


def _unsqueeze_infer(operands: Metas, attributes: Attributes) -> Metas:
    (x,) = operands
    dim = dim_of(attributes, len(x.shape) + 1)
    return (TensorMeta((*x.shape[:dim], 1, *x.shape[dim:]), x.dtype),)


def _unsqueeze_rule(operands: Metas, results: Metas, attributes: Attributes) -> ShardingRule:
    read = names_of(len(operands[0].shape))
    dim = dim_of(attributes, len(results[0].shape))
    return line(operands, results, [read], [[*read[:dim], "1", *read[dim:]]], names=("x",), terms="x")


def _unsqueeze_torch(local: Local) -> str:
    return f"{local.arguments[0]}.unsqueeze({dim_of(attributes_of(local), len(local.results[0]))})"


PERMUTE = OpDef(
    name="permute",
    summary="dims in another order",
    operands=("x",),
    infer=_permute_infer,
    rule=_permute_rule,
    flops=per_element(0),
    backward_flops=per_element(0),
    view=True,
    differentiable=("x",),
    torch=_permute_torch,
)
EXPAND = OpDef(
    name="expand",
    summary="dims of size 1, and new leading ones, repeated without a copy",
    operands=("x",),
    infer=_expand_infer,
    rule=_expand_rule,
    flops=per_element(0),
    # The sum over the copies.
    backward_flops=per_element(1),
    view=True,
    differentiable=("x",),
    torch=_expand_torch,
)
SQUEEZE = OpDef(
    name="squeeze",
    summary="without a dim of size 1",
    operands=("x",),
    infer=_squeeze_infer,
    rule=_squeeze_rule,
    flops=per_element(0),
    backward_flops=per_element(0),
    view=True,
    differentiable=("x",),
    torch=_squeeze_torch,
)
UNSQUEEZE = OpDef(
    name="unsqueeze",
    summary="with a new dim of size 1",
    operands=("x",),
    infer=_unsqueeze_infer,
    rule=_unsqueeze_rule,
    flops=per_element(0),
    backward_flops=per_element(0),
    view=True,
    differentiable=("x",),
    torch=_unsqueeze_torch,
)
VIEWS = (PERMUTE, EXPAND, SQUEEZE, UNSQUEEZE)
