"""A plan as its user holds it: a model and the decisions on it."""

from __future__ import annotations

from .plan import Plan

__all__ = ["Plan"]
