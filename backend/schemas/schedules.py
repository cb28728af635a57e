"""Pipelines of equal parts: requests and answers of `/schedules`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from .bounds import Closed, Word
from .plans import Figure

Duration = Annotated[float, Field(ge=0, le=1e9)]


class ScheduleRequest(Closed):
    """A pipeline whose parts all cost the same; times in any one unit, of what a rank does for a microbatch.

    `per_rank` is how many parts of the model a rank has, 0 for what the schedule needs. `keep` is how many microbatches
    a rank has room for, 0 for any number; the automatic schedule heeds it. `against` is a second schedule, drawn below
    the first on the same time axis.
    """

    name: Word
    ranks: Annotated[int, Field(ge=1, le=4096)]
    microbatches: Annotated[int, Field(ge=1, le=65536)]
    per_rank: Annotated[int, Field(ge=0, le=64)] = 0
    forward: Annotated[float, Field(gt=0, le=1e9)] = 1.0
    backward_input: Duration = 1.0
    backward_weight: Duration = 1.0
    send: Duration = 0.0
    keep: Duration = 0.0
    objective: Literal["makespan", "span"] = "makespan"
    against: Word | None = None


class ScheduleNumbers(BaseModel):
    """What a schedule comes to.

    `bound` is what no order of these passes can go below. The bubble is idle time as a share of all rank time
    (`of_total`), of useful time (`of_useful`), and within the longest span of a rank (`of_span`); `causes` splits the
    idle time. `kept` is the most microbatches that each rank holds at once.
    """

    name: str
    makespan: float
    bound: float
    bubble: dict[str, float]
    causes: dict[str, float]
    kept: list[float]
    note: str


class ScheduleAnswer(BaseModel):
    """The numbers and pictures of one schedule or of two."""

    schedules: list[ScheduleNumbers]
    passes: Figure
    held: list[Figure]


class ScheduleEntry(BaseModel):
    """A schedule that can be asked for; `per_rank` is how many parts a rank has to have, 0 for any number."""

    name: str
    summary: str
    per_rank: int
    torch: str
    aliases: list[str]
