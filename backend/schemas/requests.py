"""Requests."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .bounds import AxisNames, Closed, Count, MeshAxes, Title, Word
from .changes import Changes


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


Shape = Annotated[list[Annotated[int, Field(ge=1, le=1 << 48)]], Field(max_length=8)]


class RedistributionRequest(Closed):
    """A tensor and the layouts between which it is moved.

    Parameters
    ----------
    to_mesh, to_shape
        Another mesh of the same ranks and another shape of the tensor, which `target` is on; by default the same.
    planner
        `mindspore` and `mindspore-alltoall` plan as MindSpore does, to compare with it.
    """

    source: Annotated[str, Field(max_length=500)]
    target: Annotated[str, Field(max_length=500)]
    mesh: MeshAxes
    shape: Shape
    to_mesh: MeshAxes | None = None
    to_shape: Shape | None = None
    planner: Literal["cheapest", "mindspore", "mindspore-alltoall"] = "cheapest"
    dtype: Word = "bfloat16"
    cluster: Word | None = None
