"""The changes that an edit is made of."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .bounds import AxisNames, Closed, Count, Length, MeshAxes, Target, Word


class FactorChange(Closed):
    """Shard a factor of the operators that `target` names; `axes` null forgets the decision."""

    type: Literal["factor"]
    target: Target
    factor: Word
    axes: AxisNames | None


class KeepChange(Closed):
    """Keep results Partial over an axis; `carriers` are operand positions, one a term; null forgets the decision."""

    type: Literal["keep"]
    target: Target
    axis: Word
    carriers: Annotated[list[Annotated[int, Field(ge=0, le=1000)]], Field(max_length=16)] | None


class ParameterChange(Closed):
    """Say where parameters, their gradients or optimizer state lie: further sharded over `axes`, or as `layout`.

    `axes` null forgets what was decided for this target; with nothing else, its layout follows again.
    """

    type: Literal["parameter"]
    target: Target
    of: Literal["storage", "gradient", "optimizer"] = "storage"
    axes: AxisNames | None = Field(default_factory=list)
    layout: Annotated[str, Field(max_length=2000)] | None = None
    regather: bool = False
    deferred: bool = False
    place: Literal["device", "host"] | None = None


class RecomputeChange(Closed):
    """Compute what `target` names again in backward, or, with `again` false, not; null forgets the decision."""

    type: Literal["recompute"]
    target: Target
    again: bool | None = True


class PresetChange(Closed):
    """Add a preset."""

    type: Literal["preset"]
    name: Word
    axes: Annotated[dict[Word, AxisNames], Field(max_length=8)]


class MeshChange(Closed):
    """Move to another cluster and mesh."""

    type: Literal["mesh"]
    cluster: Word
    axes: MeshAxes


class SplitAxisChange(Closed):
    """Cut a mesh axis into several."""

    type: Literal["split_axis"]
    axis: Word
    sizes: Annotated[list[Count], Field(min_length=2, max_length=8)]


class BatchChange(Closed):
    """Change samples per step, tokens per sequence (0 where there are none) and microbatches."""

    type: Literal["batch"]
    global_batch: Count
    seq: Length = 0
    microbatches: Count


class PrecisionChange(Closed):
    """Change the precision."""

    type: Literal["precision"]
    name: Word


class GradientsChange(Closed):
    """Change how gradients are reduced over the ranks."""

    type: Literal["gradients"]
    fusion: Literal["none", "auto", "size", "index"] = "none"
    bucket_bytes: Length = 0
    indices: Annotated[list[Count], Field(max_length=10000, default_factory=list)]
    reduction: Literal["mean", "sum"] = "mean"
    overlap: bool = False
    compression: Literal["none", "bf16", "fp16", "int8", "one_bit"] = "none"


class StageUse(Closed):
    """What runs on a stage of the pipeline."""

    target: Target
    stage: Annotated[int, Field(ge=0, le=4096)]


class PipelineChange(Closed):
    """Cut the model into stages along a mesh axis, or with null put it in one piece; balanced if `stages` is empty.

    `per_rank` is how many stages a rank holds, 0 for what the schedule needs.
    """

    type: Literal["pipeline"]
    axis: Word | None
    schedule: Word = "1f1b"
    per_rank: Annotated[int, Field(ge=0, le=64)] = 0
    stages: Annotated[list[StageUse], Field(max_length=4096)] = Field(default_factory=list)


class BoundaryChange(Closed):
    """Let a stage begin at another unit of the plan's pipeline, counted from 0."""

    type: Literal["boundary"]
    stage: Annotated[int, Field(ge=0, le=4096)]
    unit: Annotated[int, Field(ge=0, le=1 << 20)]


class ClearChange(Closed):
    """Forget all decisions on sharding."""

    type: Literal["clear"]


Change = Annotated[
    FactorChange
    | KeepChange
    | ParameterChange
    | RecomputeChange
    | PresetChange
    | MeshChange
    | SplitAxisChange
    | BatchChange
    | PrecisionChange
    | GradientsChange
    | PipelineChange
    | BoundaryChange
    | ClearChange,
    Field(discriminator="type"),
]
Changes = Annotated[list[Change], Field(min_length=1, max_length=200)]
