"""What one rank computes: every assigned node with the local shapes of its operands and results.

A scope stands for `count` layers and is worked out once, so nothing here grows with the number of layers or of ranks.
The rank is the one at coordinate 0 of every axis: of sizes that do not divide it has the largest parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ..core.assignment import Assembly, Symbols, TrainingGraph
from ..core.graph import Block, ModelGraph, Node
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..core.plan import Precision
from ..core.tensor import DTYPE_BYTES, TensorMeta
from ..ops import OPS, OpDef


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTensor:
    """A tensor as the rank with the largest part holds it; `even` if all ranks hold as much."""

    name: str
    layout: Layout
    shape: tuple[int, ...]
    itemsize: int
    even: bool = True

    @property
    def elements(self) -> int:
        """Number of local elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Local bytes."""
        return prod(self.shape) * self.itemsize

    def __str__(self) -> str:
        return f"{self.layout}" + ("" if self.even else " (largest part)")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWork:
    """One assigned node on the rank with the largest parts.

    Parameters
    ----------
    scope
        Index of its assembly.
    title
        Name of the scope for people, empty for what is outside the layers.
    count
        Number of layers that the scope stands for.
    gradients
        Positions of the operands that receive a gradient; none if the node has no backward.
    segment
        The segment that it is in (`core.segments`); empty if what it keeps stays until backward.
    repeated
        Whether it runs once more in backward.
    """

    scope: int
    title: str
    count: int
    node: Node
    op: OpDef
    operands: tuple[LocalTensor, ...]
    results: tuple[LocalTensor, ...]
    gradients: tuple[int, ...]
    segment: str = ""
    repeated: bool = False

    @property
    def shapes(self) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
        """Local shapes of operands and of results, as the functions of `OpDef` take them."""
        return tuple(t.shape for t in self.operands), tuple(t.shape for t in self.results)

    @property
    def even(self) -> bool:
        """Whether every rank has as much to do."""
        return all(tensor.even for tensor in (*self.operands, *self.results))

    @property
    def saved(self) -> tuple[LocalTensor, ...]:
        """Operands and results that autograd keeps for this node's backward."""
        if not self.gradients:
            return ()
        # An optional operand that is left out has a name and no tensor.
        named = dict(zip(self.op.operand_names, self.operands, strict=False))
        named["result"] = self.results[0]
        named.update(zip(self.op.results, self.results, strict=False))
        return tuple(named[name] for name in self.op.saved if name in named)

    @property
    def extra_saved_bytes(self) -> float:
        """Bytes that autograd keeps besides the named tensors."""
        if not self.gradients:
            return 0.0
        per_result = self.op.saved_per_result * sum(result.elements for result in self.results)
        return self.op.extra_saved(self.shapes[0], self.results[0].itemsize) + per_result

    @property
    def backward_flops(self) -> float:
        """FLOPs of backward: of a product, no gradient is made for an operand that wants none, such as an input."""
        flops, both = self.op.flops(*self.shapes), self.op.backward_flops(*self.shapes)
        return both - flops * _unwanted(self.op, self.gradients, both, flops)


def _unwanted(op: OpDef, gradients: Iterable[int], both: float, flops: float) -> int:
    """Return for how many operands of a product no gradient is made; each would take as much as forward."""
    if not op.matmul or both != 2 * flops:
        return 0
    return len({0, 1}.difference(gradients))


def itemsize(dtype: str, precision: Precision) -> int:
    """Return the bytes of an element; `compute` and `gradient` stand for what the precision says."""
    named = {"compute": precision.compute, "gradient": precision.gradient}
    return DTYPE_BYTES[named.get(dtype, dtype)]


def node_works(training: TrainingGraph, precision: Precision) -> tuple[NodeWork, ...]:
    """Return the work of every assigned node, scope by scope."""
    assignment = training.assignment
    root = _root_metas(assignment.graph)
    gradient_slots = {
        (reader.scope, reader.node, reader.operand)
        for scope in training.scopes
        for fanout in scope.fanouts
        for reader in fanout.readers
        if reader.raw is not None
    }
    works = []
    for index, scope in enumerate(training.scopes):
        metas = _metas(scope.assembly, root)

        def local(name: str, layout: Layout, metas: Mapping[str, TensorMeta] = metas) -> LocalTensor:
            meta = metas[name]
            size = itemsize(meta.dtype, precision)
            lying, shape, even = _lying(meta, layout, assignment.symbols, assignment.mesh)
            return LocalTensor(name=name, layout=lying, shape=shape, itemsize=size, even=even)

        for assigned in scope.assembly.nodes:
            node = assigned.node
            operands = zip(node.operands, assigned.operands, strict=True)
            results = zip(node.results, assigned.results, strict=True)
            positions = range(len(node.operands))
            works.append(
                NodeWork(
                    scope=index,
                    title=scope.assembly.title,
                    count=scope.assembly.count,
                    node=node,
                    op=OPS[node.op].of(dict(node.attributes)),
                    operands=tuple(local(name, layout) for name, layout in operands),
                    results=tuple(local(value.name, layout) for value, layout in results),
                    gradients=tuple(i for i in positions if (index, node.name, i) in gradient_slots),
                    segment=assigned.segment,
                    repeated=node.name in scope.repeated,
                )
            )
    return tuple(works)


@lru_cache(maxsize=4096)
def _lying(
    meta: TensorMeta, layout: Layout, symbols: Symbols, mesh: DeviceMesh
) -> tuple[Layout, tuple[int, ...], bool]:
    """Return the layout without axes of size 1, the largest local shape, and whether all ranks hold as much."""
    whole = meta.concrete(symbols)
    return layout.normal(mesh), layout.local_shape(whole, mesh), layout.even(whole, mesh)


def model_flops(training: TrainingGraph) -> float:
    """Return the FLOPs of forward and backward of the whole, unsharded model on one microbatch.

    Each operator counts as its `OpDef` says (causal attention skips what it masks); nothing that sharding adds and
    nothing that is computed twice is in it: the numerator of MFU as in Chowdhery et al. 2022 (PaLM), appendix B.
    """
    graph, symbols = training.assignment.graph, training.assignment.symbols
    still = _still(graph.root, {value.name for value in graph.root.inputs})
    total = _block_flops(graph.root, _root_metas(graph), symbols, still)
    for repeat in graph.root.repeats:
        # What is carried depends on parameters, at the latest after one iteration.
        pairs = list(zip(repeat.block.inputs, repeat.operands, strict=True))[len(repeat.results) :]
        outer = {inner.name for inner, name in pairs if name in still}
        inner_still = _still(repeat.block, outer)
        total += repeat.count * _block_flops(repeat.block, _block_metas(repeat.block), symbols, inner_still)
    return total


def _still(block: Block, known: set[str]) -> frozenset[str]:
    """Return the values of a block that no parameter is in, so that no gradient is made for them."""
    still = set(known)
    for node in block.nodes:
        if still.issuperset(node.operands):
            still |= {value.name for value in node.results}
    return frozenset(still)


def _block_flops(
    block: Block, metas: Mapping[str, TensorMeta], symbols: frozenset[tuple[str, int]], still: frozenset[str]
) -> float:
    total = 0.0
    for node in block.nodes:
        op = OPS[node.op].of(dict(node.attributes))
        operands = tuple(metas[name].concrete(symbols) for name in node.operands)
        results = tuple(value.meta.concrete(symbols) for value in node.results)
        flops = op.flops(operands, results)
        wanted = [i for i, name in enumerate(node.operands) if name not in still]
        total += flops
        if op.differentiable and wanted:
            both = op.backward_flops(operands, results)
            total += both - flops * _unwanted(op, wanted, both, flops)
    return total


def _block_metas(block: Block) -> dict[str, TensorMeta]:
    metas = {value.name: value.meta for value in block.inputs}
    metas.update({parameter.name: parameter.meta for parameter in block.parameters})
    metas.update({value.name: value.meta for node in block.nodes for value in node.results})
    return metas


def _root_metas(graph: ModelGraph) -> dict[str, TensorMeta]:
    metas = _block_metas(graph.root)
    metas.update({value.name: value.meta for repeat in graph.root.repeats for value in repeat.results})
    return metas


def _metas(assembly: Assembly, root: Mapping[str, TensorMeta]) -> dict[str, TensorMeta]:
    """Return the metas of all that the nodes of a scope read and make.

    What a run captures comes from outside; the nodes of the scope come from the assembly and not from the model, since
    an operator may have been replaced by its parts.
    """
    metas = dict(root) if not assembly.name else {i: root[o] for i, o in captured(assembly)}
    metas.update({name: meta for name, meta, _ in assembly.inputs})
    metas.update({p.parameter.name: p.parameter.meta for p in assembly.parameters})
    metas.update({value.name: value.meta for a in assembly.nodes for value in a.node.results})
    return metas


def captured(assembly: Assembly) -> Iterable[tuple[str, str]]:
    """Return the pairs (inner name, outer name) of what a run reads from outside in every layer alike."""
    carried = {inner for inner, _ in assembly.carried}
    return tuple((inner, outer) for inner, outer in assembly.operands if inner not in carried)
