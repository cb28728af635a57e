"""Stage 3: from layouts that readers ask for to the collectives that deliver them."""

from __future__ import annotations

from .account import Account, StepAccount, account
from .bound import Bound, bound, lower_bound_elements
from .crossing import crossing_bound, plan_crossing
from .fanout import distribute
from .meet import meet
from .mindspore import mindspore_operators, plan_mindspore
from .options import DEFAULT_OPTIONS, OBJECTIVES, SearchOptions
from .path import Planner, plan_redistribution
from .prices import Floor, Price
from .reasons import reasons

__all__ = [
    "DEFAULT_OPTIONS", "OBJECTIVES", "Account", "Bound", "Floor", "Planner", "Price", "SearchOptions", "StepAccount",
    "account", "bound", "crossing_bound", "distribute", "lower_bound_elements", "meet", "mindspore_operators",
    "plan_crossing", "plan_mindspore", "plan_redistribution", "reasons",
]  # fmt: skip
