"""The table `SCHEDULES`: one entry a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .building_block import V_HALF, V_MIN
from .definition import ScheduleDef
from .dual_pipe import DUALPIPE, DUALPIPE_V
from .interleaved import INTERLEAVED, INTERLEAVED_ZERO_BUBBLE, LOOPED_BREADTH_FIRST
from .one_pass import GPIPE, ONE_F_ONE_B
from .vee import ZB_V
from .zero_bubble import H1, H2

SCHEDULES: Mapping[str, ScheduleDef] = MappingProxyType({
    definition.name: definition
    for definition in (
        GPIPE, ONE_F_ONE_B, INTERLEAVED, LOOPED_BREADTH_FIRST, H1, H2, INTERLEAVED_ZERO_BUBBLE, ZB_V, DUALPIPE,
        DUALPIPE_V, V_HALF, V_MIN,
    )
})  # fmt: skip
