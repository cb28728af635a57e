"""Report operators that no rule knows: they are kept and computed whole on every device."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.assignment import Assembly
from ..errors import Diagnostic
from ..ops import UNKNOWN


def unknown(assemblies: Iterable[Assembly]) -> tuple[Diagnostic, ...]:
    """Return a `rule.op-unknown` for every torch operator that no rule knows, with the nodes that it is at."""
    found: dict[str, list[str]] = {}
    for assembly in assemblies:
        for assigned in assembly.nodes:
            node = assigned.node
            if node.op == UNKNOWN.name and node.name not in found.setdefault(str(node.attribute("target")), []):
                found[str(node.attribute("target"))].append(node.name)
    return tuple(
        Diagnostic(
            code="rule.op-unknown", severity="warning", subject=names[0],
            message=f"No rule knows {target} ({', '.join(names[:3])}{', …' if len(names) > 3 else ''}): it is computed "
            "whole on every device, and its time is that of reading and writing its tensors.",
            hint="Write it in operators that are known, or add one (docs/how-to/add-an-operator.md).",
        )
        for target, names in found.items()
    )  # fmt: skip
