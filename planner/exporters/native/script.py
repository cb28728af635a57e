"""Writes `parallelize.py`, which spreads the model over ranks, and `train.py`, the settings of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...core.assignment import Assembly, TrainingGraph
from ...core.graph import Node
from ...core.plan import Decisions, Precision
from ..explicit.lines import WIDTH
from ..explicit.script import feed_lines
from ..explicit.wrap import wrapped
from .modules import TorchModule
from .sharding import Sharding, mesh_dims
from .styles import Style, Styles


def write_parallelize(
    training: TrainingGraph, styles: Styles, sharding: Sharding, modules: Mapping[str, TorchModule],
    precision: Precision,
) -> str:  # fmt: skip
    """Return `parallelize.py`."""
    runs = training.assignment.assemblies
    plans = {index: found for index, found in styles.scopes.items() if found}
    body = [*_mesh(training, sharding), "", "", *_parallelize(training, sharding, modules, precision, plans)]
    tables = [line for index, found in plans.items() for line in _table(runs[index], found)]
    functions = "\n".join(body)
    imports = _imports("\n".join([*tables, functions]))
    title = f"How {training.assignment.graph.name} lies on the mesh {training.assignment.mesh}."
    listed = "\n".join(["", *tables, "", "", ""]) if tables else "\n\n"
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


def _table(assembly: Assembly, found: Mapping[str, Style]) -> Iterator[str]:
    yield f"{_constant(assembly)}: dict[str, ParallelStyle] = {{"
    for path, style in found.items():
        yield from wrapped(f'    "{_inner(path, assembly)}": {style},', WIDTH)
    yield "}"


def _constant(assembly: Assembly) -> str:
    words = assembly.title.replace(".", "_").replace("-", "_").replace("+", "_").upper()
    return f"{words or 'MODEL'}_PLAN"


def _inner(path: str, assembly: Assembly) -> str:
    """Return a module's path below the layer; of an iteration of several layers, with the layer's place in front."""
    if not assembly.name:
        return path
    place, top = next((i, top) for i, top in enumerate(assembly.templates) if path == top or path.startswith(f"{top}."))
    inner = path[len(top) + 1 :]
    return f"{place}.{inner}" if assembly.period > 1 else inner


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


def _parallelize(
    training: TrainingGraph, sharding: Sharding, modules: Mapping[str, TorchModule], precision: Precision,
    plans: Mapping[int, Mapping[str, Style]],
) -> Iterator[str]:  # fmt: skip
    runs = training.assignment.assemblies
    yield "def parallelize(model: nn.Module, mesh: DeviceMesh) -> nn.Module:"
    yield '    """Spread a model, whose parameters may be on the meta device, over the mesh."""'
    if sharding.tensor:
        yield f'    {sharding.tensor} = mesh["{sharding.tensor}"]'
        for index in sorted(plans):
            yield from _styled(runs[index], sharding.tensor)
        tied = [found for found in modules.values() if found.tied]
        if tied:
            yield "    # parallelize_module gave each of the tied modules a parameter of its own."
        for found in tied:
            yield f'    model.get_submodule("{found.path}").weight = model.get_parameter("{found.tied}")'
    dims = mesh_dims(sharding, training.assignment.mesh)
    names = [name for name, axes in dims if axes != (sharding.tensor,)]
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
        entries = {f'"{_pattern(name, homes[name])}": Shard({dim})': None for name, dim in sharding.dims}
        yield "    # What the ranks do not divide along the first dim."
        yield from wrapped(f"    cuts = {{{', '.join(entries)}}}", WIDTH)
        yield "    placements: dict[nn.Parameter, Shard] = {}"
        yield "    for pattern, cut in cuts.items():"
        yield "        placements |= {p: cut for name, p in model.named_parameters() if fnmatch(name, pattern)}"
        options.append("shard_placement_fn=placements.get")
    for path in dict.fromkeys(run.path for run in runs[1:]):
        yield f'    for layer in model.get_submodule("{path}").children():'
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


def _styled(assembly: Assembly, axis: str) -> Iterator[str]:
    constant = _constant(assembly)
    if not assembly.name:
        yield f"    parallelize_module(model, {axis}, {constant})"
        return
    layers = assembly.layers
    start = f"{layers.first}, " if layers.first or layers.step > 1 else ""
    if assembly.period == 1:
        step = f", {layers.step}" if layers.step > 1 else ""
        yield f"    for index in range({start}{layers.last + 1}{step}):"
        yield f'        parallelize_module(model.get_submodule(f"{assembly.path}.{{index}}"), {axis}, {constant})'
        return
    yield f"    for index in range({layers.first}, {layers.last + 1}, {assembly.period}):"
    yield f"        for path, style in {constant}.items():"
    yield '            place, _, inner = path.partition(".")'
    yield f'            layer = model.get_submodule(f"{assembly.path}.{{index + int(place)}}")'
    yield f"            parallelize_module(layer, {axis}, {{inner: style}})"


def write_train(
    training: TrainingGraph, styles: Styles, sharding: Sharding, decisions: Decisions, precision: Precision,
    loss: Node, root: str,
) -> str:  # fmt: skip
    """Return `train.py`."""
    assignment = training.assignment
    data = tuple(n for n, axes in mesh_dims(sharding, assignment.mesh) if axes and axes != (sharding.tensor,))
    starts: dict[str, list[str]] = {"ones": [], "zeros": []}
    for assembly in assignment.assemblies:
        for p in assembly.parameters:
            if p.parameter.initial in starts:
                starts[p.parameter.initial].append(_pattern(p.parameter.name, assembly))
    fields: Mapping[str, object] = {
        "data": data,
        "samples": decisions.global_batch,
        "microbatches": decisions.microbatches,
        "labels": loss.operands[1],
        "ignored": dict(loss.attributes)["ignore_index"],
        "dtype": precision.master,
        "sync_each": not sharding.deferred,
        "vocab_sharded": styles.loss_parallel,
    } | {name: tuple(dict.fromkeys(found)) for name, found in starts.items() if found}
    body = "".join(
        f"    {line}\n"
        for name, value in fields.items()
        for line in wrapped(f"{name}={value!r},".replace("'", '"'), WIDTH)
    )
    return (
        f'"""Train {assignment.graph.name} by the plan in plan.json; the files in launch/ start it."""\n\n'
        f"from model import {root}\n"
        "from parallel.data import Feed\n"
        "from parallel.native import Settings, main\n"
        "from parallelize import device_mesh, parallelize\n\n"
        f"MODEL = {root}\n"
        f"SETTINGS = Settings(\n{body}    inputs=(\n{feed_lines(training, decisions)}    ),\n)\n\n"
        'if __name__ == "__main__":\n    main(MODEL, parallelize, device_mesh, SETTINGS)\n'
    )


def _pattern(name: str, assembly: Assembly) -> str:
    """Return a pattern for the names of a parameter in all layers of its list."""
    for top in assembly.templates:
        if assembly.name and name.startswith(f"{top}."):
            return f"{assembly.path}.*{name[len(top) :]}"
    return name
