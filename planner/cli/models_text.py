"""The answer of `models`."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.units import format_count
from .facts import Facts
from .table import columns


def models_text(models: Iterable[Facts]) -> str:
    """Return a line a model."""
    rows = [
        (m.name, m.architecture, f"{m.layers}", f"{m.hidden}", format_count(m.parameters), f"{m.parameters:,}",
         f"{m.source} {m.digest[:8]}")
        for m in models
    ]  # fmt: skip
    head = ("model", "architecture", "layers", "hidden", "parameters", "exactly", "source")
    return "\n".join(columns([head, *rows], "<<>>>><"))
