"""What goes over HTTP: the shapes of requests and answers, and nothing else.

Answers carry the planner's own dataclasses where it has them (`PlanView`, `Report`, `Choice`, `Diagnostic`), so that
the OpenAPI names are the planner's. Requests are closed: an unknown key is refused, and every text, list and number has
a bound.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from planner.core.view import PlanView
from planner.errors import Diagnostic

from .limits import MAX_AXES

Word = Annotated[str, Field(min_length=1, max_length=200)]
Title = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
Target = Annotated[str, Field(min_length=1, max_length=2000)]
AxisNames = Annotated[list[Word], Field(max_length=8)]
# Far above any plan, and small enough that products stay exact in a float64.
Count = Annotated[int, Field(ge=1, le=1 << 31)]


class Closed(BaseModel):
    """A request: unknown keys and approximate types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


# ---------------------------------------------------------------- requests


class MeshAxis(Closed):
    """One axis of a mesh; the list of them is in mesh order, the last one connects neighbouring ranks."""

    name: Word
    size: Count


MeshAxes = Annotated[list[MeshAxis], Field(min_length=1, max_length=MAX_AXES)]


class PresetUse(Closed):
    """A preset with mesh axes for each of its open axes."""

    name: Word
    axes: Annotated[dict[Word, AxisNames], Field(max_length=8)]


class NewModel(Closed):
    """A model to import: the text of its `config.json`."""

    name: Title
    content: str


class NewPlan(Closed):
    """A plan to start: a model on a cluster, with presets to begin with."""

    model: Word
    name: Title | None = None
    cluster: Word
    mesh: MeshAxes
    global_batch: Count
    seq: Count
    microbatches: Count = 1
    precision: Word = "bf16"
    presets: Annotated[list[PresetUse], Field(max_length=16)] = []


class ImportedPlan(Closed):
    """A plan file to open."""

    text: str
    name: Title | None = None


class NewName(Closed):
    """Another name for a plan."""

    name: Title


class CopyName(Closed):
    """The name of a copy; by default that of the original with `(copy)`."""

    name: Title | None = None


class FactorChange(Closed):
    """Shard a factor of the operators that `target` names; `axes` null forgets the decision."""

    type: Literal["factor"]
    target: Target
    factor: Word
    axes: AxisNames | None


class KeepChange(Closed):
    """Keep results Partial over an axis; `carriers` are operand positions, one a term."""

    type: Literal["keep"]
    target: Target
    axis: Word
    carriers: Annotated[list[Annotated[int, Field(ge=0, le=1000)]], Field(max_length=16)]


class ParameterChange(Closed):
    """Say where parameters are stored: further sharded over `axes`, or as `layout`."""

    type: Literal["parameter"]
    target: Target
    axes: AxisNames = []
    layout: Annotated[str, Field(max_length=2000)] | None = None
    regather: bool = False


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
    """Change sequences per step, tokens per sequence and microbatches."""

    type: Literal["batch"]
    global_batch: Count
    seq: Count
    microbatches: Count


class PrecisionChange(Closed):
    """Change the precision."""

    type: Literal["precision"]
    name: Word


class ClearChange(Closed):
    """Forget all decisions on sharding."""

    type: Literal["clear"]


Change = Annotated[
    FactorChange
    | KeepChange
    | ParameterChange
    | PresetChange
    | MeshChange
    | SplitAxisChange
    | BatchChange
    | PrecisionChange
    | ClearChange,
    Field(discriminator="type"),
]
Changes = Annotated[list[Change], Field(min_length=1, max_length=200)]


class Edit(Closed):
    """Changes that are made together or not at all, as one step of the history."""

    changes: Changes
    label: Title | None = None


class Trial(Closed):
    """Changes to price without making them."""

    changes: Changes


class ProofRequest(Closed):
    """How many ranks a proof may use."""

    ranks: Annotated[int, Field(ge=1, le=8)] = 8


class RedistributionRequest(Closed):
    """A tensor and the layouts between which it is moved."""

    source: Annotated[str, Field(max_length=500)]
    target: Annotated[str, Field(max_length=500)]
    mesh: MeshAxes
    shape: Annotated[list[Annotated[int, Field(ge=1, le=1 << 48)]], Field(max_length=8)]
    dtype: Word = "bfloat16"
    cluster: Word | None = None


# ---------------------------------------------------------------- answers


class Problem(BaseModel):
    """What went wrong (RFC 9457), with a stable code and the remedy."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str
    subject: str


class Health(BaseModel):
    """The answer of a server that is up."""

    status: Literal["ok"]
    version: str
    database: Literal["ok"]


class Entry(BaseModel):
    """An entry of one of the planner's tables."""

    name: str
    summary: str


class PresetEntry(Entry):
    """A preset, with the names of its open axes."""

    axes: list[str]


class DeviceEntry(Entry):
    """A device type."""

    memory_bytes: float
    node_devices: int


class Registry(BaseModel):
    """What this installation knows: the planner's tables, for menus and help."""

    version: str
    torch: bool
    operators: list[Entry]
    collectives: list[Entry]
    presets: list[PresetEntry]
    devices: list[DeviceEntry]
    precisions: list[str]
    exporters: list[Entry]


class Model(BaseModel):
    """A model; `id` is its name if it comes along, else `sha256-` and the digest of its content."""

    id: str
    name: str
    architecture: str
    layers: int
    hidden: int
    parameters: int
    builtin: bool


class Cluster(BaseModel):
    """A cluster: nodes × devices per node - device."""

    name: str
    devices: int
    device: str
    memory_bytes: float


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
    """A decision on where parameters are stored."""

    type: Literal["parameter"]
    target: str
    axes: list[str]
    layout: str | None
    regather: bool


Decision = Annotated[FactorDecision | KeepDecision | ParameterDecision, Field(discriminator="type")]


class MemoryPart(BaseModel):
    """A part of a device's memory."""

    name: str
    bytes: float


class Summary(BaseModel):
    """The numbers of a plan at a glance; each opens in the report.

    `communication_s` is the exposed part, so `compute_s + communication_s + optimizer_s` is the step time.
    `collectives` counts the calls of a step on a rank, without local steps. `evaluated_ms` is how long it took to
    compute all of this.
    """

    step_time_s: float
    interval_s: tuple[float, float]
    compute_s: float
    communication_s: float
    optimizer_s: float
    memory_bytes: float
    capacity_bytes: float
    memory_parts: list[MemoryPart]
    mfu: float
    tokens_per_second: float
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
    model: ModelRef
    decisions: list[Decision]
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


class CodeFile(BaseModel):
    """A file of the exported code."""

    path: str
    text: str


class Code(BaseModel):
    """The exported code."""

    files: list[CodeFile]


class ProofRow(BaseModel):
    """The largest error of the loss or of one parameter over all ranks; `error` is null if it is no finite number."""

    name: str
    error: float | None
    rank: int
    ok: bool


class ProofMesh(BaseModel):
    """The mesh that a proof ran on."""

    axes: list[tuple[str, int]]


class Proof(BaseModel):
    """What a proof found."""

    ok: bool
    mesh: ProofMesh
    rows: list[ProofRow]
    failures: list[str]
    collectives: list[str]
    uncovered: list[str]


class Job(BaseModel):
    """A job; `version` is the version of the plan that it proves."""

    id: str
    kind: Literal["proof"]
    plan: str
    version: int
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: float
    message: str
    result: Proof | None
    problem: Problem | None


class RedistributionStep(BaseModel):
    """One collective of a redistribution; `dim` and `to_dim` are -1 where it has none."""

    kind: str
    axes: list[str]
    dim: int
    to_dim: int
    group_size: int
    source: str
    target: str
    source_shape: list[int]
    target_shape: list[int]
    received_bytes: float
    seconds: float


class RedistributionAnswer(BaseModel):
    """The cheapest steps; `bound_bytes` is what no way can do without, null where partial sums are involved."""

    steps: list[RedistributionStep]
    received_bytes: float
    bound_bytes: float | None
    peak_bytes: float
    seconds: float
