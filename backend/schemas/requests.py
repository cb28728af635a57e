"""Requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from ..limits import MAX_DIMS, MAX_SIZE
from .bounds import AxisNames, Closed, Count, Length, MeshAxes, Title, Word
from .changes import Changes

TypedText = Annotated[str, Field(max_length=500)]


def _text_or(tag: str) -> Callable[[object], str]:
    """Return what tells a text from a list, so that a wrong value is refused as the one or the other."""
    return lambda value: "text" if isinstance(value, str) else tag


class PresetUse(Closed):
    """A preset with mesh axes for each of its open axes."""

    name: Word
    axes: Annotated[dict[Word, AxisNames], Field(max_length=8)]


class NewModel(Closed):
    """A model to import: the text of its `config.json`."""

    name: Title
    content: str


class NewPlan(Closed):
    """A plan to start: a model on a cluster, with presets to begin with; `seq` is 0 if it takes no sequences."""

    model: Word
    name: Title | None = None
    cluster: Word
    mesh: MeshAxes
    global_batch: Count
    seq: Length = 0
    microbatches: Count = 1
    precision: Word = "bf16"
    presets: list[PresetUse] = Field(default_factory=list, max_length=16)


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


AnyMesh = Annotated[
    Annotated[MeshAxes, Tag("axes")] | Annotated[TypedText, Tag("text")], Discriminator(_text_or("axes"))
]
AnyShape = Annotated[
    Annotated[list[Annotated[int, Field(ge=1, le=MAX_SIZE)]], Field(max_length=MAX_DIMS), Tag("sizes")]
    | Annotated[TypedText, Tag("text")],
    Discriminator(_text_or("sizes")),
]


class RedistributionRequest(Closed):
    """A tensor and the layouts between which it is moved.

    Parameters
    ----------
    mesh, shape
        Lists, or texts as on the command line: `dp:2,tp:4` and `4096x4096`.
    to_mesh, to_shape
        Another mesh of the same ranks and another shape of the tensor, which `target` is on; by default the same.
    planner
        `mindspore` and `mindspore-alltoall` plan as MindSpore does, to compare with it.
    cluster
        By default one of as many H100 as the mesh has ranks.
    objective
        What is least: seconds, bytes that the busiest rank receives, the peak on a rank, or the number of steps.
    exchange
        Whether the direct exchange may be used.
    front
        Whether to answer also the ways of which no other is better in every respect.
    """

    source: TypedText
    target: TypedText
    mesh: AnyMesh
    shape: AnyShape
    to_mesh: AnyMesh | None = None
    to_shape: AnyShape | None = None
    planner: Literal["cheapest", "mindspore", "mindspore-alltoall"] = "cheapest"
    dtype: Word = "bfloat16"
    cluster: Word | None = None
    objective: Literal["time", "bytes", "peak", "steps"] = "time"
    exchange: bool = True
    front: bool = False
