"""The best way from one layout to another, and from one holding to another, under the prices of a cluster."""

from __future__ import annotations

from functools import lru_cache

from ..collectives import COLLECTIVES
from ..collectives.handover import leg_received
from ..core.cluster import ClusterSpec
from ..core.collective import Redistribution, Step
from ..core.crossing import Crossing, Holding
from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh
from ..core.tensor import DTYPE_BYTES
from ..cost import least_exchange_seconds, least_seconds, leg_seconds, step_seconds
from ..errors import PlannerError
from ..hardware import cluster as cluster_named
from ..hardware import cluster_name
from ..redistribution import (
    DEFAULT_OPTIONS,
    Account,
    Floor,
    Planner,
    SearchOptions,
    plan_crossing,
    plan_mindspore,
)
from ..redistribution import account as account_of
from ..surfaces import DeviceLayout, read_layout

__all__ = ["PLANNERS", "account", "best_way", "cross", "pareto", "redistribute"]

PLANNERS = ("cheapest", "mindspore", "mindspore-alltoall")
"""Who plans a crossing."""


def redistribute(
    source: Layout | str, target: Layout | str, mesh: DeviceMesh | str, *, shape: tuple[int, ...],
    dtype: str = "bfloat16", cluster: str | None = None, options: SearchOptions = DEFAULT_OPTIONS,
) -> Redistribution:  # fmt: skip
    """Return the best way from one layout to another.

    Parameters
    ----------
    source, target
        Layouts, or texts as `planner.surfaces` reads them: `[dp, tp]`, `Shard(0), Shard(1)`, `P('dp', 'tp')` ….
    shape
        Global shape of the tensor.
    cluster
        What the steps are priced on; by default `hardware.cluster_name` of as many H100 as the mesh has ranks.
    options
        What is best, and which collectives may be used; by default the fastest way.
    """
    mesh = DeviceMesh.parse(mesh) if isinstance(mesh, str) else mesh
    name = cluster or cluster_name(mesh.device_count)
    layouts = [read_layout(layout, mesh, shape) if isinstance(layout, str) else layout for layout in (source, target)]
    return best_way(layouts[0], layouts[1], shape, _element_bytes(dtype), mesh, name, options)


def pareto(
    source: Layout, target: Layout, mesh: DeviceMesh, *, shape: tuple[int, ...], dtype: str, cluster: str,
    options: SearchOptions = DEFAULT_OPTIONS,
) -> tuple[Redistribution, ...]:  # fmt: skip
    """Return the ways of which no other is better in time, bytes, peak and number of steps, the fastest first."""
    return _planner(mesh, cluster, _element_bytes(dtype)).pareto(source, target, shape, options)


def account(moved: Redistribution, mesh: DeviceMesh, *, dtype: str, cluster: str) -> Account:
    """Return what a redistribution moves and takes, step by step with the reason for each, beside the lower bound."""
    size = _element_bytes(dtype)
    return account_of(moved, mesh, size, _planner(mesh, cluster, size).price)


def cross(
    source: Holding, target: Holding, *, dtype: str = "bfloat16", cluster: str | None = None,
    planner: str = "cheapest", options: SearchOptions = DEFAULT_OPTIONS,
) -> Crossing:  # fmt: skip
    """Return the way from one holding to another: to another mesh of the same ranks, through a reshape, or both.

    Parameters
    ----------
    source, target
        Mesh, shape and layout before and after; the ranks and the number of elements are the same.
    planner
        `cheapest`; or, to compare with it, what MindSpore does: `mindspore`, `mindspore-alltoall` with its all-to-all.
    options
        What is best, for the cheapest planner; MindSpore's knows no objectives.

    Raises
    ------
    PlannerError
        `redistribution.planner-unknown`; `mesh.matrix-ranks`, `reshape.elements`; in MindSpore's mode
        `mindspore.no-divisor-chain`, and `surface.partial-inexpressible` or `mindspore.map-divides` for what it lacks.
    """
    size = _element_bytes(dtype)
    if planner not in PLANNERS:
        raise PlannerError(
            "redistribution.planner-unknown", f"There is no planner {planner!r}.", f"Use {', '.join(PLANNERS)}."
        )
    if planner != "cheapest":
        for end in (source, target):
            DeviceLayout.of(end.layout, end.shape, end.mesh)
        found = plan_mindspore(source, target, all_to_all=planner == "mindspore-alltoall")
        if dtype == "bool" and any(leg.step and not COLLECTIVES[leg.kind].local for leg in found.legs):
            raise PlannerError(
                "mindspore.bool", "MindSpore's communication operators take no bool.", "Cast to int32 first."
            )
        return found
    name = cluster or cluster_name(source.mesh.device_count)
    machines = cluster_named(name)

    def plan(before: Layout, after: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Redistribution:
        return best_way(before, after, shape, size, mesh, name, options)

    def cost(way: Crossing) -> tuple[float, float]:
        seconds = sum(leg_seconds(leg, size, machines) for leg in way.legs)
        match options.objective:
            case "bytes":
                return sum(map(leg_received, way.legs)), seconds
            case "peak":
                return way.peak_elements, seconds
            case "steps":
                return len(way.legs), seconds
            case _:
                return seconds, 0.0

    return plan_crossing(source, target, plan, cost, exchange=options.exchange)


def _element_bytes(dtype: str) -> int:
    if dtype not in DTYPE_BYTES:
        raise PlannerError("tensor.dtype-unknown", f"{dtype!r} is no element type.", f"Use {', '.join(DTYPE_BYTES)}.")
    return DTYPE_BYTES[dtype]


@lru_cache(maxsize=65536)
def best_way(
    source: Layout, target: Layout, shape: tuple[int, ...], element_bytes: int, mesh: DeviceMesh, cluster: str,
    options: SearchOptions = DEFAULT_OPTIONS, added_in: str = "",
) -> Redistribution:  # fmt: skip
    """Return what `redistribute` does for sizes in bytes; remembered, since the edges of a plan are much alike.

    Parameters
    ----------
    added_in
        Element type in which sums are added, where it is wider.
    """
    return _planner(mesh, cluster, element_bytes, added_in).plan(source, target, shape, options)


@lru_cache(maxsize=64)
def _planner(mesh: DeviceMesh, cluster: str, element_bytes: int, added_in: str = "") -> Planner:
    machines: ClusterSpec = cluster_named(cluster)
    setup, byte = least_seconds(machines)

    def price(step: Step) -> float:
        return step_seconds(step, element_bytes, mesh, machines)

    def exchange(axes: Axes) -> tuple[float, float]:
        least, each = least_exchange_seconds(axes, mesh, machines)
        return least, each * element_bytes

    return Planner(mesh, price, Floor(setup, byte * element_bytes, exchange), added_in)
