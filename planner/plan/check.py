"""What decisions have to be before any stage looks at them: sizes that the model can take, ranks that there are."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.graph import ModelGraph
from ..core.plan import Decisions, PipelineDecision
from ..core.tensor import DTYPE_BYTES
from ..errors import PlannerError
from ..hardware import cluster as cluster_named
from ..hardware import precision as precision_named
from ..schedules import pipeline_of

__all__ = ["check"]


def check(graph: ModelGraph, decisions: Decisions) -> None:
    """Stop on decisions that no training step of the model can follow.

    Raises
    ------
    PlannerError
        `plan.not-positive`, `plan.seq-missing`, `plan.seq-without`, `plan.batch-fixed`, `plan.microbatches`,
        `plan.gradient-type`, `pipeline.axis-used`, and what the precision, the cluster and the schedule refuse.
    """
    d = decisions
    _check_sizes(graph, d)
    if d.global_batch % d.microbatches:
        raise PlannerError(
            "plan.microbatches",
            f"{d.global_batch} {'sequences' if d.seq else 'samples'} can't be cut into "
            f"{d.microbatches} equal microbatches "
            f"({d.global_batch} % {d.microbatches} = {d.global_batch % d.microbatches}).",
            "Use a number of microbatches that divides the global batch.",
        )
    _check_compression(d)
    cluster_named(d.cluster).must_fit(d.mesh)
    if d.pipeline is not None:
        _check_pipeline(d, d.pipeline)


def _check_sizes(graph: ModelGraph, decisions: Decisions) -> None:
    """Hold batch and sequence to what the model leaves open."""
    d, name, symbols = decisions, graph.name, graph.symbols
    sizes = {"global_batch": d.global_batch, "microbatches": d.microbatches} | ({"seq": d.seq} if d.seq else {})
    for what, value in sizes.items():
        if value < 1:
            raise PlannerError("plan.not-positive", f"{what} is {value}.", "Give a number of at least 1.")
    if "S" in symbols and not d.seq:
        raise PlannerError(
            "plan.seq-missing", f"{name} takes sequences, and nothing says how long.", "Give seq, e.g. 2048."
        )
    if d.seq and "S" not in symbols:
        raise PlannerError(
            "plan.seq-without", f"{name} has no sequence length that could be {d.seq}.", "Leave seq out."
        )
    if "B" not in symbols and d.global_batch > 1:
        raise PlannerError(
            "plan.batch-fixed",
            f"{name} fixes its batch: a step takes its inputs as they are, once, not {d.global_batch} times.",
            "Use a global_batch of 1, or load the model with an open batch.",
        )


def _check_compression(decisions: Decisions) -> None:
    """Hold what gradients are passed as to what they are."""
    wide, compression = precision_named(decisions.precision).gradient, decisions.gradients.compression
    if compression in {"bf16", "fp16"} and DTYPE_BYTES[wide] <= DTYPE_BYTES["bfloat16"]:
        raise PlannerError(
            "plan.gradient-type",
            f"Gradients of precision {decisions.precision} are {wide}: {compression} would make them no smaller.",
            "Use int8 or one_bit, or a precision with gradients of 4 bytes.", subject="gradients",
        )  # fmt: skip


def _check_pipeline(decisions: Decisions, pipeline: PipelineDecision) -> None:
    """Hold the pipeline to its axis, and its schedule to the ranks and microbatches that there are."""
    ranks = decisions.mesh.size(pipeline.axis)
    sharded = next((name for name, axes in _axes_by_target(decisions) if pipeline.axis in axes), None)
    if sharded is not None:
        raise PlannerError(
            "pipeline.axis-used",
            f"The stages lie along {pipeline.axis}, and {sharded!r} is sharded over it.",
            "Give the pipeline an axis of its own.", subject=sharded,
        )  # fmt: skip
    pipeline_of(pipeline.schedule, ranks, decisions.microbatches, pipeline.per_rank)


def _axes_by_target(decisions: Decisions) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the target of each decision on sharding, and the axes that it uses."""
    yield from ((d.target, frozenset(d.axes)) for d in decisions.factors)
    yield from ((d.target, frozenset({d.axis})) for d in decisions.kept)
    for d in decisions.parameters:
        yield d.target, frozenset(d.axes) | (d.layout.used if d.layout else frozenset())
