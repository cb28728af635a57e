"""The module that stands in for the one that is sharded: parameters as shards, and code for each shape it meets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._pytree import tree_unflatten

from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..exporters.runtime.layout import shard as shard_of
from ..exporters.runtime.mesh import Mesh
from ..surfaces import read_layout
from .errors import no_tensor, partial, unknown_parameter, wrong_mesh
from .program import Compiled, Part, compile_part

Written = str | Layout | None


def sharded(
    module: Callable[..., Any], in_layouts: tuple[Written, ...], out_layouts: tuple[Written, ...],
    parameter_plan: Mapping[str, str | Layout], mesh: Mapping[str, int] | DeviceMesh | str,
) -> ShardedModule:  # fmt: skip
    """Return what `planner.shard` does."""
    grid = DeviceMesh.parse(mesh) if isinstance(mesh, str) else mesh
    grid = grid if isinstance(grid, DeviceMesh) else DeviceMesh.of(grid)
    ranks = dist.get_world_size() if dist.is_initialized() else 1
    if ranks != grid.device_count:
        raise wrong_mesh(str(grid), grid.device_count, ranks)
    part = module if isinstance(module, nn.Module) else _Function(module)
    return ShardedModule(part, in_layouts, out_layouts, parameter_plan, grid)


class _Function(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Return what the function does."""
        return self.function(*inputs)


class ShardedModule(nn.Module):
    """A module on shards; made by `planner.shard`.

    Parameters
    ----------
    module
        The module with whole parameters; its tensors are read and let go.
    in_layouts, out_layouts
        Layouts as written; None for a whole copy.
    parameter_plan
        Path or pattern → layout.
    """

    def __init__(
        self, module: nn.Module, in_layouts: tuple[Written, ...], out_layouts: tuple[Written, ...],
        parameter_plan: Mapping[str, str | Layout], grid: DeviceMesh,
    ) -> None:  # fmt: skip
        super().__init__()
        self.training = module.training
        named = dict(module.named_parameters(remove_duplicate=False))
        layouts = _layouts(parameter_plan, named, grid)
        first = next(iter(named.values()), None)
        runtime = Mesh({name: grid.size(name) for name in grid.names}, first.device if first is not None else "cpu")
        self._compiled: dict[object, Compiled] = {}
        self._written = in_layouts, out_layouts
        made: dict[int, nn.Parameter] = {}
        for path, whole in named.items():
            if id(whole) not in made:
                # Shards of a tied parameter are tied; its first name says where it lies.
                local = shard_of(whole.detach(), str(layouts[path]), runtime)
                made[id(whole)] = nn.Parameter(local, requires_grad=whole.requires_grad)
            _put(self, path, made[id(whole)])
        self._part = Part(module, grid, runtime, layouts, first.dtype if first is not None else None)

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Return this rank's shards of the outputs, in the form in which the module returns them.

        Parameters
        ----------
        inputs
            This rank's shards; where an axis shards a dim, every rank along it holds as much.

        Raises
        ------
        PlannerError
            `shard.inputs`, `shard.outputs`, `shard.shapes`, `shard.partial`, or what tracing and planning raise.
        """
        for place, each in enumerate(inputs):
            if not isinstance(each, torch.Tensor):
                raise no_tensor(place, type(each).__name__)
        key = self.training, tuple((tuple(x.shape), x.dtype) for x in inputs)
        if key not in self._compiled:
            held = dict(self.named_parameters(remove_duplicate=False))
            self._compiled[key] = compile_part(self._part, inputs, *self._written, held, training=self.training)
        compiled = self._compiled[key]
        # Operators that draw random numbers draw others at every call.
        self._part.mesh.step += 1
        given = [inputs[place] for place in compiled.taken]
        made = compiled.model(*given)
        outputs = made if isinstance(made, tuple) else (made,)
        return tree_unflatten([outputs[place] for place in compiled.given], compiled.form)

    def extra_repr(self) -> str:
        """Return mesh and layouts for printing."""
        return f"mesh={self._part.grid}, in={list(self._written[0])}, out={list(self._written[1])}"


def _put(root: nn.Module, path: str, parameter: nn.Parameter) -> None:
    """Register a parameter by its path, with modules that hold nothing else on the way."""
    *parents, name = path.split(".")
    for parent in parents:
        if parent not in root._modules:
            root.add_module(parent, nn.Module())
        root = root.get_submodule(parent)
    root.register_parameter(name, parameter)


def _layouts(
    plan: Mapping[str, str | Layout], named: Mapping[str, nn.Parameter], grid: DeviceMesh
) -> dict[str, Layout]:
    """Return parameter → where it is stored; later patterns win over earlier ones."""
    layouts = {path: Layout.replicated(p.dim()) for path, p in named.items()}
    for pattern, written in plan.items():
        hit = [path for path in named if path == pattern] or [p for p in named if fnmatchcase(p, pattern)]
        if not hit:
            raise unknown_parameter(pattern, tuple(named))
        # A shared parameter lies in one way, whichever of its names is used.
        tensors = {id(named[path]) for path in hit}
        hit = [path for path, parameter in named.items() if id(parameter) in tensors]
        for path in hit:
            shape = tuple(named[path].shape)
            layout = read_layout(str(written), grid, shape)
            if layout.partial:
                raise partial(path, layout)
            layout.local_shape(shape, grid, subject=path)
            layouts[path] = layout
    return layouts
