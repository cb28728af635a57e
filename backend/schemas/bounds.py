"""What every request has in common: bounded texts, numbers and lists, and no unknown keys."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ..limits import MAX_AXES

Word = Annotated[str, Field(min_length=1, max_length=200)]
Title = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
Target = Annotated[str, Field(min_length=1, max_length=2000)]
AxisNames = Annotated[list[Word], Field(max_length=8)]
# Far above any plan, and small enough that products stay exact in a float64.
Count = Annotated[int, Field(ge=1, le=1 << 31)]
Length = Annotated[int, Field(ge=0, le=1 << 31)]
"""Tokens of a sequence; 0 where there are no sequences."""


class Closed(BaseModel):
    """A request: unknown keys and approximate types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class MeshAxis(Closed):
    """One axis of a mesh; the list of them is in mesh order, the last one connects neighbouring ranks."""

    name: Word
    size: Count


MeshAxes = Annotated[list[MeshAxis], Field(min_length=1, max_length=MAX_AXES)]
