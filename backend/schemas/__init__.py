"""What goes over HTTP: the shapes of requests and answers, and nothing else.

Answers carry the planner's own dataclasses where it has them (`PlanView`, `Report`, `Choice`, `Diagnostic`), so that
the OpenAPI names are the planner's. Requests are closed: an unknown key is refused, and every text, list and number has
a bound.
"""

from __future__ import annotations

from .bounds import MeshAxis
from .changes import (
    BatchChange,
    Change,
    Changes,
    ClearChange,
    FactorChange,
    KeepChange,
    MeshChange,
    ParameterChange,
    PrecisionChange,
    PresetChange,
    SplitAxisChange,
)
from .code import Code, CodeDiff, CodeFile, CodeForm, DiffRange, FileDiff, HistoryStep
from .plans import (
    Decision,
    Effect,
    FactorDecision,
    Figure,
    KeepDecision,
    MemoryPart,
    ModelRef,
    ParameterDecision,
    PlanState,
    PlanSummary,
    Summary,
)
from .requests import (
    CopyName,
    Edit,
    ImportedPlan,
    NewModel,
    NewName,
    NewPlan,
    PresetUse,
    ProofRequest,
    RedistributionRequest,
    Trial,
)
from .results import FrontWay, Job, Proof, ProofMesh, ProofRow, RedistributionAnswer, RedistributionStep, Slices
from .schedules import ScheduleAnswer, ScheduleEntry, ScheduleNumbers, ScheduleRequest
from .tables import Cluster, DeviceEntry, Entry, Health, Model, Place, PresetEntry, Problem, Registry

__all__ = [
    "BatchChange",
    "Change",
    "Changes",
    "ClearChange",
    "Cluster",
    "Code",
    "CodeDiff",
    "CodeFile",
    "CodeForm",
    "CopyName",
    "Decision",
    "DeviceEntry",
    "DiffRange",
    "Edit",
    "Effect",
    "Entry",
    "FactorChange",
    "FactorDecision",
    "Figure",
    "FileDiff",
    "FrontWay",
    "Health",
    "HistoryStep",
    "ImportedPlan",
    "Job",
    "KeepChange",
    "KeepDecision",
    "MemoryPart",
    "MeshAxis",
    "MeshChange",
    "Model",
    "ModelRef",
    "NewModel",
    "NewName",
    "NewPlan",
    "ParameterChange",
    "ParameterDecision",
    "Place",
    "PlanState",
    "PlanSummary",
    "PrecisionChange",
    "PresetChange",
    "PresetEntry",
    "PresetUse",
    "Problem",
    "Proof",
    "ProofMesh",
    "ProofRequest",
    "ProofRow",
    "RedistributionAnswer",
    "RedistributionRequest",
    "RedistributionStep",
    "Registry",
    "ScheduleAnswer",
    "ScheduleEntry",
    "ScheduleNumbers",
    "ScheduleRequest",
    "Slices",
    "SplitAxisChange",
    "Summary",
    "Trial",
]
