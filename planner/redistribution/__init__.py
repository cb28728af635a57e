"""Stage 3: from layouts that readers ask for to the collectives that deliver them."""

from __future__ import annotations

from .bound import lower_bound_elements
from .crossing import crossing_bound, plan_crossing
from .fanout import distribute
from .meet import meet
from .mindspore import mindspore_operators, plan_mindspore
from .path import plan_redistribution

__all__ = [
    "crossing_bound",
    "distribute",
    "lower_bound_elements",
    "meet",
    "mindspore_operators",
    "plan_crossing",
    "plan_mindspore",
    "plan_redistribution",
]
