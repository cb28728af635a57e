"""Stage 3: from layouts that readers ask for to the collectives that deliver them."""

from __future__ import annotations

from .account import Account, StepAccount, account
from .bound import Bound, bound, lower_bound_elements
from .fanout import distribute
from .options import DEFAULT_OPTIONS, OBJECTIVES, SearchOptions
from .path import Planner, plan_redistribution
from .prices import Floor, Price
from .reasons import reasons

__all__ = [
    "DEFAULT_OPTIONS", "OBJECTIVES", "Account", "Bound", "Floor", "Planner", "Price", "SearchOptions", "StepAccount",
    "account", "bound", "distribute", "lower_bound_elements", "plan_redistribution", "reasons",
]  # fmt: skip
