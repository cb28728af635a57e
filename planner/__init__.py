"""Shardwright's planner: from a model and decisions to collectives, costs and code.

>>> import planner
>>> graph = planner.load_model("llama-3-8b")
>>> plan = planner.Plan.new(graph, cluster="1x8-h100-sxm", mesh={"tp": 8}, global_batch=8, seq=8192)
>>> report = planner.evaluate(plan.preset("megatron", axis="tp"))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .compose import cross, evaluate, load_model, open_plan, redistribute, save_plan, train
    from .delivery import bundle, export, exportable
    from .errors import PlannerError
    from .functional import shard
    from .plan import Plan
    from .proof import prove

__all__ = [
    "Plan", "PlannerError", "bundle", "cross", "evaluate", "export", "exportable", "load_model", "open_plan", "prove",
    "redistribute", "save_plan", "shard", "train",
]  # fmt: skip

_HOMES = {
    "Plan": ".plan", "PlannerError": ".errors", "bundle": ".delivery", "export": ".delivery", "exportable": ".delivery",
    "prove": ".proof", "shard": ".functional",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Import what is asked for, so that a command pays only for the modules that it uses."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, ".compose"), __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
