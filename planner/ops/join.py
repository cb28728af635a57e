"""Operators that put tensors together, cut one to pieces, or repeat it.

Joined dims have factors of their own, as in `select`: a shard of an operand places what it holds and leaves zeros
elsewhere, so `concat` is the sum of its operands, each moved to its place. Operands, or pieces, of one size share a
factor, so that one axis can shard all of them; of several sizes each has its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from ..core.rule import ShardingRule
from ..core.symbol import Size
from ..core.tensor import TensorMeta
from .definition import Attributes, Local, OpDef, dim_of, names_of, per_element
from .lines import MANY, attributes_of, integer, integers, line, listed, misfit, replaced

Metas = tuple[TensorMeta, ...]


def _own(letter: str, sizes: Sequence[Size]) -> list[str]:
    """Return a factor for each of several dims: one for all if they have one size."""
    return [letter] * len(sizes) if len(set(sizes)) == 1 else [f"{letter}{i}" for i in range(len(sizes))]


def _sum_of(count: int) -> str:
    return " + ".join(MANY[i].rstrip("?") for i in range(count))


def _names(count: int) -> tuple[str, ...]:
    return tuple(name.rstrip("?") for name in MANY[:count])


def _concat_infer(operands: Metas, attributes: Attributes) -> Metas:
    first = operands[0]
    dim = dim_of(attributes, len(first.shape))
    others = {(*x.shape[:dim], *x.shape[dim + 1 :]) for x in operands}
    if len(others) > 1:
        raise misfit(f"{', '.join(map(str, operands))} differ in other dims than {dim}")
    total: Size = 0
    for x in operands:
        total = total + x.shape[dim]
    return (TensorMeta((*first.shape[:dim], total, *first.shape[dim + 1 :]), first.dtype),)


def _concat_rule(operands: Metas, results: Metas, attributes: Attributes) -> ShardingRule:
    dims = names_of(len(results[0].shape))
    dim = dim_of(attributes, len(dims))
    own = _own("n", [x.shape[dim] for x in operands])
    return line(
        operands, results, [replaced(dims, dim, n) for n in own], [replaced(dims, dim, "m")],
        names=_names(len(operands)), terms=_sum_of(len(operands)),
    )  # fmt: skip


def _concat_torch(local: Local) -> str:
    dim = dim_of(attributes_of(local), len(local.results[0]))
    own = [tensor[dim][0] for tensor in local.node.rule.operands]
    if not {*own, "m"} & set(local.start):
        return f"torch.cat({_tuple(local)}, dim={dim})"
    offset = f" + {local.start['m']}" if "m" in local.start else ""
    parts = []
    for x, n, before in zip(local.arguments, own, _before(local, own), strict=True):
        first = f", first={local.start[n]}" if n in local.start else ""
        parts.append(f"indexing.window({x}, {dim}, {-before}{offset}, {local.sizes['m']}{first})")
    return " + ".join(parts)


def _before(local: Local, own: Sequence[str]) -> list[int]:
    """Return where each piece begins in the joined dim."""
    sizes = [local.whole[n] for n in own]
    return [0, *accumulate(sizes[:-1])]


def _stack_infer(operands: Metas, attributes: Attributes) -> Metas:
    first = operands[0]
    if len(set(operands)) > 1:
        raise misfit(f"{', '.join(map(str, operands))} are not of one shape")
    dim = dim_of(attributes, len(first.shape) + 1)
    return (TensorMeta((*first.shape[:dim], len(operands), *first.shape[dim:]), first.dtype),)


def _stack_rule(operands: Metas, results: Metas, attributes: Attributes) -> ShardingRule:
    dims = names_of(len(operands[0].shape))
    dim = dim_of(attributes, len(dims) + 1)
    return line(
        operands, results, [dims] * len(operands), [[*dims[:dim], "m", *dims[dim:]]],
        names=_names(len(operands)), terms=_sum_of(len(operands)),
    )  # fmt: skip


def _tuple(local: Local) -> str:
    """Return the arguments as a tuple."""
    return f"({', '.join(local.arguments)}{',' * (len(local.arguments) == 1)})"


def _stack_torch(local: Local) -> str:
    dim = dim_of(attributes_of(local), len(local.results[0]))
    text = f"torch.stack({_tuple(local)}, dim={dim})"
    return f"{text}.narrow({dim}, {local.start['m']}, {local.sizes['m']})" if "m" in local.start else text


def _split_sizes(attributes: Attributes, size: Size) -> tuple[int, ...]:
    sizes = integers(attributes, "sizes")
    if sum(sizes) != size or min(sizes) < 1:
        raise misfit(f"pieces of sizes {sizes} do not make a dim of size {size}")
    return sizes


def _split_infer(operands: Metas, attributes: Attributes) -> Metas:
    (x,) = operands
    dim = dim_of(attributes, len(x.shape))
    return tuple(
        TensorMeta((*x.shape[:dim], size, *x.shape[dim + 1 :]), x.dtype)
        for size in _split_sizes(attributes, x.shape[dim])
    )


def _split_rule(operands: Metas, results: Metas, attributes: Attributes) -> ShardingRule:
    dims = names_of(len(operands[0].shape))
    dim = dim_of(attributes, len(dims))
    own = _own("m", [x.shape[dim] for x in results])
    apart = {m: "the results have different sizes, and must lie over the same axes" for m in own if m != "m"}
    return line(
        operands, results, [replaced(dims, dim, "n")], [replaced(dims, dim, m) for m in own],
        names=("x",), terms="x", blocked=apart,
    )  # fmt: skip


def _split_torch(local: Local) -> str:
    attributes = attributes_of(local)
    dim = dim_of(attributes, len(local.operands[0]))
    own = [tensor[dim][0] for tensor in local.node.rule.results]
    (x,) = local.arguments
    if not {*own, "n"} & set(local.start):
        return f"{x}.split({listed([str(n) for n in integers(attributes, 'sizes')])}, dim={dim})"
    first = f", first={local.start['n']}" if "n" in local.start else ""
    return listed([
        f"indexing.window({x}, {dim}, {before}{f' + {local.start[m]}' if m in local.start else ''}, "
        f"{local.sizes[m]}{first})"
        for m, before in zip(own, _before(local, own), strict=True)
    ])  # fmt: skip


def _times(attributes: Attributes, rank: int) -> tuple[int, ...]:
    times = integers(attributes, "times")
    if len(times) != rank or min(times) < 1:
        raise misfit(f"{times} are not {rank} numbers of copies")
    return times


def _repeat_infer(operands: Metas, attributes: Attributes) -> Metas:
    (x,) = operands
    times = _times(attributes, len(x.shape))
    return (TensorMeta(tuple(size * n for size, n in zip(x.shape, times, strict=True)), x.dtype),)


def _repeat_rule(operands: Metas, results: Metas, attributes: Attributes) -> ShardingRule:
    dims = names_of(len(operands[0].shape))
    times = _times(attributes, len(dims))
    copies: dict[str, Size] = {f"r{i}": n for i, n in enumerate(times) if n > 1}
    made = [f"(r{i} {name})" if f"r{i}" in copies else name for i, name in enumerate(dims)]
    return line(operands, results, [dims], [made], names=("x",), terms="x", sizes=copies)


def _repeat_torch(local: Local) -> str:
    times = [str(local.sizes.get(f"r{i}", 1)) for i in range(len(local.operands[0]))]
    return f"{local.arguments[0]}.repeat({', '.join(times)})"


def _interleave_infer(operands: Metas, attributes: Attributes) -> Metas:
    (x,) = operands
    dim, times = dim_of(attributes, len(x.shape)), integer(attributes, "times")
    if times < 1:
        raise misfit(f"{times} is no number of copies")
    return (TensorMeta((*x.shape[:dim], x.shape[dim] * times, *x.shape[dim + 1 :]), x.dtype),)


def _interleave_rule(operands: Metas, results: Metas, attributes: Attributes) -> ShardingRule:
    dims = names_of(len(operands[0].shape))
    dim = dim_of(attributes, len(dims))
    return line(
        operands, results, [dims], [replaced(dims, dim, f"({dims[dim]} r)")], names=("x",), terms="x",
        sizes={"r": integer(attributes, "times")},
    )  # fmt: skip


def _interleave_torch(local: Local) -> str:
    dim = dim_of(attributes_of(local), len(local.operands[0]))
    return f"{local.arguments[0]}.repeat_interleave({local.sizes['r']}, dim={dim})"


CONCAT = OpDef(
    name="concat",
    summary="tensors one after the other along a dim",
    operands=MANY,
    infer=_concat_infer,
    rule=_concat_rule,
    flops=per_element(0),
    backward_flops=per_element(0),
    differentiable=_names(len(MANY)),
    torch=_concat_torch,
)
STACK = OpDef(
    name="stack",
    summary="tensors of one shape along a new dim",
    operands=MANY,
    infer=_stack_infer,
    rule=_stack_rule,
    flops=per_element(0),
    backward_flops=per_element(0),
    differentiable=_names(len(MANY)),
    torch=_stack_torch,
)
SPLIT = OpDef(
    name="split",
    summary="pieces of a tensor along a dim",
    operands=("x",),
    infer=_split_infer,
    rule=_split_rule,
    flops=per_element(0),
    backward_flops=per_element(1),
    differentiable=("x",),
    torch=_split_torch,
)
REPEAT = OpDef(
    name="repeat",
    summary="copies of the whole, one after the other, along each dim",
    operands=("x",),
    infer=_repeat_infer,
    rule=_repeat_rule,
    flops=per_element(0),
    # The sum over the copies.
    backward_flops=per_element(1),
    differentiable=("x",),
    torch=_repeat_torch,
)
REPEAT_INTERLEAVE = OpDef(
    name="repeat_interleave",
    summary="copies of each element, one after the other, along a dim",
    operands=("x",),
    infer=_interleave_infer,
    rule=_interleave_rule,
    flops=per_element(0),
    backward_flops=per_element(1),
    differentiable=("x",),
    torch=_interleave_torch,
)
JOINS = (CONCAT, STACK, SPLIT, REPEAT, REPEAT_INTERLEAVE)
