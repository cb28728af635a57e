"""Writes docs/reference/zoo.md: what the planner counts of each model of the zoo, beside what torch counts."""

from __future__ import annotations
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "zoo.md"
TRUTH = PAGE.with_suffix(".json")


def page(truth):
    return ""
