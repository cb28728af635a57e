"""What every layer and every operator outside of the layers costs, so that a model can be cut into balanced stages.

What is priced as a whole is attributed: a node's computation and what it keeps to the node, a collective to the
operator that makes the value, those of a parameter or an input to its first reader.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from ..core.assignment import TrainingGraph
from ..core.cluster import ClusterSpec
from ..core.plan import Decisions
from ..core.timeline import StageTimes
from ..hardware import precision as named_precision
from .compute import backward_time, forward_time, repeated_time
from .evaluate import price
from .items import ACTIVATIONS, LOSS, RECOMPUTED, RESERVED, TRANSIENT

Key = tuple[str, int]
"""Root item and iteration of it."""


@dataclass(slots=True)
class _Sum:
    forward: float = 0.0
    backward: float = 0.0
    again: float = 0.0
    activation: float = 0.0
    resident: float = 0.0


@dataclass(slots=True, kw_only=True)
class _Places:
    """Finds the item that something belongs to."""

    training: TrainingGraph
    makers: dict[str, str] = field(default_factory=dict)
    readers: dict[str, str] = field(default_factory=dict)
    titles: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        root, *runs = self.training.scopes
        self.titles = {run.assembly.title: index for index, run in enumerate(runs, start=1)}
        for assigned in root.assembly.nodes:
            item = assigned.node.origin or assigned.node.name
            self.makers.update({value.name: item for value in assigned.node.results})
            self.makers[assigned.node.name] = item
        for fanout in root.fanouts:
            for reader in fanout.readers:
                scope = self.training.scopes[reader.scope].assembly
                item = scope.title if reader.scope else self.makers.get(reader.node, reader.node)
                self.readers.setdefault(fanout.value, item)

    def of(self, scope: str, name: str) -> str:
        """Return a root item, or the title of a run."""
        return scope or self.makers.get(name) or self.readers.get(name, "")


def unit_times(training: TrainingGraph, decisions: Decisions, cluster: ClusterSpec) -> dict[Key, StageTimes]:
    """Return what a microbatch of each unit costs, messages left out.

    Parameters
    ----------
    training
        Of the model in one piece.
    """
    precision, count = named_precision(decisions.precision), decisions.microbatches
    priced = price(training, count, precision, cluster)
    places = _Places(training=training)
    sums: defaultdict[str, _Sum] = defaultdict(_Sum)
    for work in priced.works:
        at = sums[places.of(work.title, work.node.name)]
        at.forward += work.count * forward_time(work, precision, cluster.device).seconds
        at.backward += work.count * backward_time(work, precision, cluster.device).seconds
        at.again += work.count * repeated_time(work, precision, cluster.device).seconds
    for row in priced.rows:
        # What hides behind computation is not counted.
        if row.phase != "update" and not row.parameter:
            at = sums[places.of(row.scope, row.value)]
            seconds = row.seconds * row.count / count
            at.forward += seconds if row.phase == "forward" else 0.0
            at.backward += seconds if row.phase == "backward" else 0.0
    for thing in priced.held:
        at = sums[places.of(thing.scope, thing.name)]
        if thing.item in {ACTIVATIONS, LOSS}:
            at.activation += thing.total
        elif thing.item not in {RECOMPUTED, RESERVED, TRANSIENT}:
            at.resident += thing.total
    found: dict[Key, StageTimes] = {}
    for run in training.scopes[1:]:
        assembly = run.assembly
        for layer in range(assembly.start, assembly.stop):
            found[assembly.name, layer] = _times(sums[assembly.title], assembly.count)
    for item in {places.of("", n.node.name) for n in training.scopes[0].assembly.nodes}:
        found[item, 0] = _times(sums[item], 1)
    return found


def _times(total: _Sum, count: int) -> StageTimes:
    return StageTimes(
        forward=total.forward / count, backward_input=total.backward / count, backward_weight=0.0,
        recompute=total.again / count,
        activation=total.activation / count, weight_gradient=total.activation / count,
        resident=total.resident / count,
    )  # fmt: skip
