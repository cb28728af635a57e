"""Functional shard: one module or function of an eager model, sharded, with the rest of the model as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..errors import PlannerError

if TYPE_CHECKING:
    from .module import ShardedModule

__all__ = ["shard"]


def shard(
    module: Callable[..., Any], in_layouts: Sequence[str | Layout | None], out_layouts: Sequence[str | Layout | None],
    parameter_plan: Mapping[str, str | Layout] | None = None, *, mesh: Mapping[str, int] | DeviceMesh | str,
) -> ShardedModule:  # fmt: skip
    """Return a module or function as one that runs on shards, to be called from eager code.

    Its `forward` takes this rank's shards of the inputs and returns this rank's shards of the outputs; backward does
    the planned collectives, so that afterwards each parameter has the gradient of its shard, and each input that of
    its shard. Gradients are those of the sum of the losses of all ranks that hold different parts of an output; ranks
    that hold the same part compute the same loss, which counts once.

    Parameters
    ----------
    module
        An `nn.Module` with the values to start from, the same on all ranks; or a function of tensors. It is not
        changed. Its code is traced when shapes are met for the first time.
    in_layouts, out_layouts
        Layout of each input and output in any form that `planner.surfaces.read_layout` reads, such as
        `[dp, -, -]`; None for a whole copy on every rank. Outputs are counted as they lie in tuples, lists and dicts.
    parameter_plan
        Path of a parameter, in which `*` stands for anything → its layout. It is stored so, and the operator that reads
        it is sharded alike; over axes on which the first dim of an input lies, it is gathered instead. Parameters that
        are not named are whole on every rank.
    mesh
        Axis → size, row-major over the ranks of the default process group.

    Returns
    -------
    ShardedModule
        An `nn.Module` whose parameters have the names that they had, each holding this rank's shard.

    Raises
    ------
    PlannerError
        `shard.torch-missing`, `shard.mesh`, `shard.parameter-unknown`, `shard.partial`, `shard.element-type`, or what
        reading a layout raises. On a call: `shard.inputs`, `shard.outputs`, `shard.shapes`, or what tracing and
        planning raise.

    Examples
    --------
    >>> block = planner.shard(
    ...     mlp, ["[dp, -]"], ["[dp, -]"], {"up.weight": "[tp, -]", "down.weight": "[-, tp]"}, mesh={"dp": 2, "tp": 2}
    ... )  # doctest: +SKIP
    >>> block(x).square().sum().backward()  # doctest: +SKIP
    """
    if find_spec("torch") is None:
        raise PlannerError(
            "shard.torch-missing", "A module can be sharded only where PyTorch is installed.",
            "Add it with: pip install 'shardwright[torch]'.",
        )  # fmt: skip
    from .module import sharded

    return sharded(module, tuple(in_layouts), tuple(out_layouts), dict(parameter_plan or {}), mesh)
