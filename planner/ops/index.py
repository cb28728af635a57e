"""Operators that read or write a dim by index.

The indexed dim of the tensor that is read is a reduction `n`: a shard gives zeros for what it does not hold. That of
the tensor that is written is passed through: a shard takes what falls into it. `m` is the dim of the index. Indices
are whole-tensor numbers everywhere; negative ones are not supported.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..core.rule import ShardingRule
from ..core.tensor import TensorMeta
from .definition import Attributes, Local, OpDef, dim_of, leading, names_of, per_element
from .lines import attributes_of, integer, line, misfit, of_operand, replaced

Metas = tuple[TensorMeta, ...]


def _dim(local: Local) -> int:
    return dim_of(attributes_of(local), len(local.operands[0]))


def _aligned(x: TensorMeta, index: TensorMeta, dim: int) -> None:
    """Check that an index of all dims has the sizes of what it indexes, but for `dim`."""
    if len(x.shape) != len(index.shape) or any(
        a != b for d, (a, b) in enumerate(zip(x.shape, index.shape, strict=True)) if d != dim
    ):
        raise misfit(f"an index {index} differs from {x} in other dims than {dim}")


def _one_dim(index: TensorMeta) -> None:
    if len(index.shape) != 1:
        raise misfit(f"an index {index} has not one dim")


def _gather_infer(operands: Metas, attributes: Attributes) -> Metas:
    x, index = operands
    _aligned(x, index, dim_of(attributes, len(x.shape)))
    return (TensorMeta(index.shape, x.dtype),)


def _gather_rule(operands: Metas, results: Metas, attributes: Attributes) -> ShardingRule:
    dims = names_of(len(operands[0].shape))
    dim = dim_of(attributes, len(dims))
    read, index = replaced(dims, dim, "n"), replaced(dims, dim, "m")
    return line(operands, results, [read, index], [index], names=("x", "index"), terms="x")


def _index_select_infer(operands: Metas, attributes: Attributes) -> Metas:
    x, index = operands
    _one_dim(index)
    dim = dim_of(attributes, len(x.shape))
    return (TensorMeta((*x.shape[:dim], index.shape[0], *x.shape[dim + 1 :]), x.dtype),)


def _index_select_rule(operands: Metas, results: Metas, attributes: Attributes) -> ShardingRule:
    dims = names_of(len(operands[0].shape))
    dim = dim_of(attributes, len(dims))
    return line(
        operands, results, [replaced(dims, dim, "n"), ["m"]], [replaced(dims, dim, "m")],
        names=("x", "index"), terms="x",
    )  # fmt: skip


def _read_torch(plain: str, sharded: str) -> Callable[[Local], str]:
    def write(local: Local) -> str:
        x, index = local.arguments
        if "n" in local.start:
            return f"indexing.{sharded}({x}, {_dim(local)}, {index}, first={local.start['n']})"
        return f"{x}.{plain}({_dim(local)}, {index})"

    return write


def _index_add_infer(operands: Metas, attributes: Attributes) -> Metas:
    x, index, source = operands
    _one_dim(index)
    dim = dim_of(attributes, len(x.shape))
    if source.shape != (*x.shape[:dim], index.shape[0], *x.shape[dim + 1 :]):
        raise misfit(f"{source} is not what {index} adds to dim {dim} of {x}")
    return (x,)


def _index_add_rule(operands: Metas, results: Metas, attributes: Attributes) -> ShardingRule:
    dims = names_of(len(operands[0].shape))
    dim = dim_of(attributes, len(dims))
    written, source = replaced(dims, dim, "n"), replaced(dims, dim, "m")
    return line(
        operands, results, [written, ["m"], source], [written], names=("x", "index", "source"), terms="x + source"
    )


def _scatter_infer(operands: Metas, attributes: Attributes) -> Metas:
    x, index, source = operands
    _aligned(x, index, dim_of(attributes, len(x.shape)))
    if source.shape != index.shape:
        raise misfit(f"{source} has not the shape of its index {index}")
    return (x,)


def _scatter_rule(blocked: str = "") -> Callable[[Metas, Metas, Attributes], ShardingRule]:
    def rule(operands: Metas, results: Metas, attributes: Attributes) -> ShardingRule:
        dims = names_of(len(operands[0].shape))
        dim = dim_of(attributes, len(dims))
        written, source = replaced(dims, dim, "n"), replaced(dims, dim, "m")
        return line(
            operands, results, [written, source, source], [written], names=("x", "index", "source"),
            terms="x + source", blocked={"m": blocked} if blocked else None,
        )  # fmt: skip

    return rule


def _write_torch(name: str) -> Callable[[Local], str]:
    def write(local: Local) -> str:
        x, index, source = local.arguments
        if "n" in local.start:
            return f"indexing.{name}({x}, {_dim(local)}, {index}, {source}, first={local.start['n']})"
        return f"{x}.{name}({_dim(local)}, {index}, {source})"

    return write


def _one_hot_infer(operands: Metas, attributes: Attributes) -> Metas:
    classes = integer(attributes, "classes")
    if classes < 1:
        raise misfit(f"{classes} is no number of classes")
    return (TensorMeta((*operands[0].shape, classes), "int64"),)


def _one_hot_rule(operands: Metas, results: Metas, _: Attributes) -> ShardingRule:
    lead = leading(len(operands[0].shape)).split()
    return line(operands, results, [lead], [[*lead, "n"]])


def _one_hot_torch(local: Local) -> str:
    (tokens,) = local.arguments
    if "n" in local.start:
        return f"indexing.one_hot({tokens}, classes={local.sizes['n']}, first={local.start['n']})"
    return f"F.one_hot({tokens}, {local.whole['n']})"


GATHER = OpDef(
    name="gather",
    summary="for each index, the element of the same row that it names",
    operands=("x", "index"),
    infer=_gather_infer,
    rule=_gather_rule,
    flops=per_element(0),
    backward_flops=per_element(1),
    # A gather keeps what it picks from.
    saved=("x", "index"),
    sparse=("x",),
    differentiable=("x",),
    torch=_read_torch("gather", "gather"),
)
INDEX_SELECT = OpDef(
    name="index_select",
    summary="the slices of a dim that a list of indices names",
    operands=("x", "index"),
    infer=_index_select_infer,
    rule=_index_select_rule,
    flops=per_element(0),
    backward_flops=per_element(1),
    saved=("index",),
    sparse=("x",),
    differentiable=("x",),
    torch=_read_torch("index_select", "take"),
)
INDEX_ADD = OpDef(
    name="index_add",
    summary="x plus slices, each at the place in a dim that its index names; sums of segments",
    operands=("x", "index", "source"),
    infer=_index_add_infer,
    rule=_index_add_rule,
    flops=lambda operands, _: 1.0 * prod(operands[2]),
    backward_flops=of_operand(0),
    saved=("index", "source"),
    differentiable=("x", "source"),
    torch=_write_torch("index_add"),
)
SCATTER_ADD = OpDef(
    name="scatter_add",
    summary="x plus elements, each at the place in its row that its index names",
    operands=("x", "index", "source"),
    infer=_scatter_infer,
    rule=_scatter_rule(),
    flops=lambda operands, _: 1.0 * prod(operands[2]),
    backward_flops=of_operand(0),
    saved=("index",),
    differentiable=("x", "source"),
    torch=_write_torch("scatter_add"),
)
SCATTER = OpDef(
    name="scatter",
    summary="x with elements written over it, each at the place in its row that its index names",
    operands=("x", "index", "source"),
    infer=_scatter_infer,
    rule=_scatter_rule(blocked="what is overwritten is no sum over shards of the index"),
    flops=per_element(0),
    backward_flops=of_operand(1),
    saved=("index",),
    differentiable=("x", "source"),
    torch=_write_torch("scatter"),
)
ONE_HOT = OpDef(
    name="one_hot",
    summary="1 at the place that each index names, 0 elsewhere",
    operands=("tokens",),
    infer=_one_hot_infer,
    rule=_one_hot_rule,
    flops=per_element(0),
    backward_flops=per_element(0),
    torch=_one_hot_torch,
)
INDEXED = (GATHER, INDEX_SELECT, INDEX_ADD, SCATTER_ADD, SCATTER, ONE_HOT)
