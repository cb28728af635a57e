"""Reshape: the same elements in row-major order under other dims; `view`, `flatten` and `unflatten` are cases of it.

The line has the cells of the two shapes (`core.reshape`): `batch seq (d2 d3) -> (batch seq) d2 d3`. Dims that no common
cell covers (`4 6 -> 6 4` shares only its leading 2) have factors of their own, which stay whole.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..core.reshape import Cell, cells
from ..core.rule import ShardingRule
from ..core.symbol import Size, parse, quotient, symbol
from ..core.tensor import TensorMeta
from .definition import Attributes, Local, OpDef, per_element
from .lines import line, listed, misfit

Metas = tuple[TensorMeta, ...]
_CALLED = {"batch": symbol("B"), "seq": symbol("S")}
_APART = "the other shape cuts it elsewhere, so that no part of a dim has the same elements on both sides"


def _infer(operands: Metas, attributes: Attributes) -> Metas:
    (x,) = operands
    if not x.shape:
        raise misfit(f"{x} has no dims to reshape; unsqueeze gives it one")
    text = attributes.get("sizes")
    if not isinstance(text, str):
        raise misfit(f"the attribute sizes is {text!r}, no text such as 'B, S, -1'")
    shape: list[Size] = [parse(size) for size in text.split(",")] if text.strip() else []
    if shape.count(-1) > 1:
        raise misfit(f"the sizes [{text}] leave two dims open")
    if -1 in shape:
        rest = quotient(_elements(x.shape), _elements(size for size in shape if size != -1))
        if rest is None:
            raise misfit(f"{x} can't be reshaped to [{text}]")
        shape[shape.index(-1)] = rest
    made = tuple(shape)
    cells(x.shape, made)  # refuses other numbers of elements
    return (TensorMeta(made, x.dtype),)


def _rule(operands: Metas, results: Metas, _: Attributes) -> ShardingRule:
    before, after = operands[0].shape, results[0].shape
    sizes: dict[str, Size] = {}
    blocked: dict[str, str] = {}
    read, made = _Dims(len(before)), _Dims(len(after))
    for cell in cells(before, after):
        if cell.common and cell.size != 1:
            name = _name(cell, sizes)
            sizes[name] = cell.size
            read.put(cell.before[0][0], name)
            made.put(cell.after[0][0], name)
        elif not cell.common:
            for dims, pieces, side in ((read, cell.before, "x"), (made, cell.after, "y")):
                for dim, size in pieces:
                    if size != 1:
                        name = f"{side}{len(sizes)}"
                        sizes[name] = size
                        blocked[name] = _APART
                        dims.put(dim, name)
    return line(
        operands, results, [read.tokens()], [made.tokens()], names=("x",), terms="x", sizes=sizes, blocked=blocked
    )


class _Dims:
    """The factors of every dim of a shape, as they are found; a dim of size 1 has none."""

    def __init__(self, rank: int) -> None:
        self.factors: list[list[str]] = [[] for _ in range(rank)]

    def put(self, dim: int, name: str) -> None:
        self.factors[dim].append(name)

    def tokens(self) -> list[str]:
        return ["1" if not dim else dim[0] if len(dim) == 1 else f"({' '.join(dim)})" for dim in self.factors]


def _name(cell: Cell, taken: dict[str, Size]) -> str:
    """Return `batch` or `seq` for a cell that is one, by its symbol, else a number."""
    for name, size in _CALLED.items():
        if cell.size == size and name not in taken:
            return name
    return f"d{len(taken)}"


def _elements(sizes: Iterable[Size]) -> Size:
    total: Size = 1
    for size in sizes:
        total = total * size
    return total


def _torch(local: Local) -> str:
    return f"{local.arguments[0]}.reshape({listed(tuple(map(str, local.results[0])))})"


RESHAPE = OpDef(
    name="reshape",
    summary="the same elements under other dims: reshape, view, flatten, unflatten",
    operands=("x",),
    infer=_infer,
    rule=_rule,
    flops=per_element(0),
    backward_flops=per_element(0),
    view=True,
    differentiable=("x",),
    torch=_torch,
)
