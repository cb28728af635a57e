"""Segments: pieces of a scope that keep only what goes into them, and are computed again in backward.

A segment is a row of nodes that follow each other. What brings a value to its readers belongs to it

- where the value is made in the segment and somebody there reads it; what only others read is brought to them outside;
- where the value is given to the scope, or is a parameter, and all that read it are in the segment.

Backward runs a segment again up to the last node that keeps something; what comes after that node is not needed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from .assignment import Assembly, Fanout


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """The segments of one scope.

    Parameters
    ----------
    scope
        Index of the assembly.
    names
        Node → segment, of the nodes that are in one.
    places
        Node → position in the scope.
    makers
        Value → node that makes it.
    """

    scope: int
    names: Mapping[str, str]
    places: Mapping[str, int]
    makers: Mapping[str, str]

    @staticmethod
    def of(assembly: Assembly, scope: int) -> Segments:
        """Return the segments of an assembly, of which `scope` is the index."""
        return Segments(
            scope=scope,
            names={a.node.name: a.segment for a in assembly.nodes if a.segment},
            places={a.node.name: place for place, a in enumerate(assembly.nodes)},
            makers={value.name: a.node.name for a in assembly.nodes for value in a.node.results},
        )

    def __bool__(self) -> bool:
        return bool(self.names)

    def made_in(self, value: str) -> str:
        """Return the segment that a value is made in; empty for none."""
        return self.names.get(self.makers.get(value, ""), "")

    def around(self, fanout: Fanout) -> str:
        """Return the segment that a fan-out of the scope belongs to; empty for none."""
        readers = {self.names.get(r.node, "") if r.scope == self.scope else "" for r in fanout.readers}
        if fanout.kind == "activation":
            made = self.made_in(fanout.value)
            return made if made in readers else ""
        return readers.pop() if len(readers) == 1 else ""

    def last(self, keeping: Collection[str]) -> dict[str, int]:
        """Return, for every segment that keeps something, the position of the last of its nodes in `keeping`."""
        return {
            segment: self.places[node]
            for node, segment in sorted(self.names.items(), key=lambda pair: self.places[pair[0]])
            if node in keeping
        }

    def repeated(self, last: Mapping[str, int]) -> frozenset[str]:
        """Return the nodes that run once more in backward, if `last` is what a segment's `last` ones are."""
        return frozenset(node for node, segment in self.names.items() if self.places[node] <= last.get(segment, -1))

    def repeats(self, fanout: Fanout, last: Mapping[str, int]) -> bool:
        """Return whether a fan-out runs once more: it comes after what makes the value, or before its first reader."""
        until = last.get(self.around(fanout), -1)
        if fanout.kind == "activation":
            return fanout.value in self.makers and self.places[self.makers[fanout.value]] < until
        return any(self.places.get(r.node, until + 1) <= until for r in fanout.readers)
