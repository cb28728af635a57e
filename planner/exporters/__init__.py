"""Stage 9: an evaluated plan → files. The table `EXPORTERS` has one entry a form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..core.code import CodeMark
from ..core.evaluated import EvaluatedPlan
from .explicit import export_bundle, mark_bundle
from .native import export_native

__all__ = ["EXPORTERS", "ExporterDef"]

Export = Callable[[EvaluatedPlan], dict[str, str]]
Marks = Callable[[EvaluatedPlan], tuple[CodeMark, ...]]


def unmarked(plan: EvaluatedPlan) -> tuple[CodeMark, ...]:
    """Return no marks: a form that leaves the collectives to torch has no line of its own for each."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterDef:
    """A form of exported code.

    Parameters
    ----------
    export
        Gives path → text.
    marks
        Gives what lines of these files stand for.
    """

    name: str
    summary: str
    export: Export
    marks: Marks = unmarked


EXPORTERS: Mapping[str, ExporterDef] = MappingProxyType({
    definition.name: definition
    for definition in (
        ExporterDef(
            name="explicit",
            summary="any plan, as modules on local shards with every resharding an explicit call",
            export=export_bundle,
            marks=mark_bundle,
        ),
        ExporterDef(
            name="native",
            summary="parallelize_module, fully_shard and pipelining on the plain model, for plans that these express",
            export=export_native,
        ),
    )
})  # fmt: skip
