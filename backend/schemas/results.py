"""Answers on proofs and redistributions."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from .tables import Problem


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
