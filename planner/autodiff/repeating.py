"""What a segment runs again in backward: its nodes up to the last that keeps something, and what moves between them.

Autograd keeps something for a node if it hands a gradient to an operand that depends on a parameter, whether or not the
loss depends on the node: it does not know that yet when the node runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..core.assignment import Assembly, AssignedNode, Delivery, Fanout
from ..core.layout import Layout
from ..core.segments import Segments
from ..ops import OPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeating:
    """What is repeated in one scope; `last` is the position of the last node of a segment that keeps something."""

    segments: Segments
    last: Mapping[str, int]

    @staticmethod
    def of(assembly: Assembly, scope: int, followed: frozenset[tuple[int, str]]) -> Repeating:
        """Return what is repeated in a scope.

        Parameters
        ----------
        followed
            Index of a scope and name of a value, of all that depend on a parameter that is trained.
        """
        segments = Segments.of(assembly, scope)
        keeping = frozenset(a.node.name for a in assembly.nodes if a.segment and _keeps(a, scope, followed))
        return Repeating(segments=segments, last=segments.last(keeping))

    @property
    def nodes(self) -> frozenset[str]:
        """Names of the nodes that run again."""
        return self.segments.repeated(self.last)

    def again(self, fanout: Fanout) -> tuple[Delivery, ...]:
        """Return the deliveries of a fan-out that run again with their segment, each once for all its readers."""
        if not self.segments or not self.segments.repeats(fanout, self.last):
            return ()
        return tuple(d for d in fanout.forward if d.redistribution.steps or fanout.host)

    def fetched(self, fanout: Fanout) -> tuple[Delivery, ...]:
        """Return what is brought again to each segment that it goes into, since it was let go."""
        if not fanout.regather or self.segments.around(fanout):
            return ()
        inside = {i: s for i, r in enumerate(fanout.readers) if (s := self.segments.names.get(r.node, "")) in self.last}
        given: dict[tuple[str, Layout, Layout | None], Delivery] = {}
        for delivery in fanout.forward:
            members = [i for i in delivery.readers if i in inside and (delivery.redistribution.steps or fanout.host)]
            # A reader that gives no gradient shares the tensor of one that does.
            for i in sorted(members, key=lambda i: fanout.readers[i].raw is None):
                segment, reader = inside[i], fanout.readers[i]
                if reader.raw is None and any(key[:2] == (segment, reader.layout) for key in given):
                    continue
                given.setdefault((segment, reader.layout, reader.raw), replace(delivery, readers=(i,)))
        return tuple(given.values())


def _keeps(assigned: AssignedNode, scope: int, followed: frozenset[tuple[int, str]]) -> bool:
    node = assigned.node
    definition = OPS[node.op].of(dict(node.attributes))
    given = dict(zip(definition.operand_names, node.operands, strict=False))
    if not any((scope, given[name]) in followed for name in definition.differentiable if name in given):
        return False
    made = {"result", *definition.results}
    kept = any(name in given or name in made for name in definition.saved)
    shapes = tuple(tuple(1 for _ in dim) for dim in node.rule.operands)
    return kept or definition.saved_per_result > 0 or definition.extra_saved(shapes, 1) > 0
