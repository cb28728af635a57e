"""Gradients of parameters that are reduced together: what one collective of several gradients is made of.

Invariant: the members of a bucket go through the same communicating steps over the same axes, and become ready in the
same pass through the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from .collective import Redistribution, Step
from .mesh import Axes, DeviceMesh

PACKED = ("all_reduce", "reduce_scatter")
"""Kinds of collectives that several gradients can share."""
LOCAL = ("pad", "slice", "zero")
"""Steps that each gradient does by itself, whatever it shares the others with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """The reduction of one parameter's gradient, in iterations `start … stop-1` of its scope.

    Parameters
    ----------
    scope
        Index of the scope that has the parameter; 0 for the root, whose only iteration is 0.
    way
        Position of the delivery among the parameter's backward deliveries.
    moved
        Raw gradient → gradient layout.
    """

    scope: int
    parameter: str
    way: int
    start: int
    stop: int
    moved: Redistribution

    @property
    def iterations(self) -> int:
        """How many layers it stands for."""
        return self.stop - self.start

    @property
    def shared(self) -> tuple[Step, ...]:
        """The steps that communicate."""
        return tuple(step for step in self.moved.steps if step.kind not in LOCAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Reductions that share their collectives, or several such buckets that differ in their layers alone.

    Parameters
    ----------
    members
        In the order in which they are packed.
    together
        Layers of one bucket, the last ones first, where this stands for a bucket for every so many layers of a run; 0
        where it is one bucket of all that its members stand for.
    deferred
        Whether they run once a step.
    """

    members: tuple[Reduced, ...]
    together: int = 0
    deferred: bool = False

    @property
    def calls(self) -> tuple[tuple[str, Axes], ...]:
        """Kind and axes of each collective that the members share, one after the other."""
        return tuple((step.kind, step.axes) for step in self.members[0].shared)

    @property
    def cuts(self) -> tuple[tuple[int, int], ...]:
        """How many layers a bucket has, and how many such buckets there are; layers are 0 for a bucket of all."""
        if not self.together:
            return ((0, 1),)
        full, rest = divmod(self.members[0].iterations, self.together)
        return (*(((self.together, full),) if full else ()), *(((rest, 1),) if rest else ()))

    @property
    def count(self) -> int:
        """How many buckets it stands for."""
        return sum(times for _, times in self.cuts)

    def elements(self, call: int, layers: int, mesh: DeviceMesh, rank: int | None = None) -> tuple[int, int]:
        """Return the elements that a rank passes into a collective of one bucket, and gets out of it.

        Parameters
        ----------
        call
            Position in `calls`.
        layers
            Of `cuts`: layers of the bucket.
        rank
            Whose; by default the largest that any rank passes.
        """
        before = after = 0
        for member in self.members:
            step, times = member.shared[call], layers or member.iterations
            if rank is None:
                into, out = step.source_elements, step.target_elements
            else:
                into, out = (prod(x.shape_of(step.shape, mesh, rank)) for x in (step.source, step.target))
            before, after = before + times * into, after + times * out
        return before, after
