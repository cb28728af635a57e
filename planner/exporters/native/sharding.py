"""How `fully_shard` stores parameters, from their layouts over the axes of the samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from ...core.assignment import ParameterLayout, TrainingGraph
from ...core.layout import Layout
from ...core.mesh import Axes, DeviceMesh
from .problems import Problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """What is the same for all parameters.

    Parameters
    ----------
    data
        Axes over which samples are sharded, in the mesh's order.
    replicate, shard
        Those of them over which parameters are copies, and over which they are shards.
    tensor
        The axis of tensor parallelism; None without any.
    reshard
        Whether gathered parameters are dropped after forward.
    deferred
        Whether gradients of microbatches add up before they are reduced.
    dims
        Parameter → the dim that is cut, where that is not the first.
    stored
        Whether the plan stores shards, too; else only gradients and optimizer state are shards (ZeRO-2).
    notes
        Sentences on what fully_shard does in another way than the plan says.
    pipeline
        The axis along which stages lie; None without any.
    names
        Name of a stage's copy of a parameter in the plan → its name in the run.
    """

    data: Axes
    replicate: Axes
    shard: Axes
    tensor: str | None
    reshard: bool
    deferred: bool
    dims: tuple[tuple[str, int], ...]
    stored: bool
    notes: tuple[str, ...]
    pipeline: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)


def axes_of(training: TrainingGraph, pipeline: str | None, problems: Problems) -> tuple[Axes, str | None]:
    """Return the axes over which samples are sharded, and the axis of tensor parallelism.

    Parameters
    ----------
    pipeline
        The axis along which stages lie; None without any.
    """
    assignment = training.assignment
    mesh = assignment.mesh
    layouts = {name: layout for name, _, layout in assignment.assemblies[0].inputs}
    first = {layout.dims[0] for layout in layouts.values() if layout.dims and layout.dims[0]}
    if len(first) > 1:
        listed = ", ".join(f"{name} {layout}" for name, layout in layouts.items())
        problems.add("inputs", f"they are cut in several ways ({listed}); here all are cut along their first dim alike")
    data = max(first, default=())
    for name, layout in layouts.items():
        if any(layout.dims[1:]):
            problems.add(name, f"it is fed as {layout}; here only its first dim is cut")
    others = tuple(name for name, size in mesh.axes if size > 1 and name not in {*data, pipeline})
    if len(others) > 1:
        problems.add(str(mesh), f"the axes {' and '.join(others)} hold no samples; styles take one axis of tensor "
                     "parallelism")  # fmt: skip
    if others and not _used(training, others[0]):
        problems.add(others[0], "nothing is sharded over it")
    return tuple(axis for axis in mesh.names if axis in data), others[0] if others else None


def _used(training: TrainingGraph, axis: str) -> bool:
    return any(axis in axes for a in training.assignment.assemblies for n in a.nodes for _, axes in n.strategy.factors)


def find_sharding(training: TrainingGraph, data: Axes, tensor: str | None, problems: Problems) -> Sharding:
    """Return how parameters are sharded over the axes of the samples."""
    mesh = training.assignment.mesh
    placed = [p for a in training.assignment.assemblies for p in a.parameters]
    fanouts = {f.value: f for scope in training.scopes for f in scope.fanouts if f.kind == "parameter"}
    held = list(_held(placed, data, problems))
    weight: Counter[Axes] = Counter()
    for p, axes in held:
        weight[axes] += prod(p.parameter.meta.concrete(training.assignment.symbols))
    shard = max(weight, key=lambda axes: (weight[axes], axes), default=())
    notes = []
    for p, axes in held:
        if axes != shard:
            size = p.parameter.meta.concrete(training.assignment.symbols)[:1]
            if axes or (size and size[0] % mesh.size_of((*shard, *p.gradient.dims[0])) == 0):
                problems.add(p.parameter.name, f"its gradient is sharded over {'·'.join(axes) or 'nothing'}, most "
                             f"others over {'·'.join(shard) or 'nothing'}; fully_shard treats all alike")  # fmt: skip
            else:
                notes.append(f"{p.parameter.name}, which the plan keeps whole, is padded and sharded like the others.")
    trained = [fanouts[p.parameter.name] for p, _ in held if p.parameter.name in fanouts]
    stored = any(_data_dims(p.storage, data) for p, _ in held)
    return Sharding(
        data=data, replicate=tuple(axis for axis in data if axis not in shard), shard=shard, tensor=tensor,
        reshard=_same("dropped after forward", [(f.value, f.regather) for f in trained if f.source.dims], problems)
        if stored else False,
        deferred=_same("reduced once a step", [(f.value, f.deferred) for f in trained], problems),
        dims=tuple((p.parameter.name, dim) for p, _ in held if (dim := _cut_dim(p.gradient, data)) > 0),
        stored=stored, notes=tuple(notes),
    )  # fmt: skip


def _held(placed: list[ParameterLayout], data: Axes, problems: Problems) -> Iterator[tuple[ParameterLayout, Axes]]:
    """Yield every parameter with the axes of the samples that shard its gradient."""
    for p in placed:
        name = p.parameter.name
        if not p.parameter.trainable:
            problems.add(name, "it is not trained; fully_shard and the optimizer take all parameters alike")
            continue
        if "host" in {p.place, p.optimizer_place}:
            problems.add(name, f"it lies on the {p.place} and its optimizer state on the {p.optimizer_place}; this "
                         "form keeps both on the device")  # fmt: skip
        axes = _data_dims(p.gradient, data)
        if _data_dims(p.optimizer, data) != axes:
            problems.add(name, f"its gradient lies as {p.gradient} and its optimizer state as {p.optimizer}; "
                         "fully_shard shards both alike (the preset zero2 does)")  # fmt: skip
        if _data_dims(p.storage, data) not in ((), axes):
            problems.add(name, f"it is stored as {p.storage} and its gradient as {p.gradient}; fully_shard shards "
                         "both alike")  # fmt: skip
        for layout in (p.storage, p.gradient):
            cut = [dim for dim in layout.dims if set(dim) & set(data)]
            if len(cut) > 1 or any(axis not in data for dim in cut for axis in dim[-len(axes) :]):
                problems.add(name, f"it lies as {layout}; fully_shard cuts one dim, within the shards of tensor "
                             "parallelism")  # fmt: skip
        yield p, axes


def _data_dims(layout: Layout, data: Axes) -> Axes:
    return tuple(axis for dim in layout.dims for axis in dim if axis in data)


def _cut_dim(layout: Layout, data: Axes) -> int:
    """Return the dim that axes of the samples cut; -1 if they cut none."""
    return next((dim for dim, axes in enumerate(layout.dims) if set(axes) & set(data)), -1)


def _same(what: str, flags: list[tuple[str, bool]], problems: Problems) -> bool:
    """Return the flag that all have."""
    values = {flag for _, flag in flags}
    if len(values) > 1:
        odd = Counter(flag for _, flag in flags).most_common()[-1][0]
        name = next(name for name, flag in flags if flag == odd)
        problems.add(name, f"it is {'' if odd else 'not '}{what}, unlike others; fully_shard treats all alike")
    return max(values, default=False)


def mesh_dims(sharding: Sharding, mesh: DeviceMesh) -> list[tuple[str, Axes]]:
    """Return the dims of the run's mesh, outermost first, each with the plan's axes that it is made of.

    `fully_shard` has a dim to shard over even where nothing is sharded: one of size 1.
    """
    dims: list[tuple[str, Axes]] = [(sharding.pipeline, (sharding.pipeline,))] if sharding.pipeline else []
    dims += [("_".join(sharding.replicate), sharding.replicate)] if sharding.replicate else []
    dims.append(("_".join(sharding.shard) or "shard", sharding.shard))
    return [*dims, *([(sharding.tensor, (sharding.tensor,))] if sharding.tensor else [])]
