"""What a preset adds to decisions: its axes join those that the same factors of the model already have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import gcd
from typing import TypeVar

from ..assign import sample_factors, span
from ..core.graph import ModelGraph
from ..core.mesh import Axes, DeviceMesh
from ..core.plan import Decisions, FactorDecision, Preset, RecomputeDecision
from ..core.symbol import evaluate
from ..errors import PlannerError
from ..presets import PRESETS
from .edits import recomputed, replaced, split

__all__ = ["with_preset"]

Named = TypeVar("Named", FactorDecision, RecomputeDecision)


def with_preset(
    graph: ModelGraph, decisions: Decisions, name: str, axes: Mapping[str, str | Iterable[str]]
) -> Decisions:
    """Return the decisions with those of a preset.

    Raises
    ------
    PlannerError
        `plan.preset-unknown`, `plan.preset-axes`, `plan.no-samples`, `mesh.axis-unknown`.
    """
    if name not in PRESETS:
        raise PlannerError("plan.preset-unknown", f"There is no preset {name!r}.", f"Use one of: {', '.join(PRESETS)}.")
    preset = PRESETS[name]
    if set(axes) != set(preset.axes):
        raise PlannerError(
            "plan.preset-axes",
            f"Preset {name!r} takes {', '.join(preset.axes) or 'no axes'}; got {', '.join(axes) or 'nothing'}.",
            f"Write {name}({', '.join(f'{axis}=…' for axis in preset.axes)}).",
        )
    for open_axis, factor in preset.align:
        decisions = _aligned(graph, decisions, axes[open_axis], factor)
    given = {key: _resolved(decisions.mesh, value) for key, value in axes.items()}
    for open_axis, factor in preset.align:
        given[f"{open_axis}.major"] = _major(graph, decisions.mesh, given[open_axis], factor)
    return _applied(graph, decisions, preset, given)


def _applied(graph: ModelGraph, decisions: Decisions, preset: Preset, given: Mapping[str, Axes]) -> Decisions:
    def filled(axes: Axes) -> Axes:
        return tuple(name for axis in axes for name in given[axis])

    factors = decisions.factors
    # With none of the targets in the model, all are kept, and said to name nothing.
    for template in (*_sampled(graph, preset), *(_named(graph, preset.factors) or preset.factors)):
        before = next(
            (d.axes for d in reversed(factors) if (d.target, d.factor) == (template.target, template.factor)), ()
        )
        added = tuple(axis for axis in filled(template.axes) if axis not in before)
        factors = replaced(factors, [replace(template, axes=before + added)])
    parameters = (replace(p, axes=filled(p.axes)) for p in preset.parameters)
    decisions = replace(decisions, factors=factors, parameters=(*decisions.parameters, *parameters))
    for decision in _named(graph, preset.recompute) or preset.recompute:
        decisions = recomputed(graph, decisions, decision.target, decision.again)
    return decisions


def _sampled(graph: ModelGraph, preset: Preset) -> tuple[FactorDecision, ...]:
    """Return the decisions that shard the samples; an error when the model leaves none to be sharded."""
    if not preset.samples:
        return ()
    places = sample_factors(graph)
    if not places:
        raise PlannerError(
            "plan.no-samples", f"{graph.name} fixes its batch, so {preset.name} can't share it out.",
            "Load the model with an open batch, or shard something else.",
        )  # fmt: skip
    return tuple(FactorDecision(target=target, factor=factor, axes=preset.samples) for target, factor in places)


def _named(graph: ModelGraph, decisions: tuple[Named, ...]) -> tuple[Named, ...]:
    """Return the decisions that name a node of the model."""
    names = [node.name for block in graph.blocks for node in block.nodes]
    return tuple(d for d in decisions if any(span(d.target, name) is not None for name in names))


def _resolved(mesh: DeviceMesh, axes: str | Iterable[str]) -> Axes:
    """Return mesh axes for what the caller names; an axis that was split stands for its parts."""
    names: list[str] = []
    for axis in (axes,) if isinstance(axes, str) else axes:
        parts = [n for n in mesh.names if re.fullmatch(rf"{re.escape(axis)}\d+", n)]
        if axis not in mesh.names and not parts:
            mesh.size(axis)
        names += [axis] if axis in mesh.names else parts
    return tuple(names)


def _aligned(graph: ModelGraph, decisions: Decisions, axes: str | Iterable[str], factor: str) -> Decisions:
    """Split the axis that only partly divides `factor`, so that one part does and the other is a rest."""
    left = _size(graph, factor)
    for axis in _resolved(decisions.mesh, axes):
        size = decisions.mesh.size(axis)
        shared = gcd(left, size)
        if shared not in {1, size}:
            return split(decisions, axis, (shared, size // shared))
        left //= shared
    return decisions


def _major(graph: ModelGraph, mesh: DeviceMesh, axes: Axes, factor: str) -> Axes:
    """Return the leading axes whose sizes divide the factor."""
    left, found = _size(graph, factor), []
    for axis in axes:
        size = mesh.size(axis)
        if left % size:
            break
        left //= size
        found.append(axis)
    return tuple(found)


def _size(graph: ModelGraph, factor: str) -> int:
    """Return the size of a factor that means the same all over the model, such as key/value groups."""
    sizes = {
        evaluate(size, frozenset())
        for block in graph.blocks
        for node in block.nodes
        for name, size in node.rule.sizes
        if name == factor
    }
    return gcd(*sizes) if sizes else 0
