"""Stages 5 and 7: price a training graph on a cluster.

`price` returns numbers; `evaluate` returns the report with its trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..core.assignment import TrainingGraph
from ..core.cluster import ClusterSpec
from ..core.gradient_decision import AS_THEY_COME, GradientDecision
from ..core.plan import Decisions, Precision
from ..core.report import CollectiveRow, CostItem, Report
from ..errors import Diagnostic
from ..hardware import precision as named_precision
from .buckets import bucket_times
from .compute import optimizer_seconds, optimizer_traffic, peak_flops, total_seconds
from .explain import memory_tree, step_time_tree
from .host import HOST, Transfer, transfer_seconds, transfers
from .host_tree import host_tree
from .memory import (
    ACTIVATIONS,
    GATHERED,
    GRADIENTS,
    LOSS,
    OPTIMIZER,
    PARAMETERS,
    RECOMPUTED,
    TRANSIENT,
    Held,
    held,
    memory_bytes,
)
from .overlap import hidden_reductions
from .rows import collective_rows
from .step_time import StepSeconds, communication_seconds
from .work import NodeWork, model_flops, node_works

_REMEDIES: Mapping[str, str] = {
    PARAMETERS: "Shard the parameters over more axes.",
    GRADIENTS: "Shard the gradients over a data axis.",
    OPTIMIZER: "Shard the optimizer state over a data axis.",
    ACTIVATIONS: "Use more microbatches, compute layers again in backward, or shard the activations over more axes.",
    RECOMPUTED: "Compute smaller pieces again in backward.",
    GATHERED: "Fetch the parameters again in backward (regather) instead of keeping their copies.",
    LOSS: "Shard the vocabulary, or use more microbatches.",
    TRANSIENT: "Shard the largest tensor that is moved over more axes.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """The numbers of an evaluation, before they are explained."""

    seconds: StepSeconds
    memory: dict[str, float]
    works: tuple[NodeWork, ...]
    rows: tuple[CollectiveRow, ...]
    held: tuple[Held, ...]
    transfers: tuple[Transfer, ...]
    host: CostItem | None


def price(
    training: TrainingGraph, microbatches: int, precision: Precision, cluster: ClusterSpec,
    gradients: GradientDecision = AS_THEY_COME,
) -> Priced:  # fmt: skip
    """Return the numbers of a step: seconds and bytes by item."""
    device = cluster.device
    works = node_works(training, precision)
    rows = collective_rows(training, microbatches, precision, cluster, gradients.compression)
    forward, backward, again = total_seconds(works, precision, device)
    fetches = communication_seconds(rows, "backward", parameter=True)
    left = max(0.0, (backward + again) * microbatches - fetches)
    buckets = bucket_times(training, precision, cluster, gradients.compression)
    hidden, hidden_deferred = hidden_reductions(buckets if gradients.overlap else (), left, microbatches)
    reductions = {
        phase: sum(row.seconds * row.count for row in rows if row.reduces and row.phase == phase)
        for phase in ("backward", "update")
    }
    things = held(training, works, precision, device, gradients.compression)
    moved = transfers(training, microbatches, precision, device.host)
    seconds = StepSeconds(
        forward=forward * microbatches,
        backward=backward * microbatches,
        recompute=again * microbatches,
        host_forward=transfer_seconds(moved, "forward"),
        host_backward=transfer_seconds(moved, "backward"),
        host_update=transfer_seconds(moved, "update"),
        activations_forward=communication_seconds(rows, "forward", parameter=False),
        activations_backward=communication_seconds(rows, "backward", parameter=False),
        parameters_forward=communication_seconds(rows, "forward", parameter=True),
        parameters_backward=fetches,
        gradients=reductions["backward"],
        hidden_gradients=hidden,
        deferred=reductions["update"],
        hidden_deferred=hidden_deferred,
        packing=microbatches * sum(b.packing * b.count for b in buckets if not b.deferred),
        packing_deferred=sum(b.packing * b.count for b in buckets if b.deferred),
        update=communication_seconds(rows, "update", parameter=True),
        optimizer=optimizer_seconds(_optimizer_elements(training) * optimizer_traffic(precision), device),
    )
    return Priced(
        seconds=seconds, memory=memory_bytes(things), works=works, rows=rows, held=things, transfers=moved,
        host=host_tree(training, precision),
    )  # fmt: skip


def evaluate(training: TrainingGraph, decisions: Decisions, cluster: ClusterSpec) -> Report:
    """Return the report of a plan.

    Parameters
    ----------
    training
        Every redistribution of a training step.
    decisions
        Batch, microbatches and precision are taken from them.
    cluster
        What it runs on.

    Raises
    ------
    PlannerError
        `plan.precision-unknown`, `hardware.dtype-unsupported`.
    """
    precision = named_precision(decisions.precision)
    microbatches = decisions.microbatches
    device = cluster.device
    priced = price(training, microbatches, precision, cluster, decisions.gradients)
    tree = step_time_tree(
        priced.seconds, priced.works, priced.rows, microbatches, precision, device, transfers=priced.transfers
    )
    flops = model_flops(training) * microbatches
    everything = training.assignment.mesh.device_count * peak_flops(precision.compute, device)
    return Report(
        step_time=tree,
        interval=priced.seconds.interval,
        memory=memory_tree(priced.held),
        capacity_bytes=device.memory_bytes,
        flops=flops,
        mfu=flops / (tree.value * everything),
        samples_per_second=decisions.global_batch / tree.value,
        tokens_per_second=decisions.global_batch * decisions.seq / tree.value if decisions.seq else None,
        collectives=priced.rows,
        host=priced.host,
        diagnostics=(*training.assignment.diagnostics, *over_capacity(priced.memory, cluster)),
    )


def _optimizer_elements(training: TrainingGraph) -> int:
    mesh, symbols = training.assignment.mesh, training.assignment.symbols
    return sum(
        scope.assembly.count * placed.optimizer.local_elements(placed.parameter.meta.concrete(symbols), mesh)
        for scope in training.scopes
        for placed in scope.assembly.parameters
        if placed.parameter.trainable and placed.optimizer_place != HOST
    )


def over_capacity(memory: Mapping[str, float], cluster: ClusterSpec, where: str = "") -> Iterator[Diagnostic]:
    """Yield a warning if a device needs more memory than it has.

    Parameters
    ----------
    where
        Which device it is, if that is not any.
    """
    total, capacity = sum(memory.values()), cluster.device.memory_bytes
    if total > capacity:
        most = max(_REMEDIES, key=lambda item: memory.get(item, 0.0))
        yield Diagnostic(
            code="memory.over-capacity",
            severity="warning",
            subject=most,
            message=f"The fullest device{where and f', {where},'} needs {total / 1e9:.1f} GB of its "
            f"{capacity / 1e9:.1f} GB; the most is {most} with {memory[most] / 1e9:.1f} GB.",
            hint=_REMEDIES[most],
        )
