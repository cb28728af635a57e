"""Writes `parallelize.py`, which spreads the model over ranks, and `train.py`, the settings of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...core.assignment import Assembly, TrainingGraph
from ...core.graph import Node
from ...core.plan import Decisions, Precision
from ...core.stage import plain
from ..explicit.lines import WIDTH
from ..explicit.script import feed_lines
from ..explicit.wrap import wrapped
from .sharding import Sharding, mesh_dims
from .spread import Spread
from .tables import Table


def write_parallelize(training: TrainingGraph, spread: Spread, precision: Precision) -> str:
    """Return `parallelize.py`."""
    body = [*_mesh(training, spread.sharding), "", "", *_parallelize(training, spread, precision)]
    lines = [line for table in spread.tables for line in _table(table)]
    functions = "\n".join(body)
    imports = _imports("\n".join([*lines, functions]))
    title = f"How {training.assignment.graph.name} lies on the mesh {training.assignment.mesh}."
    listed = "\n".join(["", *lines, "", "", ""]) if lines else "\n\n"
    return f'"""{title}"""\n\n{imports}\n{listed}{functions}\n'


def _imports(code: str) -> str:
    lines = ["from fnmatch import fnmatch\n"] if "fnmatch(" in code else []
    lines += ["import torch"] if "torch." in code else []
    lines += ["from torch import nn"]
    meshes = [name for name in ("DeviceMesh", "init_device_mesh") if name in code]
    lines.append(f"from torch.distributed.device_mesh import {', '.join(meshes)}")
    fsdp = [name for name in ("FSDPModule", "MixedPrecisionPolicy", "fully_shard") if name in code]
    lines.append(f"from torch.distributed.fsdp import {', '.join(fsdp)}")
    placements = [name for name in ("Replicate", "Shard") if f"{name}(" in code]
    if placements:
        lines.append(f"from torch.distributed.tensor import {', '.join(placements)}")
    known = ("ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleOutput", "RowwiseParallel",
             "SequenceParallel", "parallelize_module")  # fmt: skip
    if styles := [name for name in known if name in code]:
        listed = "".join(f"    {name},\n" for name in styles)
        lines.append(f"from torch.distributed.tensor.parallel import (\n{listed})")
    return "\n".join(lines)


def _table(table: Table) -> Iterator[str]:
    yield f"{table.constant}: dict[str, ParallelStyle] = {{"
    for path, style in table.styles.items():
        yield from wrapped(f'    "{path}": {style},', WIDTH)
    yield "}"


def _mesh(training: TrainingGraph, sharding: Sharding) -> Iterator[str]:
    mesh = training.assignment.mesh
    dims = mesh_dims(sharding, mesh)
    sizes = ", ".join(str(mesh.size_of(axes)) for _, axes in dims)
    names = ", ".join(f'"{name}"' for name, _ in dims)
    comma = "," * (len(dims) == 1)
    order = [axis for _, axes in dims for axis in axes]
    given = [name for name in mesh.names if name in order]
    yield "def device_mesh(device_type: str) -> DeviceMesh:"
    yield '    """Return the mesh of all ranks."""'
    if order == given:
        yield f"    return init_device_mesh(device_type, ({sizes}{comma}), mesh_dim_names=({names}{comma}))"
        return
    yield f"    # The plan counts ranks along {mesh}; tensor parallelism has to be the innermost dim here."
    places = ", ".join(str(given.index(axis)) for axis in order)
    shape = ", ".join(str(mesh.size(axis)) for axis in given)
    yield f"    ranks = torch.arange({mesh.device_count}).view({shape}).permute({places}).reshape({sizes})"
    yield f"    return DeviceMesh(device_type, ranks, mesh_dim_names=({names}{comma}))"


def _parallelize(training: TrainingGraph, spread: Spread, precision: Precision) -> Iterator[str]:
    runs, sharding = training.assignment.assemblies, spread.sharding
    what = "one stage of a model" if sharding.pipeline else "a model"
    yield "def parallelize(model: nn.Module, mesh: DeviceMesh) -> nn.Module:"
    yield f'    """Spread {what}, whose parameters may be on the meta device, over the mesh."""'
    if sharding.pipeline and (spread.tables or spread.everywhere != frozenset(spread.lists)):
        yield "    held = dict(model.named_modules())"
    if sharding.tensor:
        yield f'    {sharding.tensor} = mesh["{sharding.tensor}"]'
        for table in spread.tables:
            yield from _styled(table, sharding)
        if spread.ties:
            yield "    # parallelize_module gave each of the tied modules a parameter of its own."
        for path, tied in spread.ties.items():
            if sharding.pipeline:
                yield f'    if "{path}" in held:'
            indent = "    " * bool(sharding.pipeline)
            yield f'{indent}    model.get_submodule("{path}").weight = model.get_parameter("{tied}")'
    dims = mesh_dims(sharding, training.assignment.mesh)
    names = [name for name, axes in dims if axes not in {(sharding.tensor,), (sharding.pipeline,)}]
    if not sharding.shard:
        yield f"    # Nothing is sharded over the samples' axes: shards of one rank, {_whole(sharding)}."
    yield f"    data = mesh[{', '.join(map(repr, names))}]".replace("'", '"')
    options = ["mesh=data", f"reshard_after_forward={sharding.reshard}"]
    if precision.compute != precision.master:
        yield (
            f"    policy = MixedPrecisionPolicy(param_dtype=torch.{precision.compute}, "
            f"reduce_dtype=torch.{precision.gradient})"
        )
        options.append("mp_policy=policy")
    if sharding.dims:
        homes = {p.parameter.name: assembly for assembly in runs for p in assembly.parameters}
        entries = {
            f'"{pattern_of(sharding.names.get(name, name), homes[name])}": Shard({dim})': None
            for name, dim in sharding.dims
        }
        yield "    # What the ranks do not divide along the first dim."
        yield from wrapped(f"    cuts = {{{', '.join(entries)}}}", WIDTH)
        yield "    placements: dict[nn.Parameter, Shard] = {}"
        yield "    for pattern, cut in cuts.items():"
        yield "        placements |= {p: cut for name, p in model.named_parameters() if fnmatch(name, pattern)}"
        options.append("shard_placement_fn=placements.get")
    for path in spread.lists:
        found = f'model.get_submodule("{path}")' if path in spread.everywhere else f'held.get("{path}", nn.Module())'
        yield f"    for layer in {found}.children():"
        yield f"        fully_shard(layer, {', '.join(options)})"
    yield f"    fully_shard(model, {', '.join(options)})"
    yield "    for module in model.modules():"
    yield "        if isinstance(module, FSDPModule):"
    yield "            # Losses are divided by the targets of all ranks, so gradients are summed and not averaged."
    yield "            module.set_gradient_divide_factor(1.0)"
    yield "            module.set_force_sum_reduction_for_comms(True)"
    yield "    return model"


def _whole(sharding: Sharding) -> str:
    return f"reduced over {' and '.join(sharding.replicate)}" if sharding.replicate else "for their precision"


def _styled(table: Table, sharding: Sharding) -> Iterator[str]:
    """Yield the lines that give modules their styles; a stage gives them to those that it has."""
    axis, constant, layers = sharding.tensor, table.constant, table.layers
    if not table.path:
        given = constant
        if sharding.pipeline:
            given = f"{{path: style for path, style in {constant}.items() if path in held}}"
        yield f"    parallelize_module(model, {axis}, {given})"
        return
    start = f"{layers.first}, " if layers.first or layers.step > 1 else ""
    if table.period == 1:
        step = f", {layers.step}" if layers.step > 1 else ""
        yield f"    for index in range({start}{layers.last + 1}{step}):"
        if sharding.pipeline:
            yield f'        if f"{table.path}.{{index}}" in held:'
            yield f'            parallelize_module(held[f"{table.path}.{{index}}"], {axis}, {constant})'
        else:
            yield f'        parallelize_module(model.get_submodule(f"{table.path}.{{index}}"), {axis}, {constant})'
        return
    yield f"    for index in range({layers.first}, {layers.last + 1}, {table.period}):"
    yield f"        for path, style in {constant}.items():"
    yield '            place, _, inner = path.partition(".")'
    if sharding.pipeline:
        yield f'            if f"{table.path}.{{index + int(place)}}" in held:'
        yield f'                layer = held[f"{table.path}.{{index + int(place)}}"]'
        yield f"                parallelize_module(layer, {axis}, {{inner: style}})"
    else:
        yield f'            layer = model.get_submodule(f"{table.path}.{{index + int(place)}}")'
        yield f"            parallelize_module(layer, {axis}, {{inner: style}})"


def write_train(
    training: TrainingGraph, sharding: Sharding, decisions: Decisions, precision: Precision, loss: Node, root: str, *,
    vocab_sharded: bool,
) -> str:  # fmt: skip
    """Return `train.py`."""
    assignment = training.assignment
    others = {(sharding.tensor,), (sharding.pipeline,)}
    data = tuple(n for n, axes in mesh_dims(sharding, assignment.mesh) if axes and axes not in others)
    starts: dict[str, list[str]] = {"ones": [], "zeros": []}
    for assembly in assignment.assemblies:
        for p in assembly.parameters:
            if p.parameter.initial in starts:
                starts[p.parameter.initial].append(pattern_of(plain(p.parameter.name), assembly))
    fields: Mapping[str, object] = {
        "data": data,
        "samples": decisions.global_batch,
        "microbatches": decisions.microbatches,
        "labels": loss.operands[1],
        "ignored": dict(loss.attributes)["ignore_index"],
        "dtype": precision.master,
        "sync_each": not (sharding.deferred or sharding.pipeline),
        "vocab_sharded": vocab_sharded,
    } | {name: tuple(dict.fromkeys(found)) for name, found in starts.items() if found}
    body = "".join(
        f"    {line}\n"
        for name, value in fields.items()
        for line in wrapped(f"{name}={value!r},".replace("'", '"'), WIDTH)
    )
    spread = "in_stages" if sharding.pipeline else "parallelize"
    imported = "from parallelize import device_mesh"
    imported += "\nfrom pipeline import in_stages\n" if sharding.pipeline else ", parallelize\n"
    return (
        f'"""Train {assignment.graph.name} by the plan in plan.json; the files in launch/ start it."""\n\n'
        f"from model import {root}\n"
        "from parallel.data import Feed\n"
        "from parallel.native import Settings, main\n"
        f"{imported}\n"
        f"MODEL = {root}\n"
        f"SETTINGS = Settings(\n{body}    inputs=(\n{feed_lines(training, decisions)}    ),\n)\n\n"
        'if __name__ == "__main__":\n    main(MODEL, '
        f"{spread}, device_mesh, SETTINGS)\n"
    )


def pattern_of(name: str, assembly: Assembly) -> str:
    """Return a pattern for the names of a parameter in all layers of its list."""
    for top in assembly.templates:
        if assembly.name and name.startswith(f"{top}."):
            return f"{assembly.path}.*{name[len(top) :]}"
    return name
