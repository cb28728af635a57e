"""The shape of a plan file, version 3.

Only what JSON can say is checked here; that a mesh or a layout is legal is checked where it is
built. A field is never given a default, so that a file says everything that it decides.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

FORMAT = "shardwright-plan"
VERSION = 3

Word = Annotated[str, Field(min_length=1, max_length=200)]
Target = Annotated[str, Field(min_length=1, max_length=2000)]
Count = Annotated[int, Field(ge=1, le=1 << 48)]
Length = Annotated[int, Field(ge=0, le=1 << 48)]
"""Tokens of a sequence, bytes of a bucket; 0 where there are none."""


class Entry(BaseModel):
    """An object of the file: every key known, every type exact."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Axis(Entry):
    """One mesh axis; the list of them is in mesh order."""

    axis: Word
    size: Count


class Model(Entry):
    """Where the graph came from, with what is needed to build it again."""

    name: Word
    kind: Word
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    content: dict[str, Any]


class Factor(Entry):
    """Shard one factor of the operators that `target` names."""

    target: Target
    factor: Word
    axes: list[Word]


class Kept(Entry):
    """Keep results Partial over `axis`."""

    target: Target
    axis: Word
    carriers: list[Annotated[int, Field(ge=0, le=1000)]]


class Parameter(Entry):
    """Where parameters, their gradients or optimizer state lie; `layout` is written as layouts print, or null."""

    target: Target
    of: Literal["storage", "gradient", "optimizer"]
    axes: list[Word]
    layout: Annotated[str, Field(max_length=2000)] | None
    regather: bool
    deferred: bool
    place: Literal["device", "host"] | None


class Gradients(Entry):
    """How the gradients of parameters are reduced over the ranks."""

    fusion: Word
    bucket_bytes: Length
    indices: list[Count]
    reduction: Word
    overlap: bool
    compression: Word


class Stage(Entry):
    """What a stage of the pipeline runs."""

    target: Target
    stage: Annotated[int, Field(ge=0, le=1 << 20)]


class Pipeline(Entry):
    """The axis of the stages, their order, and what runs where."""

    axis: Word
    schedule: Word
    per_rank: Annotated[int, Field(ge=0, le=1 << 20)]
    stages: list[Stage]


class Recompute(Entry):
    """Compute what `target` names again in backward, or not."""

    target: Target
    again: bool


class PlanFile(Entry):
    """A whole plan file."""

    format: Literal["shardwright-plan"]
    version: Literal[3]
    model: Model
    cluster: Word
    mesh: list[Axis]
    global_batch: Count
    seq: Length
    microbatches: Count
    precision: Word
    factors: list[Factor]
    kept: list[Kept]
    parameters: list[Parameter]
    gradients: Gradients
    pipeline: Pipeline | None
    recompute: list[Recompute]
