"""Compare our redistributions with DTensor's; prints tables and writes them to benchmarks/redistribution.md.

Every pair of DTensor's placements without Partial, on large tensors of 4-byte elements. All planners are asked in one
run, one after the other for each pair, and their steps are counted and priced alike. Nothing that belongs to one pair
is kept between pairs on either side; the time in which we build what is kept (search graphs, prices by size) counts.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from time import perf_counter

import torch

from benchmarks.dtensor_plans import plan as dtensor_plan
from benchmarks.dtensor_plans import pretend_ranks
from planner.collectives import COLLECTIVES
from planner.collectives.boxes import demand, moved_axes, near_demand
from planner.collectives.messages import senders
from planner.core.cluster import ClusterSpec
from planner.core.collective import Redistribution, Step
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.cost import least_exchange_seconds, least_seconds, step_seconds
from planner.hardware import cluster as cluster_named
from planner.redistribution import Floor, Planner, SearchOptions, lower_bound_elements

RESULTS = Path(__file__).with_name("redistribution.md")
CASES = (((2, 4), 2), ((2, 4), 3), ((8, 8), 2), ((2, 2, 2), 2), ((2, 2, 2), 3), ((4, 4, 4), 2))
SHAPES = {2: (16384, 16384), 3: (1024, 1024, 1024)}
ITEM = 4
EPSILON = 1e-9
NAMES = (
    "DTensor greedy",
    "DTensor min-cost",
    "exchange alone",
    "ours: time, one tier",
    "ours: time, two tiers",
    "ours: time, one tier, any peak",
    "ours: time, two tiers, any peak",
    "ours: bytes",
    "ours: bytes, no exchange",
)
OPTIONS = (
    *(SearchOptions(),) * 2,
    *(SearchOptions(peak_limit=False),) * 2,
    SearchOptions(objective="bytes"),
    SearchOptions(objective="bytes", exchange=False),
)
INTRODUCTION = """`make bench` writes this page: all pairs of placements without Partial, 4-byte elements, everything in
one run. Bytes are what the busiest rank receives, over the exact lower bound (what it needs minus what it holds): in
all, and on the worst pair. The peak is a step's input and output together, against source and target together. Times
are the sums over all pairs under our prices, on one tier of NVLink and on H100 nodes. DTensor's planners run as they
do by default, without flattened meshes. Planning is cold: no pair's result is kept, and the tables that we keep are
built within it; what else runs on the machine slows all planners alike."""


@dataclass(frozen=True, slots=True)
class Dearer:
    """A plan of another planner that is faster than ours, by our `ratio` to it; `within` the peak or not."""

    name: str
    limited: bool
    within: bool
    ratio: float


@dataclass(slots=True)
class Row:
    """What one planner does over all pairs of a case."""

    pairs: int = 0
    received: float = 0.0
    bound: float = 0.0
    worst: float = 0.0
    above: int = 0
    over_peak: int = 0
    sent: float = 0.0
    steps: int = 0
    planning: float = 0.0
    seconds: list[float] = field(default_factory=lambda: [0.0, 0.0])

    def add(self, plan: Redistribution, mesh: DeviceMesh, bound: int, planning: float) -> None:
        """Count one plan."""
        moving = [(COLLECTIVES[s.kind], s) for s in plan.steps if not COLLECTIVES[s.kind].local]
        received = sum(kind.received(s, mesh) for kind, s in moving)
        sent = sum(kind.sent(s, mesh) for kind, s in moving)
        room = plan.source.local_elements(plan.shape, mesh) + plan.target.local_elements(plan.shape, mesh)
        self.pairs += 1
        self.received += received
        self.bound += bound
        self.above += received > bound
        self.over_peak += plan.peak_elements > room
        self.steps += len(moving)
        self.planning += planning
        if bound:
            self.worst = max(self.worst, received / bound)
            self.sent = max(self.sent, sent / bound)

    def __str__(self) -> str:
        one, two = (f"{seconds * 1e3:.0f}" for seconds in self.seconds)
        return (
            f"{self.received / self.bound:.3f} | {self.worst:.2f} | {self.above} | {self.over_peak} | {self.sent:.2f} "
            f"| {self.steps / self.pairs:.2f} | {one} | {two} | {self.planning / self.pairs * 1e6:.0f}"
        )


def clusters(count: int) -> tuple[ClusterSpec, ClusterSpec]:
    """Return a cluster whose links are all alike, and one of nodes."""
    two = cluster_named("2x4-h100-sxm" if count == 8 else f"{count // 8}x8-h100-sxm")
    one = ClusterSpec(
        name=f"1x{count}-h100-sxm", nodes=1, devices_per_node=count, device=two.device, intra=two.intra, inter=two.inter
    )
    return one, two


def planner_on(mesh: DeviceMesh, cluster: ClusterSpec) -> Planner:
    """Return a planner that has kept nothing yet."""
    setup, byte = least_seconds(cluster)

    def exchange(axes: tuple[str, ...]) -> tuple[float, float]:
        least, each = least_exchange_seconds(axes, mesh, cluster)
        return least, each * ITEM

    return Planner(mesh, partial(seconds_of, mesh=mesh, cluster=cluster), Floor(setup, byte * ITEM, exchange))


def seconds_of(step: Step, mesh: DeviceMesh, cluster: ClusterSpec) -> float:
    """Return the seconds of a step."""
    return step_seconds(step, ITEM, mesh, cluster)


def layouts(mesh: DeviceMesh, dims: int) -> Iterator[Layout]:
    """Yield DTensor's placements without Partial: every axis shards a dim or none, in the order of the mesh."""
    for places in product(range(-1, dims), repeat=len(mesh.names)):
        pairs = list(zip(mesh.names, places, strict=True))
        yield Layout(tuple(tuple(a for a, place in pairs if place == dim) for dim in range(dims)))


def compare(sizes: tuple[int, ...], dims: int) -> tuple[str, list[Dearer]]:
    """Return the table of a case, and the plans of others that are faster than ours."""
    mesh, shape = DeviceMesh.of({f"m{i}": n for i, n in enumerate(sizes)}), SHAPES[dims]
    machines = clusters(mesh.device_count)
    price = [partial(seconds_of, mesh=mesh, cluster=cluster) for cluster in machines]
    ours = [planner_on(mesh, machines[tier]) for tier in (0, 1, 0, 1, 0, 0)]
    rows = {name: Row() for name in NAMES}
    dearer: list[Dearer] = []
    found = list(layouts(mesh, dims))
    with pretend_ranks(mesh) as ranks:
        for min_cost in (False, True):
            dtensor_plan(found[0], found[-1], shape, mesh, ranks, min_cost)
        for source, target in product(found, found):
            if source == target:
                continue
            plans = [dtensor_plan(source, target, shape, mesh, ranks, min_cost) for min_cost in (False, True)]
            plans.append((direct(source, target, shape, mesh), 0.0))
            plans += [timed(p, source, target, shape, o) for p, o in zip(ours, OPTIONS, strict=True)]
            taken = [[sum(map(p, plan.steps)) for p in price] for plan, _ in plans]
            bound = lower_bound_elements(source, target, shape, mesh) or 0
            for (plan, planning), row, seconds in zip(plans, rows.values(), taken, strict=True):
                row.add(plan, mesh, bound, planning)
                row.seconds = [a + b for a, b in zip(row.seconds, seconds, strict=True)]
            room = source.local_elements(shape, mesh) + target.local_elements(shape, mesh)
            for tier, limited in product((0, 1), (True, False)):
                own = taken[(3 if limited else 5) + tier][tier]
                dearer += [
                    Dearer(name=name, limited=limited, within=plan.peak_elements <= room, ratio=own / seconds[tier])
                    for name, (plan, _), seconds in zip(NAMES[:3], plans, taken, strict=False)
                    if own > seconds[tier] + EPSILON
                ]
    title = f"{'×'.join(map(str, sizes))} ranks, {'×'.join(map(str, shape))}, {rows[NAMES[0]].pairs} pairs"
    head = (
        "| planner | bytes / bound | worst | pairs above | pairs over peak | most sent / bound | collectives a pair | "
        "ms, one tier | ms, two tiers | planning µs a pair |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    )
    return "\n".join([f"## {title}", "", head, *(f"| {name} | {row} |" for name, row in rows.items())]), dearer


def direct(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Redistribution:
    """Return the direct exchange alone, or slices where they do."""
    if all(b[: len(a)] == a for a, b in zip(source.dims, target.dims, strict=True)):
        return planner_on(mesh, clusters(mesh.device_count)[0]).plan(source, target, shape)
    step = COLLECTIVES["exchange"].step(source, shape, mesh, target=target)
    return Redistribution(source=source, target=target, shape=shape, steps=(step,))


def timed(
    planner: Planner, source: Layout, target: Layout, shape: tuple[int, ...], options: SearchOptions
) -> tuple[Redistribution, float]:
    """Return a plan and its seconds, with what was worked out for this pair of layouts forgotten."""
    for kept in (demand, near_demand, moved_axes, senders):
        kept.cache_clear()
    start = perf_counter()
    plan = planner.plan(source, target, shape, options)
    return plan, perf_counter() - start


def verdict(dearer: list[Dearer]) -> str:
    """Say on which pairs something of another planner's is faster than our fastest."""
    lines = []
    for limited, within, what in (
        (False, None, "Without a limit on the peak, plans of others that are faster than ours"),
        (True, True, "Within source and target together, plans of others within it that are faster than ours"),
        (True, False, "Within it, plans of others beyond it that are faster than ours"),
    ):
        chosen = [d for d in dearer if d.limited == limited and within in (None, d.within)]
        worst = f", at most {max(d.ratio for d in chosen):.2f} times as fast" if chosen else ""
        lines.append(f"- {what}: {len(chosen)}{worst}.")
    return "\n".join(lines)


def main() -> None:
    """Print the tables and write them."""
    parts, dearer = [], []
    for sizes, dims in CASES:
        table, worse = compare(sizes, dims)
        print(table, "\n", flush=True)
        parts.append(table)
        dearer += worse
    where = (
        f"Python {platform.python_version()}, torch {torch.__version__}, {os.cpu_count()} CPUs, {platform.machine()}"
    )
    told = verdict(dearer)
    print(told)
    head = f"# Redistributions against DTensor's\n\n{INTRODUCTION} {where}."
    RESULTS.write_text("\n\n".join([head, *parts, "## Is any plan of others faster?", told]) + "\n", "utf-8")


if __name__ == "__main__":
    main()
