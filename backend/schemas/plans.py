"""Answers on plans."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from planner.core.view import PlanView
from planner.errors import Diagnostic


class ModelRef(BaseModel):
    """The model of a plan."""

    id: str
    name: str


class FactorDecision(BaseModel):
    """A decision on a factor."""

    type: Literal["factor"]
    target: str
    factor: str
    axes: list[str]


class KeepDecision(BaseModel):
    """A decision to keep results Partial."""

    type: Literal["keep"]
    target: str
    axis: str
    carriers: list[int]


class ParameterDecision(BaseModel):
    """A decision on where parameters, their gradients or optimizer state lie."""

    type: Literal["parameter"]
    target: str
    of: Literal["storage", "gradient", "optimizer"]
    axes: list[str]
    layout: str | None
    regather: bool
    deferred: bool
    place: Literal["device", "host"] | None


class RecomputeDecision(BaseModel):
    """A decision on what is computed again in backward."""

    type: Literal["recompute"]
    target: str
    again: bool


Decision = Annotated[FactorDecision | KeepDecision | ParameterDecision | RecomputeDecision, Field(discriminator="type")]


class Gradients(BaseModel):
    """How gradients are reduced over the ranks; `bucket_bytes` and `indices` belong to fusion by size and by index."""

    fusion: Literal["none", "auto", "size", "index"]
    bucket_bytes: int
    indices: list[int]
    reduction: Literal["mean", "sum"]
    overlap: bool
    compression: Literal["none", "bf16", "fp16", "int8", "one_bit"]


class PipelineState(BaseModel):
    """What a plan decides about its pipeline; without `stages` (target, stage) they are balanced."""

    axis: str
    schedule: str
    per_rank: int
    stages: list[tuple[str, int]]


class MemoryPart(BaseModel):
    """A part of a device's memory."""

    name: str
    bytes: float


class Summary(BaseModel):
    """The numbers of a plan at a glance; each opens in the report.

    `communication_s` is the exposed part, so `compute_s + communication_s + optimizer_s + bubble_s` is the step time.
    In a pipeline, `compute_s` is what a rank does in the mean, with its collectives, `communication_s` what it waits
    for messages, and `bubble_s` what it waits otherwise.
    `collectives` counts the calls of a step on a rank, without local steps. `evaluated_ms` is how long it took to
    compute all of this. Without sequences, `tokens_per_second` is null.
    """

    step_time_s: float
    interval_s: tuple[float, float]
    compute_s: float
    communication_s: float
    optimizer_s: float
    bubble_s: float
    memory_bytes: float
    capacity_bytes: float
    memory_parts: list[MemoryPart]
    mfu: float
    samples_per_second: float
    tokens_per_second: float | None
    flops: float
    collectives: int
    diagnostics: list[Diagnostic]
    evaluated_ms: float


class PlanState(BaseModel):
    """A plan with its graph and numbers; `undo` and `redo` are the labels of the edits that these would take."""

    id: str
    name: str
    version: int
    undo: str | None
    redo: str | None
    cluster: str
    global_batch: int
    seq: int
    microbatches: int
    precision: str
    gradients: Gradients
    model: ModelRef
    decisions: list[Decision]
    pipeline: PipelineState | None
    view: PlanView
    summary: Summary


class PlanSummary(BaseModel):
    """A plan in the list of plans; `updated` is an ISO time in UTC."""

    id: str
    name: str
    model: str
    mesh: list[tuple[str, int]]
    cluster: str
    version: int
    updated: str
    step_time_s: float
    memory_bytes: float
    capacity_bytes: float


class Effect(BaseModel):
    """What changes would do."""

    step_time_s: float
    memory_bytes: float
    step_time_delta_s: float
    memory_delta_bytes: float
    collectives_delta: int
    diagnostics: list[Diagnostic]


class Figure(BaseModel):
    """A Plotly figure without a theme."""

    data: list[dict[str, Any]]
    layout: dict[str, Any]
