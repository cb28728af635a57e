"""Verb: the order of a pipeline, and how long it takes. The table `SCHEDULES` has one entry a schedule."""

from .automatic import OBJECTIVES, Best, automatic
from .bound import lower_bound
from .definition import ScheduleDef
from .equal import EqualParts, equal_parts
from .measures import Bubble, Causes, bubble, causes, critical_path
from .named import AUTOMATIC, Simulated, definition_of, part_count, pipeline_of, schedule_named, schedule_parts
from .partition import Partition, cut, partition
from .simulate import course, simulate
from .table import SCHEDULES
from .text import read_csv, write_csv
from .trace_events import trace_events

__all__ = [
    "AUTOMATIC",
    "OBJECTIVES",
    "SCHEDULES",
    "Best",
    "Bubble",
    "Causes",
    "EqualParts",
    "Partition",
    "ScheduleDef",
    "Simulated",
    "automatic",
    "bubble",
    "causes",
    "course",
    "critical_path",
    "cut",
    "definition_of",
    "equal_parts",
    "lower_bound",
    "part_count",
    "partition",
    "pipeline_of",
    "read_csv",
    "schedule_named",
    "schedule_parts",
    "simulate",
    "trace_events",
    "write_csv",
]  # fmt: skip
