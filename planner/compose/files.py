"""Plan files: a plan as text, and the text as a plan again."""

from __future__ import annotations

from pathlib import Path

from ..document import read, write
from ..errors import PlannerError
from ..importers import load_source
from ..plan import Plan

__all__ = ["open_plan", "plan_text", "read_plan", "save_plan"]


def plan_text(plan: Plan) -> str:
    """Return the plan file of a plan."""
    return write(plan.graph.source, plan.decisions)


def save_plan(plan: Plan, path: str | Path) -> None:
    """Write the plan file."""
    Path(path).write_text(plan_text(plan), "utf-8")


def open_plan(path: str | Path) -> Plan:
    """Read a plan file; the model comes from the content that the file carries."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise PlannerError(
            "document.unreadable", f"{str(path)!r} can't be read: {problem}.", "Name a plan file."
        ) from None
    return read_plan(text)


def read_plan(text: str) -> Plan:
    """Return the plan of the text of a plan file."""
    source, decisions = read(text)
    return Plan(graph=load_source(source), decisions=decisions)
