"""Answers on the pipeline of a plan."""

from __future__ import annotations

from pydantic import BaseModel

from planner.core.pipeline_view import PipelineView

from .plans import Figure


class StageRow(BaseModel):
    """A stage: which ranks of the pipeline hold it, what it runs, and what a microbatch costs there.

    `memory_bytes` is with one microbatch under way; `nodes` are ids of the plan's view.
    """

    index: int
    ranks: list[int]
    runs: list[str]
    nodes: list[str]
    forward_s: float
    backward_s: float
    send_s: float
    activation_bytes: float
    resident_bytes: float
    memory_bytes: float


class PipelineNumbers(BaseModel):
    """A timeline in numbers; `bubble` by its definitions, `causes` in seconds of the step."""

    schedule: str
    microbatches: int
    step_time_s: float
    bound_s: float
    bubble: dict[str, float]
    causes: dict[str, float]
    rank_memory_bytes: list[float]
    capacity_bytes: float
    note: str


class PipelineAnswer(BaseModel):
    """The pipeline of a plan, in pictures and numbers; with another schedule to compare, both on one time axis."""

    view: PipelineView
    numbers: list[PipelineNumbers]
    stages: list[StageRow]
    passes: Figure
    held: list[Figure]
