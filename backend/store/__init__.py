"""Where plans live between requests: a database with models, plans and the history of each."""

from __future__ import annotations

from .database import Database
from .models import ModelStore, StoredModel
from .plans import HISTORY_STEPS, PlanStore, StoredPlan, VersionConflict

__all__ = ["HISTORY_STEPS", "Database", "ModelStore", "PlanStore", "StoredModel", "StoredPlan", "VersionConflict"]
