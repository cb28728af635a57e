"""What passes between the stages of a plan, and what of it torch's pipelining can't do.

A stage there sends to the next one alone, and only the first stage and the loss take inputs of the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...core.assignment import TrainingGraph
from ...core.evaluated import EvaluatedPlan
from ...core.graph import Node
from ...core.layout import Layout
from ...core.stage import plain
from ...core.tensor import TensorMeta
from ..explicit.batch import has_batch
from ..explicit.program import outside
from .pieces import Piece
from .problems import Problems

SPLITTING = ("ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble", "ScheduleDualPipeV")
"""Schedules that compute the gradients of weights apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A tensor of one microbatch on one rank."""

    shape: tuple[int, ...]
    dtype: str
    gradient: bool = True


def passed(
    plan: EvaluatedPlan, pieces: tuple[Piece, ...], loss: Node, problems: Problems
) -> tuple[tuple[Passed, ...], ...]:
    """Return what goes into each stage, and what comes out of the last."""
    training = plan.training
    assert plan.schedule is not None, "a plan with stages has a schedule"
    if not plan.torch_schedule:
        problems.add("pipeline", f"torch.distributed.pipelining has no schedule {plan.schedule.name}")
    for piece in pieces:
        _hold(piece, pieces, plan.torch_schedule, loss, problems)
    found = []
    for piece in pieces:
        received = {r.value: r for r in piece.planned.received}
        wanted = {f.value for f in piece.planned.training.scopes[0].fanouts if f.gradient is not None}
        tensors = []
        for name, meta, layout in piece.alone.training.scopes[0].assembly.inputs:
            if name not in received:
                layout = next(own for value, _, own in training.assignment.assemblies[0].inputs if value == name)
            elif meta.dtype != "compute" or name not in wanted:
                problems.add(name, f"what goes to stage {piece.number} is {meta.dtype} or needs no gradient; here, "
                             "all that passes between stages is of the model's type and needs one")  # fmt: skip
            else:
                layout = received[name].layout
            tensors.append(_local(name, meta, layout, name in received, plan, problems))
        found.append(tuple(tensors))
    return (*found, (_logits(plan, pieces[-1], loss, problems),))


def _hold(piece: Piece, pieces: tuple[Piece, ...], schedule: str, loss: Node, problems: Problems) -> None:
    received = {r.value for r in piece.planned.received}
    if not piece.alone.training.assignment.graph.root.body:
        problems.add(loss.name, f"nothing else runs on stage {piece.number}; here a stage has a part of the model")
    before = set(outside(pieces[piece.number - 1].alone.training)) if piece.number else set()
    for arriving in piece.planned.received:
        if arriving.node not in before:
            problems.add(arriving.value, f"it goes from an earlier stage to stage {piece.number}; torch's pipelining "
                         "sends to the next stage alone")  # fmt: skip
    for name, meta, _ in piece.alone.training.scopes[0].assembly.inputs:
        if piece.number and name not in received:
            problems.add(name, f"stage {piece.number} reads this input of the model; torch's pipelining gives inputs "
                         "to the first stage, and labels to the loss")  # fmt: skip
        elif name not in received and not (meta.shape and has_batch(meta.shape[0])):
            problems.add(name, "its first dim holds no samples, and the schedule cuts inputs along that")
    if schedule in SPLITTING:
        for name, count in _uses(piece.alone.training):
            if count > 1:
                problems.add(name, f"{count} operators of stage {piece.number} read it; where torch computes the "
                             "gradients of weights apart, each may be used once")  # fmt: skip


def _uses(training: TrainingGraph) -> Iterator[tuple[str, int]]:
    for scope in training.scopes:
        yield from ((f.value, len(f.readers)) for f in scope.fanouts if f.kind == "parameter")


def _local(
    name: str, meta: TensorMeta, layout: Layout, gradient: bool, plan: EvaluatedPlan, problems: Problems
) -> Passed:
    mesh, shape = plan.training.assignment.mesh, meta.concrete(plan.training.assignment.symbols)
    if not layout.even(shape, mesh):
        problems.add(name, f"{shape} lies as {layout}, unequal parts on ranks; here what stages take and give is equal")
    dtype = plan.precision.compute if meta.dtype == "compute" else meta.dtype
    return Passed(shape=layout.shape_of(shape, mesh, 0), dtype=dtype, gradient=gradient)


def _logits(plan: EvaluatedPlan, last: Piece, loss: Node, problems: Problems) -> Passed:
    name = plain(loss.operands[0])
    fanout = next(f for f in last.planned.training.scopes[0].fanouts if f.value == name)
    return _local(name, fanout.meta, fanout.readers[0].layout, True, plan, problems)
