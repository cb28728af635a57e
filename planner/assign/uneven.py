"""What unequal parts cost: a diagnostic for every size that is cut into parts of different sizes.

One finding stands for all operators and parameters that cut the same size over the same axes, since they follow each
other. `largest ÷ mean` is how much longer the fullest rank works than it would with equal parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..core.assignment import Assembly, Symbols
from ..core.chunk import lengths
from ..core.mesh import Axes, DeviceMesh
from ..core.symbol import evaluate
from ..errors import Diagnostic

WARNED = 1.1
"""Largest part over mean part from which unequal parts are a warning and no longer a note."""


def uneven(assemblies: Iterable[Assembly], symbols: Symbols, mesh: DeviceMesh) -> tuple[Diagnostic, ...]:
    """Return a `plan.uneven` for every size and axes that do not divide it, with who cuts it."""
    subjects: dict[tuple[int, Axes], dict[str, None]] = {}
    for size, axes, subject in _cuts(assemblies, symbols):
        # Axes of size 1 cut nothing.
        real = tuple(axis for axis in axes if mesh.size(axis) > 1)
        if size % mesh.size_of(real):
            subjects.setdefault((size, real), {})[subject] = None
    return tuple(_finding(size, axes, list(names), mesh) for (size, axes), names in subjects.items())


def _cuts(assemblies: Iterable[Assembly], symbols: Symbols) -> Iterator[tuple[int, Axes, str]]:
    """Yield (size, axes, subject) of every sharded factor, and of every sharded dim of a parameter."""
    for assembly in assemblies:
        for assigned in assembly.nodes:
            node = assigned.node
            sizes = dict(node.rule.sizes)
            for factor, axes in assigned.strategy.factors:
                yield evaluate(sizes[factor], symbols), axes, node.origin or node.name
        for placed in assembly.parameters:
            for layout in (placed.storage, placed.gradient, placed.optimizer):
                for size, axes in zip(placed.parameter.meta.concrete(symbols), layout.dims, strict=True):
                    yield size, axes, placed.parameter.name


def _finding(size: int, axes: Axes, subjects: list[str], mesh: DeviceMesh) -> Diagnostic:
    count = mesh.size_of(axes)
    parts = lengths(size, axes, mesh)
    most, mean = max(parts), size / count
    idle = f"; {parts[0]} of them {'hold' if parts[0] > 1 else 'holds'} nothing" if parts[0] else ""
    named = ", ".join(subjects[:2]) + (f" and {len(subjects) - 2} more" if len(subjects) > 2 else "")
    return Diagnostic(
        code="plan.uneven",
        severity="warning" if most > WARNED * mean else "note",
        subject=subjects[0],
        message=f"{named}: size {size} over {'·'.join(axes)} is cut into {count} unequal parts{idle}. The largest is "
        f"{most}, {most / mean:.3g} times the mean of {mean:.2f}; time and memory count the largest.",
        hint=f"Sizes such as {-(-size // count) * count} have equal parts.",
    )
