"""What is handed over of a plan: the exported code, with what checks it where it runs, and why there is none."""

from __future__ import annotations

from pathlib import Path

from . import compose
from .core.assignment import TrainingGraph
from .errors import Diagnostic, PlannerError
from .plan import Plan
from .proof.selfcheck import selfcheck_files

CHECKED = "explicit"
"""The form whose bundles check themselves."""
README = """
**Check.** `python selfcheck.py` compares the sharded model with the unsharded one here, loss and every gradient on
every rank, and exits with 0 if they are equal; its head says at which sizes. What it compares with is in `check/`.
"""


def bundle(plan: Plan, form: str = "explicit", training: TrainingGraph | None = None) -> dict[str, str]:
    """Return the exported code as path → text.

    Raises
    ------
    ExportError
        `export.form-unknown`, `export.onnx-source`, `export.side-effects`, and what the exporter raises.
    """
    files = compose.bundle(plan, form, training)
    if form != CHECKED:
        return files
    return files | selfcheck_files(plan, files) | {"README.md": files["README.md"] + README}


def export(plan: Plan, folder: str | Path, form: str = "explicit") -> tuple[Path, ...]:
    """Write the exported code into a folder that is new or empty, and return the files."""
    return compose.export(plan, folder, form, bundle(plan, form))


def exportable(plan: Plan, form: str = "explicit", training: TrainingGraph | None = None) -> tuple[Diagnostic, ...]:
    """Return why the plan can't be exported in a form, before anything is written; empty if it can.

    What no plan can be made of, such as control flow that depends on data, is refused where the model is read.
    """
    found = compose.unexportable(plan)
    if found:
        return found
    try:
        compose.bundle(plan, form, training)
    except PlannerError as problem:
        return (problem.diagnostic,)
    return ()
