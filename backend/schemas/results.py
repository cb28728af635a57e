"""Answers on proofs and redistributions."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from .tables import Model, Problem


class ProofRow(BaseModel):
    """The largest error of the loss or of one parameter over all ranks; `error` is null if it is no finite number.

    Of a wrong row, `node` and `edge` name the operator and the value whose redistribution are most likely at fault, as
    the plan's view names them, and `hint` says it in a sentence; they are empty for a row that is right.
    """

    name: str
    error: float | None
    rank: int
    ok: bool
    node: str = ""
    edge: str = ""
    hint: str = ""


class ProofMesh(BaseModel):
    """The mesh that a proof ran on."""

    axes: list[tuple[str, int]]


class Proof(BaseModel):
    """What a proof found; `compared` is the number of collectives that ran, over all ranks."""

    ok: bool
    mesh: ProofMesh
    rows: list[ProofRow]
    failures: list[str]
    collectives: list[str]
    uncovered: list[str]
    compared: int = 0


class Job(BaseModel):
    """A job: a proof of a plan, at its version, or an import of a model, whose `plan` is empty.

    Parameters
    ----------
    result
        Of a proof that is done.
    model
        Of an import that is done.
    """

    id: str
    kind: Literal["proof", "import"]
    plan: str
    version: int
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: float
    message: str
    result: Proof | None
    model: Model | None
    problem: Problem | None


class RedistributionStep(BaseModel):
    """One collective of a redistribution; `dim` and `to_dim` are -1 where it has none.

    Parameters
    ----------
    kind
        Of the registry's collectives; where the mesh or the shape changes on the way also `view`, which moves nothing,
        and `handover`, the direct exchange among all ranks.
    why
        What it does for the ranks.
    arrives
        Per rank from 0, of the first 64: the parts, each with its begin and end per dim, whose values the rank has
        after the step and had not before.
    """

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
    why: str
    arrives: list[list[list[tuple[int, int]]]]


class Slices(BaseModel):
    """Which part each rank holds.

    Parameters
    ----------
    mesh
        The mesh on which the ranks are numbered.
    partial, reduce
        Axes over which the values are still to be combined, and by what.
    ranks
        Ranks in all.
    slices
        Per rank from 0, and per dim, where its part begins and ends; of the first 64 ranks.
    note
        What is left out; empty if nothing is.
    """

    layout: str
    mesh: list[tuple[str, int]]
    shape: list[int]
    partial: list[str]
    reduce: str
    ranks: int
    slices: list[list[tuple[int, int]]]
    note: str


class FrontWay(BaseModel):
    """One of the ways of which no other is better in every respect; bytes are those of the busiest rank."""

    steps: list[str]
    seconds: float
    received_bytes: float
    peak_bytes: float


class RedistributionAnswer(BaseModel):
    """The cheapest steps; `bound_bytes` is what no way can do without, null where no bound is known.

    Parameters
    ----------
    mesh
        The mesh of the layouts: finer than the one that was sent where a device matrix cuts its axes.
    operators
        What MindSpore would run, where its planner was asked for.
    slices
        What the ranks hold at the start and after every step, with the mesh and the shape there.
    bound_of_sums
        Whether the bound is that of finishing sums, which can't always be reached.
    staging_bytes
        What the busiest rank packs into and receives into, beside the input and output that the peak counts; null where
        that is not known.
    front
        The ways of which no other is better, the fastest first, where they were asked for.
    gap
        By which part of its cost the way may be above the best one: 0 where the search was exhaustive, null where that
        is not known.
    """

    mesh: list[tuple[str, int]]
    operators: list[str] = []
    source: str
    target: str
    shape: list[int]
    dtype: str
    cluster: str
    steps: list[RedistributionStep]
    slices: list[Slices]
    received_bytes: float
    bound_bytes: float | None
    bound_of_sums: bool = False
    peak_bytes: float
    staging_bytes: float | None = None
    seconds: float
    gap: float | None
    front: list[FrontWay] = []
