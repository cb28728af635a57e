"""What is handed over of a plan: the exported code, with what checks it where it runs, and why there is none."""

from __future__ import annotations

from pathlib import Path

from . import compose
from .core.assignment import TrainingGraph
from .errors import Diagnostic, ExportError, PlannerError
from .plan import Plan
from .proof.selfcheck import selfcheck_files

CHECKED = "explicit"
"""The form whose bundles check themselves."""


def bundle(plan: Plan, form: str = "explicit", training: TrainingGraph | None = None) -> dict[str, str]:
    """Return the exported code as path → text.

    Raises
    ------
    ExportError
        `export.form-unknown`, `export.onnx-source`, `export.side-effects`, and what the exporter raises.
    """
    files = compose.bundle(plan, form, training)
    return files | selfcheck_files(plan, files) if form == CHECKED else files


def export(plan: Plan, folder: str | Path, form: str = "explicit") -> tuple[Path, ...]:
    """Write the exported code into a folder that is new or empty, and return the files."""
    root = Path(folder)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise ExportError("export.folder-not-empty", f"{str(root)!r} is not an empty folder.", "Name a new folder.")
    written = []
    for name, text in bundle(plan, form).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        if path.suffix == ".sh":
            path.chmod(0o755)
        written.append(path)
    return tuple(written)


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
