"""The exported code of a plan, what its lines stand for, and why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..core.assignment import TrainingGraph
from ..core.code import CodeMark
from ..errors import Diagnostic, ExportError
from ..exporters import EXPORTERS, ExporterDef
from ..plan import Plan
from .path import evaluated

__all__ = ["bundle", "code_marks", "export", "unexportable"]


def bundle(plan: Plan, form: str = "explicit", training: TrainingGraph | None = None) -> dict[str, str]:
    """Return the exported code as path → text.

    Raises
    ------
    ExportError
        `export.form-unknown`, `export.onnx-source`, `export.side-effects`, and what the exporter raises.
    """
    for found in unexportable(plan):
        raise ExportError(found.code, found.message, found.hint, subject=found.subject)
    return _form(form).export(evaluated(plan, training))


def unexportable(plan: Plan) -> tuple[Diagnostic, ...]:
    """Return what of a plan's model no code can be written for, in any form."""
    graph = plan.graph
    if graph.source.kind == "onnx":
        return (
            Diagnostic(
                code="export.onnx-source", subject=graph.name,
                message=f"{graph.name} comes from an ONNX file, whose operators are often not those of the model's "
                "code.",
                hint="Plan with it, and export code from the model's config.json, its .pt2 or its module.",
            ),
        )  # fmt: skip
    unknown = (node for block in graph.blocks for node in block.nodes if node.op == "unknown")
    calls = ((node, str(node.attribute("target"))) for node in unknown)
    return tuple(
        Diagnostic(
            code="export.side-effects", subject=node.name,
            message=f"{node.name} is {target}, which no rule knows and which changes its input: other readers of that "
            "would see what it was or what it became.",
            hint="Write that part of the model with operators that give a new tensor.",
        )
        for node, target in calls
        # ATen's operators that change an operand have names that end so.
        if target.split(".")[1].endswith("_")
    )  # fmt: skip


def code_marks(plan: Plan, form: str = "explicit", training: TrainingGraph | None = None) -> tuple[CodeMark, ...]:
    """Return which lines of the exported code stand for which nodes and edges of the plan's view."""
    return _form(form).marks(evaluated(plan, training))


def _form(name: str) -> ExporterDef:
    if name not in EXPORTERS:
        known = ", ".join(EXPORTERS)
        raise ExportError("export.form-unknown", f"There is no form {name!r} of exported code.", f"Use {known}.")
    return EXPORTERS[name]


def export(
    plan: Plan, folder: str | Path, form: str = "explicit", files: Mapping[str, str] | None = None
) -> tuple[Path, ...]:
    """Write the exported code, or other files of the plan, into a folder that is new or empty, and return them."""
    root = Path(folder)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise ExportError("export.folder-not-empty", f"{str(root)!r} is not an empty folder.", "Name a new folder.")
    written = []
    for name, text in (bundle(plan, form) if files is None else files).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        if path.suffix == ".sh":
            path.chmod(0o755)
        written.append(path)
    return tuple(written)
