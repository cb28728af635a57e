"""Verb: a report → Plotly figures, as plain values that JSON can say. The table `FIGURES` has one entry each.

A figure has no theme: no fonts, no paper, no template. Whoever shows it adds these; colours are given only where they
mean something. plotly is loaded when the first figure is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ..core.report import Report
from .communication import communication
from .memory import memory
from .plain import page
from .step import step

__all__ = ["FIGURES", "FigureDef", "page"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureDef:
    """A figure; `draw` gives `{"data": …, "layout": …}`."""

    name: str
    summary: str
    draw: Callable[[Report], dict[str, Any]]


FIGURES: Mapping[str, FigureDef] = MappingProxyType({
    definition.name: definition
    for definition in (
        FigureDef(
            name="communication", summary="seconds of a step by collective and mesh axes, forward and backward",
            draw=communication,
        ),
        FigureDef(name="memory", summary="bytes on the fullest device by part, against its capacity", draw=memory),
        FigureDef(name="step", summary="what the step time is made of", draw=step),
    )
})  # fmt: skip
