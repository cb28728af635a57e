"""Shardwright's planner: from a model and decisions to collectives, costs and code.

>>> import planner
>>> graph = planner.load_model("llama-3-8b")
>>> plan = planner.Plan.new(graph, cluster="1x8-h100-sxm", mesh={"tp": 8}, global_batch=8, seq=8192)
>>> report = planner.evaluate(plan.preset("megatron", axis="tp"))
"""

from __future__ import annotations

from .compose import bundle, evaluate, export, load_model, open_plan, redistribute, save_plan, train
from .errors import PlannerError
from .plan import Plan
from .proof import prove

__all__ = [
    "Plan", "PlannerError", "bundle", "evaluate", "export", "load_model", "open_plan", "prove", "redistribute",
    "save_plan", "train",
]  # fmt: skip
