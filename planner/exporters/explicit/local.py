"""Sizes and offsets of a rank's part of a node, as the written line needs them.

All ranks run the same text. Where the axes on a factor divide it, its local size is a number and its first index a
multiple of that. Elsewhere both differ by rank, and are written as what the runtime's mesh gives at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...core.assignment import Symbols
from ...core.graph import Node
from ...core.mesh import Axes, DeviceMesh
from ...core.rule import Factors
from ...core.strategy import ShardStrategy
from ...core.symbol import evaluate
from ...ops import Extent, Local


def local_of(
    node: Node,
    strategy: ShardStrategy,
    arguments: tuple[str, ...],
    symbols: Symbols,
    mesh: DeviceMesh,
    *,
    layer: str = "0",
) -> Local:
    """Return what a rank computes of a node.

    Parameters
    ----------
    arguments
        Python expressions of the operands.
    layer
        Python expression of the index of the layer that the node is in.
    """
    whole = {factor: evaluate(size, symbols) for factor, size in node.rule.sizes}
    sizes: dict[str, Extent] = {}
    start: dict[str, str] = {}
    for factor, size in whole.items():
        axes = tuple(axis for axis in strategy.axes(factor) if mesh.size(axis) > 1)
        sizes[factor] = _length(size, axes, mesh)
        if axes:
            start[factor] = _start(size, axes, mesh)

    def extent(dim: Factors) -> Extent:
        numbers = [n for factor in dim if isinstance(n := sizes[factor], int)]
        if len(numbers) == len(dim):
            return prod(numbers)
        axes = tuple(axis for factor in dim for axis in strategy.axes(factor) if mesh.size(axis) > 1)
        # Legal strategies cut the dim into the same parts as its factors (`core.merged`).
        return _length(prod(whole[factor] for factor in dim), axes, mesh)

    shapes = [tuple(extent(dim) for dim in tensor) for tensor in (*node.rule.operands, *node.rule.results)]
    count = len(node.rule.operands)
    return Local(
        node=node, arguments=arguments, operands=tuple(shapes[:count]), results=tuple(shapes[count:]), sizes=sizes,
        whole=whole, start=start, sequences=dict(symbols)["B"], layer=layer,
    )  # fmt: skip


def _length(size: int, axes: Axes, mesh: DeviceMesh) -> Extent:
    count = mesh.size_of(axes)
    return f"mesh.length({size}, {_listed(axes)})" if size % count else size // count


def _start(size: int, axes: Axes, mesh: DeviceMesh) -> str:
    count = mesh.size_of(axes)
    return f"mesh.start({size}, {_listed(axes)})" if size % count else f"mesh.index({_listed(axes)}) * {size // count}"


def _listed(axes: Sequence[str]) -> str:
    return ", ".join(f'"{axis}"' for axis in axes)
