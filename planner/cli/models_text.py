"""The answer of `models`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from ..core.units import format_count
from ..importers.zoo_table import GROUPS, ZOO
from .facts import Facts
from .table import columns


def models_text(models: Iterable[Facts]) -> str:
    """Return a line a model under the name of its group, each with a plan to start from."""
    rows: list[tuple[str, ...]] = [
        ("", "model", "architecture", "layers", "parameters", "exactly", "cluster", "mesh", "presets")
    ]
    listed = {model.name: model for model in models}
    for group in GROUPS:
        entries = [entry for entry in ZOO.values() if entry.group == group and entry.name in listed]
        for index, entry in enumerate(entries):
            m = listed[entry.name]
            mesh = ",".join(f"{axis}:{size}" for axis, size in entry.mesh)
            presets = " ".join(f"{preset}:{axis}" for preset, axis in entry.presets)
            rows.append(
                ("" if index else group, m.name, m.architecture, f"{m.layers}", format_count(m.parameters),
                 f"{m.parameters:,}", entry.cluster, mesh, presets)
            )  # fmt: skip
    return "\n".join(columns(rows, "<<<>>><<<"))


def models_json(models: Iterable[Facts]) -> list[dict[str, object]]:
    """Return each model with its group and a plan to start from."""
    return [asdict(model) | {"group": ZOO[model.name].group, "start": start_json(model.name)} for model in models]


def start_json(name: str) -> dict[str, object]:
    """Return the plan to start from of a model of the zoo."""
    entry = ZOO[name]
    return {
        "cluster": entry.cluster,
        "mesh": [{"axis": axis, "size": size} for axis, size in entry.mesh],
        "presets": [{"name": preset, "axis": axis} for preset, axis in entry.presets],
        "global_batch": entry.batch, "seq": entry.seq, "microbatches": entry.microbatches,
    }  # fmt: skip
