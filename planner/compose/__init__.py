"""The whole path in one place, where the stages meet. Read `path.py` first.

path            a plan ──▸ every collective of a training step, its price, and what code is written from
redistributing  two layouts, or two holdings ──▸ the best way between them
pictures        a plan ──▸ the graph that is drawn, with what may be clicked in it
code            a plan ──▸ exported files, or why there are none
files           a plan ◂─▸ a plan file
"""

from __future__ import annotations

from ..drawing import tensor_of as tensor_at
from ..importers import load_model, load_source, shrink_way
from ..importers import shrunk as shrunk_graph
from .code import bundle, code_marks, export, unexportable
from .files import open_plan, plan_text, read_plan, save_plan
from .path import evaluate, evaluated, move_boundary, pipeline_of, stages_of, train
from .pictures import choices_at, moved, view
from .redistributing import PLANNERS, account, cross, pareto, redistribute

__all__ = [
    "PLANNERS", "account", "bundle", "choices_at", "code_marks", "cross", "evaluate", "evaluated", "export",
    "load_model", "load_source", "move_boundary", "moved", "open_plan", "pareto", "pipeline_of", "plan_text",
    "read_plan", "redistribute", "save_plan", "shrink_way", "shrunk_graph", "stages_of", "tensor_at", "train",
    "unexportable", "view",
]  # fmt: skip
