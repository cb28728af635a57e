"""A value on another stage of the pipeline than the one that made it. The layout on the way is its strategy's."""

from __future__ import annotations

from dataclasses import replace

from ..core.stage import RECEIVE
from .pointwise import Row, operator

RECEIVED = replace(
    operator(
        Row(name=RECEIVE, summary="x, sent here by the stage that made it", expression="{x}", terms="x", forward=0,
            backward=0)
    ),
    view=True,
)  # fmt: skip
