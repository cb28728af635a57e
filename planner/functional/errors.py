"""What can be wrong with a call of `planner.shard`, or of the module that it returns."""

from __future__ import annotations

from difflib import get_close_matches

from ..core.layout import Layout
from ..errors import LayoutError, PlannerError


def unknown_parameter(pattern: str, names: tuple[str, ...]) -> PlannerError:
    """Return the error on a parameter that the module does not have."""
    close = get_close_matches(pattern, names, n=3, cutoff=0.5)
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return PlannerError(
        "shard.parameter-unknown", f"The parameter plan names {pattern!r}, and the module has no such parameter.",
        f"Did you mean {' or '.join(close)}?" if close else f"It has {listed or 'none'}.", subject=pattern,
    )  # fmt: skip


def wrong_mesh(mesh: str, needed: int, ranks: int) -> PlannerError:
    """Return the error on a mesh of another size than the process group."""
    return PlannerError(
        "shard.mesh", f"The mesh {mesh} needs {needed} ranks, and {ranks} are running.",
        "Start that many, and init_process_group before; or use a mesh of their number.", subject=mesh,
    )  # fmt: skip


def partial(what: str, layout: Layout) -> PlannerError:
    """Return the error on a layout of parts of a sum, which eager code could not use."""
    return LayoutError(
        "shard.partial", f"{what} can't lie as {layout}: it would be a sum over {'·'.join(layout.partial)}.",
        f"Use {layout.adjoint}.", subject=what,
    )  # fmt: skip


def wrong_inputs(given: int, layouts: int) -> PlannerError:
    """Return the error on more or fewer inputs than layouts."""
    return PlannerError(
        "shard.inputs", f"There are {given} inputs, and layouts for {layouts}.", "Give one layout for each input."
    )


def wrong_outputs(given: int, layouts: int) -> PlannerError:
    """Return the error on more or fewer outputs than layouts."""
    return PlannerError(
        "shard.outputs", f"There are {given} outputs, and layouts for {layouts}.", "Give one layout for each output."
    )


def no_tensor(place: int, kind: str) -> PlannerError:
    """Return the error on an input that is no tensor."""
    return PlannerError(
        "shard.inputs", f"Input {place} is a {kind}, and only tensors can be sharded.",
        "Bind other arguments with functools.partial.",
    )  # fmt: skip


def other_shapes(mine: object, others: object) -> PlannerError:
    """Return the error on ranks that mean different whole tensors."""
    return PlannerError(
        "shard.shapes", f"The shards of this rank are parts of tensors {mine}, those of another of {others}.",
        "Give every rank along an axis an equal part.",
    )  # fmt: skip


def no_element_type(dtype: object) -> PlannerError:
    """Return the error on parameters of a type that no plan computes in."""
    return PlannerError(
        "shard.element-type", f"A module of {dtype} can't be sharded.",
        "Use parameters of torch.bfloat16, float16, float32 or float64.",
    )  # fmt: skip
