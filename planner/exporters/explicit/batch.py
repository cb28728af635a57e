"""Whether code that was written for microbatches of one size also runs on others.

A line holds local sizes as numbers. It runs on any microbatch if it comes out the same for twice as many samples; the
steps of a redistribution do where they cut equal parts, and those of boxes name the shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from ...core.assignment import AssignedNode, Fanout, Symbols, TrainingGraph
from ...core.collective import Step
from ...core.symbol import Polynomial, Size
from ...ops import OPS
from .local import local_of
from .steps import call

BATCH = "B"


def batch_multiple(training: TrainingGraph) -> int | None:
    """Return what the number of samples of a microbatch must be a multiple of; None if it must be the planned one."""
    assignment = training.assignment
    mesh, symbols = assignment.mesh, assignment.symbols
    samples = dict(symbols).get(BATCH, 1)
    several = frozenset({**dict(symbols), BATCH: 2 * samples}.items())
    multiple = 1
    for scope in training.scopes:
        for assigned in scope.assembly.nodes:
            for factor, size in assigned.node.rule.sizes:
                if has_batch(size):
                    multiple = lcm(multiple, mesh.size_of(assigned.strategy.axes(factor)))
            if _line(assigned, symbols, training) != _line(assigned, several, training):
                return None
        for fanout in scope.fanouts:
            dims = [dim for dim, size in enumerate(fanout.meta.shape) if has_batch(size)]
            for step in _steps(fanout) if dims else ():
                if "shape=" in call(step, mesh):
                    return None
                cut = [layout.dims[dim] for layout in (step.source, step.target) for dim in dims]
                multiple = lcm(multiple, *map(mesh.size_of, cut))
    return None if samples % multiple else multiple


def has_batch(size: Size) -> bool:
    """Return whether a size depends on the number of samples."""
    return isinstance(size, Polynomial) and any(BATCH in names for names, _ in size.terms)


def _line(assigned: AssignedNode, symbols: Symbols, training: TrainingGraph) -> str:
    node = assigned.node
    names = tuple(f"x{place}" for place in range(len(node.operands)))
    return OPS[node.op].torch(local_of(node, assigned.strategy, names, symbols, training.assignment.mesh))


def _steps(fanout: Fanout) -> Iterator[Step]:
    for delivery in (*fanout.forward, *fanout.backward):
        yield from delivery.redistribution.steps
