"""Which rows of nodes are computed again in backward: the segments that the decisions on recompute make."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..core.graph import Node
from ..core.plan import RecomputeDecision
from ..errors import PlannerError
from .target import covers, named


@dataclass(slots=True)
class Segmenting:
    """Cuts the nodes of a scope, in their order, into segments.

    A node is in the segment of the last decision that names it, or in none if that says so. A segment is called after
    the module that the decision names, or after the module and the target if it names operators; the second row of
    nodes of one name has `#2` behind it.

    Parameters
    ----------
    decisions
        The decisions of the plan.
    whole
        Paths of lists of layers, which are too large for one segment.
    """

    decisions: tuple[RecomputeDecision, ...]
    whole: tuple[str, ...]
    _open: str = ""
    _rows: dict[str, int] = field(default_factory=dict)

    def enter(self, node: Node, layer: int) -> str:
        """Return the segment of the next node; empty for none.

        Raises
        ------
        PlannerError
            `plan.recompute-layers` when a decision names what holds a whole list of layers.
        """
        chosen = next((d for d in reversed(self.decisions) if covers(d.target, node.name, layer)), None)
        name = "" if chosen is None or not chosen.again else self._name(node, chosen.target)
        if name and name != self._open:
            self._rows[name] = self._rows.get(name, 0) + 1
        self._open = name
        row = self._rows.get(name, 1)
        return f"{name}#{row}" if row > 1 else name

    def end(self) -> None:
        """End the segment that the last node was in."""
        self._open = ""

    def _name(self, node: Node, target: str) -> str:
        name = named(target, node.name)
        for path in self.whole:
            if path == name or path.startswith(f"{name}."):
                raise PlannerError(
                    "plan.recompute-layers",
                    f"{target!r} names {name}, which holds all the layers of {path}: they would all be computed again "
                    "at once, and keep as much as before.",
                    f"Name the layers, each of which is then computed again by itself: {path}.*",
                    subject=target,
                )
        if name != node.name:
            return name
        parent = re.split(r"[./](?=[^./]*$)", name)[0] if re.search(r"[./]", name) else ""
        return f"{parent}/{re.split(r'[./]', target)[-1]}"
