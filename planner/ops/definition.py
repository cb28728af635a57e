"""The shape of an entry in the table `OPS`: what the planner knows about an operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from ..core.graph import Attribute, Node
from ..core.rule import ShardingRule
from ..core.strategy import ShardStrategy
from ..core.symbol import Size
from ..core.tensor import TensorMeta
from ..errors import RuleError

Shape = tuple[int, ...]
Extent = int | str
"""A number of elements; a Python expression where ranks have different ones."""
Attributes = Mapping[str, Attribute]
Count = Callable[[tuple[Shape, ...], tuple[Shape, ...]], float]
"""Local operand shapes and result shapes → FLOPs."""
RuleOf = Callable[[tuple[TensorMeta, ...], tuple[TensorMeta, ...], Attributes], ShardingRule]
"""Operands, results and attributes → the rule of an operator on these."""
Parts = tuple[tuple[Node, ShardStrategy], ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """The size of a factor, and into how many shards a strategy cuts it."""

    size: int
    shards: int


Cuts = Mapping[str, Cut]


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """What one rank computes of a node: names, local shapes and its place, for writing the torch expression.

    Parameters
    ----------
    arguments
        Python expressions of the operands.
    operands, results
        Local shapes; all ranks run one text, so a size that differs by rank is an expression of `mesh`.
    sizes
        Local size of every factor.
    start
        Python expression, per factor, of the global index of its first local element; absent if the factor is whole.
    whole
        Global size of every factor, in one microbatch.
    sequences
        Sequences of one microbatch over all ranks.
    layer
        Python expression of the index of the layer that the node is in; 0 outside of layers.
    """

    node: Node
    arguments: tuple[str, ...]
    operands: tuple[tuple[Extent, ...], ...]
    results: tuple[tuple[Extent, ...], ...]
    sizes: Mapping[str, Extent]
    start: Mapping[str, str]
    whole: Mapping[str, int]
    sequences: int
    layer: str = "0"

    def attribute(self, name: str) -> Attribute:
        """Return an attribute of the node."""
        return self.node.attribute(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpDef:
    """One operator.

    Parameters
    ----------
    operands
        Names of its operands in order; a trailing one with `?` is optional.
    infer
        Operand metas and attributes → result metas.
    rule
        Operand metas, result metas and attributes → the factor line.
    flops
        Local operand shapes and result shapes → forward FLOPs (a multiply-add counts 2).
    backward_flops
        The same for backward.
    saved
        Names of operands, `result` or one of `results`, that autograd keeps for backward when the written expression
        runs.
    product
        Whether it is a product, each factor of which autograd keeps only where another one wants a gradient.
    extra_saved
        Local operand shapes and bytes per element → bytes kept besides the named tensors, e.g. fp32 copies.
    saved_per_result
        Bytes kept besides for each element of the results, e.g. indices.
    sparse
        Operands of which only as much is read as the result has elements, e.g. a table that rows are picked from.
    view
        True if the result is another view of the operand's memory, so that nothing runs.
    differentiable
        Operands that receive gradients.
    counts
        For counts that the shapes alone do not give: attributes → forward and backward FLOPs, in place of `flops` and
        `backward_flops`; see `of`.
    matmul
        Whether it runs on the matrix units.
    kernel
        Name under which devices give the efficiency of its kernel; its own name if empty.
    results
        Names of its results, for variables in exported code; empty if it has one that is named like the node.
    layered
        Whether the exported line names the layer.
    torch
        The exported line's right-hand side.
    parts
        For an operator that is a small graph of ordinary ones: node, strategy and how each factor is cut → the parts
        with their strategies. The last part makes the node's results. Empty if the operator is ordinary under this
        strategy.
    """

    name: str
    summary: str
    operands: tuple[str, ...]
    infer: Callable[[tuple[TensorMeta, ...], Attributes], tuple[TensorMeta, ...]]
    rule: RuleOf
    flops: Count
    backward_flops: Count
    saved: tuple[str, ...] = ()
    product: bool = False
    saved_per_result: float = 0.0
    sparse: tuple[str, ...] = ()
    view: bool = False
    differentiable: tuple[str, ...] = ()
    counts: Callable[[Attributes], tuple[Count, Count]] | None = None
    matmul: bool = False
    kernel: str = ""
    results: tuple[str, ...] = ()
    layered: bool = False
    torch: Callable[[Local], str]
    extra_saved: Callable[[tuple[Shape, ...], int], float] = lambda _shapes, _bytes: 0.0
    parts: Callable[[Node, ShardStrategy, Cuts], Parts] = lambda _node, _strategy, _cuts: ()

    def of(self, attributes: Attributes) -> OpDef:
        """Return the operator with the counts that these attributes give it."""
        if self.counts is None:
            return self
        forward, backward = self.counts(attributes)
        return replace(self, flops=forward, backward_flops=backward)

    @property
    def operand_names(self) -> tuple[str, ...]:
        """Operand names without the mark of the optional ones."""
        return _unmarked(self.operands)


@lru_cache(maxsize=1024)
def _unmarked(operands: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.rstrip("?") for name in operands)


def shapes_of(metas: tuple[TensorMeta, ...]) -> tuple[tuple[Size, ...], ...]:
    """Return the shapes of several tensors."""
    return tuple(meta.shape for meta in metas)


def elements(shapes: tuple[Shape, ...]) -> int:
    """Return the number of elements of several tensors together."""
    return sum(prod(shape) for shape in shapes)


def leading(count: int) -> str:
    """Return the names of `count` leading dims, as every rule line writes them."""
    if count <= 3:
        return {0: "", 1: "batch", 2: "batch seq", 3: "batch head seq"}[count]
    return " ".join(["batch", *(f"d{i}" for i in range(1, count))])


def space(count: int) -> tuple[str, ...]:
    """Return the names of the spatial dims of images and the like."""
    return ("z", "y", "x")[3 - count :] if count else ()


def names_of(rank: int) -> list[str]:
    """Return the names of all dims of a stream of activations: the leading ones, and `h` for the last."""
    return [*leading(rank - 1).split(), "h"] if rank else []


def per_element(cost: float) -> Callable[[tuple[Shape, ...], tuple[Shape, ...]], float]:
    """Return a FLOP count of `cost` for each element of the results."""
    return lambda _operands, results: cost * elements(results)


def dim_of(attributes: Attributes, rank: int, name: str = "dim") -> int:
    """Return an attribute that names a dim, counted from the front; the last dim if it is left out."""
    dim = attributes.get(name, -1)
    if not isinstance(dim, int) or not -rank <= dim < rank:
        raise RuleError("rule.dim", f"A tensor of {rank} dims has no dim {dim}.", f"Use {-rank} … {rank - 1}.")
    return dim % rank
