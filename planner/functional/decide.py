"""Layouts of inputs, outputs and parameters → a plan.

A parameter's layout is where it is stored. Its axes also shard the factors of the operator that reads it, apart from
those over which samples are shared out: over these it is gathered before it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..assign.follow import follow
from ..core.graph import Node
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..core.plan import Decisions, FactorDecision, ParameterDecision
from ..core.symbol import evaluate
from ..hardware import cluster_name
from ..plan import Plan
from .cut import Cut


def plan_of(
    whole: Cut, mesh: DeviceMesh, inputs: tuple[Layout, ...], outputs: tuple[Layout, ...],
    parameters: Mapping[str, Layout], precision: str,
) -> Plan:  # fmt: skip
    """Return the plan of a graph that was cut out.

    Parameters
    ----------
    parameters
        Name of a parameter in the graph → where it is stored.
    """
    nodes = {node.name: node for node in whole.graph.root.nodes}
    shared = frozenset(axis for layout in inputs for axis in (layout.dims[0] if layout.dims else ()))
    factors = [d for node in nodes.values() for d in _operator(node, parameters, shared, mesh)]
    wires = zip((*whole.entries, *whole.exits), (*inputs, *outputs), strict=True)
    factors += [d for name, layout in wires for d in _wire(nodes[name], layout)]
    stored = tuple(ParameterDecision(target=name, layout=layout) for name, layout in parameters.items())
    return Plan(
        graph=whole.graph,
        decisions=Decisions(
            cluster=cluster_name(mesh.device_count), mesh=mesh, global_batch=1, seq=0, microbatches=1,
            precision=precision, factors=tuple(factors), parameters=stored,
        ),
    )  # fmt: skip


def _wire(node: Node, layout: Layout) -> list[FactorDecision]:
    """Return the decisions by which a value lies on its way as it is said to."""
    dims = zip(node.rule.results[0], layout.dims, strict=True)
    return [FactorDecision(target=node.name, factor=dim[0], axes=axes) for dim, axes in dims if dim]


def _operator(
    node: Node, parameters: Mapping[str, Layout], shared: frozenset[str], mesh: DeviceMesh
) -> list[FactorDecision]:
    read = {
        position: _without(parameters[name], shared)
        for position, name in enumerate(node.operands)
        if name in parameters
    }
    sizes = {factor: evaluate(size, frozenset()) for factor, size in node.rule.sizes}
    found = follow(node.rule, read, {}, sizes, mesh)
    return [FactorDecision(target=node.name, factor=factor, axes=axes) for factor, axes in found.items() if axes]


def _without(layout: Layout, axes: frozenset[str]) -> Layout:
    return replace(layout, dims=tuple(tuple(axis for axis in dim if axis not in axes) for dim in layout.dims))
