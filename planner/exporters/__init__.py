"""Stage 9: an evaluated plan → files. The table `EXPORTERS` has one entry a form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..core.assignment import TrainingGraph
from ..core.cluster import ClusterSpec
from ..core.plan import Decisions, Precision
from .explicit import export_bundle

__all__ = ["EXPORTERS", "ExporterDef"]

Export = Callable[[TrainingGraph, Decisions, Precision, ClusterSpec, float, str], dict[str, str]]
"""What is exported, the FLOPs of a step of the whole model, and the plan file → path → text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterDef:
    """A form of exported code; `export` gives path → text."""

    name: str
    summary: str
    export: Export


EXPORTERS: Mapping[str, ExporterDef] = MappingProxyType({
    definition.name: definition
    for definition in (
        ExporterDef(
            name="explicit",
            summary="any plan, as modules on local shards with every resharding an explicit call",
            export=export_bundle,
        ),
    )
})  # fmt: skip
