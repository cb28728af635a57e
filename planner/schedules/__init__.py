"""Verb: the order of a pipeline, and how long it takes. The table `SCHEDULES` has one entry a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .automatic import Best, automatic
from .bound import lower_bound
from .building_block import V_HALF, V_MIN
from .definition import ScheduleDef
from .dual_pipe import DUALPIPE, DUALPIPE_V
from .interleaved import INTERLEAVED, INTERLEAVED_ZERO_BUBBLE, LOOPED_BREADTH_FIRST
from .measures import Bubble, Causes, bubble, causes, critical_path
from .one_pass import GPIPE, ONE_F_ONE_B
from .partition import Partition, cut, partition
from .simulate import simulate
from .text import read_csv, write_csv
from .vee import ZB_V
from .zero_bubble import H1, H2

__all__ = [
    "SCHEDULES", "Best", "Bubble", "Causes", "Partition", "ScheduleDef", "automatic", "bubble", "causes",
    "critical_path", "cut", "lower_bound", "partition", "read_csv", "simulate", "write_csv",
]  # fmt: skip

SCHEDULES: Mapping[str, ScheduleDef] = MappingProxyType({
    definition.name: definition
    for definition in (
        GPIPE, ONE_F_ONE_B, INTERLEAVED, LOOPED_BREADTH_FIRST, H1, H2, INTERLEAVED_ZERO_BUBBLE, ZB_V, DUALPIPE,
        DUALPIPE_V, V_HALF, V_MIN,
    )
})  # fmt: skip
