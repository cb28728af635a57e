"""The steps of a redistribution as calls of the runtime's classes.

Equal parts along named dims go by the class that is called like the collective. Unequal ones, and what takes and gives
several dims, go by the classes that cut boxes out of layouts.
"""

from __future__ import annotations

from ...core.collective import Part, Redistribution, Step
from ...core.mesh import Axes, DeviceMesh


def calls(moved: Redistribution, mesh: DeviceMesh) -> str:
    """Return the steps of a redistribution, joined by commas."""
    return ", ".join(call(step, mesh) for step in moved.steps)


def call(step: Step, mesh: DeviceMesh) -> str:
    """Return one step."""
    even = step.source.even(step.shape, mesh) and step.target.even(step.shape, mesh)
    match step.kind:
        case "exchange" | "permute" | "sum_exchange":
            name = "".join(word.title() for word in step.kind.split("_"))
            arguments = [*_boxes(step), f"axes={_axes(step.axes)}"]
        case "all_gather" | "all_to_all" if not even or (step.kind == "all_to_all" and step.dim < 0):
            name, arguments = "Exchange", [*_boxes(step), f"axes={_axes(step.axes)}", f'kind="{step.kind}"']
        case "reduce_scatter" if not even:
            name, arguments = "ReduceParts", [*_boxes(step), f"axes={_axes(step.axes)}", *_reduction(step)]
        case "pad" if not even:
            name, arguments = "PadParts", _boxes(step)
        case _:
            name = "".join(word.title() for word in step.kind.split("_"))
            arguments = [*_parts(step), *_reduction(step)]
    return f"{name}({', '.join(arguments)})"


def _boxes(step: Step) -> list[str]:
    return [f'source="{step.source}"', f'target="{step.target}"', f"shape={step.shape}"]


def _parts(step: Step) -> list[str]:
    """Return dims and axes of a step on equal parts; of several dims, the further ones stand behind the first."""
    several = {"all_gather": step.taken, "reduce_scatter": step.given}.get(step.kind, ()) if step.dim < 0 else ()
    if several:
        (dim, axes), *more = several
        return [f"dim={dim}", f"axes={_axes(axes)}", f"more=({''.join(_part(part) + ', ' for part in more).rstrip()})"]
    dims = [f"{name}={dim}" for name, dim in (("dim", step.dim), ("to_dim", step.to_dim)) if dim >= 0]
    return [*dims, f"axes={_axes(step.axes)}"]


def _part(part: Part) -> str:
    return f"({part[0]}, {_axes(part[1])})"


def _axes(axes: Axes) -> str:
    named = [f'"{axis}"' for axis in axes]
    return f"({', '.join(named)}{',' if len(axes) == 1 else ''})"


def _reduction(step: Step) -> list[str]:
    reduces = step.kind in ("all_reduce", "reduce_scatter") and step.source.reduce != "sum"
    wide = [f'dtype="{step.added_in}"'] if step.added_in else []
    return ([f'op="{step.source.reduce}"'] if reduces else []) + wide
