"""From a module and the shapes that it meets to code on shards, held in memory: trace, cut, plan, write, import."""

from __future__ import annotations

import copy
import linecache
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._pytree import TreeSpec

from ..compose import train
from ..core.graph import ModelSource
from ..core.json_text import digest
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..exporters.explicit import stage_text
from ..exporters.explicit.parts import parts
from ..exporters.explicit.program import outside
from ..exporters.runtime.layout import shard
from ..exporters.runtime.mesh import Mesh
from ..exporters.runtime.parameters import specs_of
from ..hardware import precision as precision_named
from ..importers.aten.build import build
from ..importers.tracing.buffers import to_meta
from ..importers.tracing.outputs import EXIT, trace_outputs
from ..surfaces import read_layout
from .cut import MIDDLE, cut
from .decide import plan_of
from .errors import no_element_type, other_shapes, partial, wrong_inputs, wrong_outputs

INNER = "sharded_module"
"""What the module is called in the code: a name that none of its own modules has, so that paths start with it."""
PRECISION = {torch.float64: "float64", torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
_NUMBERS = count()


class _Holder(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.add_module(INNER, module)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.get_submodule(INNER)(*inputs)


@dataclass(slots=True)
class Part:
    """What is sharded: the module without its parameters' values, and where these lie.

    Parameters
    ----------
    module
        The module; a copy whose tensors take no memory is kept.
    layouts
        Path of a parameter → where it is stored.
    compute
        Element type of its first parameter; None without one.
    """

    module: nn.Module
    grid: DeviceMesh
    mesh: Mesh
    layouts: Mapping[str, Layout]
    compute: torch.dtype | None
    values: dict[str, torch.Tensor] = field(init=False)

    def __post_init__(self) -> None:
        def empty(p: nn.Parameter) -> nn.Parameter:
            return nn.Parameter(torch.empty_like(p, device="meta"), requires_grad=p.requires_grad)

        self.module = _Holder(copy.deepcopy(self.module, {id(p): empty(p) for p in self.module.parameters()}))
        self.values = to_meta(self.module)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """Code for inputs of some shapes.

    Parameters
    ----------
    taken
        Places of the inputs that the code takes, in its order.
    given
        For each output, its place in what the code gives.
    form
        How the module returns its outputs.
    """

    model: nn.Module
    taken: tuple[int, ...]
    given: tuple[int, ...]
    form: TreeSpec


def compile_part(
    part: Part, inputs: tuple[torch.Tensor, ...], in_layouts: tuple[str | Layout | None, ...],
    out_layouts: tuple[str | Layout | None, ...], held: Mapping[str, nn.Parameter], *, training: bool,
) -> Compiled:  # fmt: skip
    """Return the code for these inputs, on the parameters that are held.

    Raises
    ------
    PlannerError
        `shard.inputs`, `shard.outputs`, `shard.shapes`, `shard.partial`, `shard.element-type`, or what tracing and
        planning raise.
    """
    if len(inputs) != len(in_layouts):
        raise wrong_inputs(len(inputs), len(in_layouts))
    lying = tuple(
        _layout(f"input {i}", written, x.dim(), part.grid)
        for i, (x, written) in enumerate(zip(inputs, in_layouts, strict=True))
    )
    shapes = tuple(_whole(x, layout, part.grid) for x, layout in zip(inputs, lying, strict=True))
    _agree(shapes, part.grid)
    compute = part.compute or next((x.dtype for x in inputs if x.is_floating_point()), torch.float32)
    if compute not in PRECISION:
        raise no_element_type(compute)
    examples = {
        f"input_{i}": torch.empty(shape, dtype=x.dtype, device="meta")
        for i, (shape, x) in enumerate(zip(shapes, inputs, strict=True))
    }
    name = type(part.module.get_submodule(INNER)).__name__.lstrip("_")
    traced = trace_outputs(part.module.train(training), examples, name, compute=compute, values=part.values)
    source = ModelSource(name=name, kind="graph", digest=digest(""), content="")
    whole = cut(
        build(traced.program, source, name, fold=False), tuple(EXIT.format(place) for place in range(traced.count))
    )
    if traced.count != len(out_layouts):
        raise wrong_outputs(traced.count, len(out_layouts))
    leaving = tuple(
        _layout(f"output {i}", written, len(shape), part.grid)
        for i, (written, shape) in enumerate(zip(out_layouts, whole.shapes, strict=True))
    )
    named = {f"{INNER}.{path}": layout for path, layout in part.layouts.items()}
    stored = {p.name: named[p.name] for p in whole.graph.root.parameters if p.name in named}
    plan = plan_of(whole, part.grid, lying, leaving, stored, PRECISION[compute])
    trained = train(plan)
    middle = parts(trained)[MIDDLE]
    text, top = stage_text(trained, precision_named(plan.decisions.precision), MIDDLE)
    part.mesh.compute = compute
    part.mesh.device = inputs[0].device if inputs else part.mesh.device
    model = getattr(_imported(text), top)(part.mesh)
    _fill(model, part, held)
    nodes = {received.value: received.node for received in middle.received}
    arriving = [nodes[value] for value, _, _ in middle.training.scopes[0].assembly.inputs]
    order = outside(middle.training)
    return Compiled(
        model=model, form=traced.form, taken=tuple(whole.entries.index(node) for node in arriving),
        given=tuple(order.index(node) for node in whole.exits),
    )  # fmt: skip


def _layout(what: str, written: str | Layout | None, rank: int, grid: DeviceMesh) -> Layout:
    # The size of each dim, as far as reading is concerned, is one that all axes divide.
    layout = (
        Layout.replicated(rank) if written is None else read_layout(str(written), grid, (grid.device_count,) * rank)
    )
    if layout.partial:
        raise partial(what, layout)
    return layout


def _whole(x: torch.Tensor, layout: Layout, grid: DeviceMesh) -> tuple[int, ...]:
    """Return the shape of the whole tensor that a shard is an equal part of."""
    return tuple(size * grid.size_of(axes) for size, axes in zip(x.shape, layout.dims, strict=True))


def _agree(shapes: tuple[tuple[int, ...], ...], grid: DeviceMesh) -> None:
    if grid.device_count == 1:
        return
    found: list[Any] = [None] * grid.device_count
    dist.all_gather_object(found, shapes)
    other = next((each for each in found if each != shapes), None)
    if other is not None:
        raise other_shapes(shapes, other)


def _imported(text: str) -> ModuleType:
    """Return the module of a text, whose runtime modules are those of this package."""
    own = text.replace("\nfrom parallel", f"\nfrom {__package__.rpartition('.')[0]}.exporters.runtime")
    module = ModuleType(f"{__package__}.written_{next(_NUMBERS)}")
    file = f"<{module.__name__}>"
    # So that tracebacks show the lines.
    linecache.cache[file] = (len(own), None, own.splitlines(keepends=True), file)
    exec(compile(own, file, "exec"), module.__dict__)
    return module


@torch.no_grad()
def _fill(model: nn.Module, part: Part, held: Mapping[str, nn.Parameter]) -> None:
    """Put the parameters that are held, and the values of buffers, in the place of the model's own."""
    for path, (_, layout, _) in specs_of(model).items():
        owner, _, name = path.rpartition(".")
        own = path.removeprefix(f"{INNER}.")
        if own in held:
            model.get_submodule(owner)._parameters[name] = held[own]
        else:
            whole = part.values[path].to(part.mesh.device)
            model.get_parameter(path).data = shard(whole, layout, part.mesh)
