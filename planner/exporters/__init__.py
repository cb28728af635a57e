"""Stage 9: an evaluated plan → files. The table `EXPORTERS` has one entry a form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..core.assignment import TrainingGraph
from ..core.cluster import ClusterSpec
from ..core.plan import Decisions, Precision
from .explicit import export_bundle
from .native import export_native

__all__ = ["EXPORTERS", "ExporterDef"]

Export = Callable[[TrainingGraph, Decisions, Precision, ClusterSpec, str], dict[str, str]]


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
        ExporterDef(
            name="native",
            summary="parallelize_module and fully_shard on the plain model, for plans that these express",
            export=export_native,
        ),
    )
})  # fmt: skip
