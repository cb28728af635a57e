"""Nouns of the path's middle: from strategies on nodes to the collectives of a training step.

```text
Assignment      every node has its strategy, every parameter its layouts
ShardedGraph    every value with its readers (Fanout) has its forward redistributions
TrainingGraph   … and its backward redistributions
```

A repeated block is cut into *runs* of layers that are assigned alike; a run is a `Scope` that is worked out once and
counts `count` times, so nothing here grows with the number of layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import Diagnostic
from .bucket import Bucket
from .collective import Redistribution
from .graph import ModelGraph, Node, Parameter
from .layers import Layers, list_of, templates
from .layout import Layout
from .mesh import DeviceMesh
from .strategy import ShardStrategy
from .tensor import TensorMeta

Symbols = frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedNode:
    """A node with its strategy and the layouts that follow from it.

    Parameters
    ----------
    segment
        The piece of its scope that is computed again in backward and that it is in, `core.segments`; empty if its
        results are kept.
    """

    node: Node
    strategy: ShardStrategy
    operands: tuple[Layout, ...]
    results: tuple[Layout, ...]
    segment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterLayout:
    """Where a parameter, its gradient and its optimizer state lie.

    Parameters
    ----------
    regather
        True if readers' copies are dropped after forward and redistributed again in backward.
    deferred
        True if raw gradients are kept over the microbatches and redistributed once a step.
    place, optimizer_place
        `device` or `host`: where the stored values lie, and the optimizer's state.
    """

    parameter: Parameter
    storage: Layout
    gradient: Layout
    optimizer: Layout
    regather: bool = False
    deferred: bool = False
    place: str = "device"
    optimizer_place: str = "device"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The assigned nodes of one scope: the root block, or the iterations `start … stop-1` of a repeated block.

    Parameters
    ----------
    name
        Empty for the root; else the repeat's name.
    start, stop
        For a run, its iterations of the repeat.
    period
        Number of layers that an iteration runs.
    inputs
        The block's inputs with their layouts. For a run, carried inputs come first; a captured input is not listed,
        since it is redistributed outside the loop.
    carried
        Pairs (input name, output name) of what goes from layer to layer; both have the same layout.
    operands, results
        For a run, the outer values bound to carried and captured inputs, and the outer results.
    """

    name: str
    start: int = 0
    stop: int = 1
    nodes: tuple[AssignedNode, ...]
    parameters: tuple[ParameterLayout, ...]
    inputs: tuple[tuple[str, TensorMeta, Layout], ...]
    carried: tuple[tuple[str, str], ...] = ()
    operands: tuple[tuple[str, str], ...] = ()
    results: tuple[str, ...] = ()
    position: int = 0
    period: int = 1

    _placed: Mapping[str, ParameterLayout] = field(init=False, repr=False, compare=False)
    _assigned: Mapping[str, AssignedNode] = field(init=False, repr=False, compare=False)
    _title: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Readers ask by name, once each: looking through all would grow with the square of an unrolled model.
        object.__setattr__(self, "_placed", {placed.parameter.name: placed for placed in self.parameters})
        object.__setattr__(self, "_assigned", {assigned.node.name: assigned for assigned in self.nodes})
        first, last = self.layers.first, self.layers.last
        several = f"-{last}" if last > first else ""
        object.__setattr__(self, "_title", f"{self.path}.{first}{several}" if self.name else "")

    def parameter(self, name: str) -> ParameterLayout | None:
        """Return where a parameter lies; None if the scope has none of this name."""
        return self._placed.get(name)

    def node(self, name: str) -> AssignedNode | None:
        """Return an assigned node; None if the scope has none of this name."""
        return self._assigned.get(name)

    @property
    def count(self) -> int:
        """How many iterations the scope stands for."""
        return self.stop - self.start

    @property
    def path(self) -> str:
        """Path of the list of layers that a run runs through."""
        return list_of(self.name)[0]

    @property
    def layers(self) -> Layers:
        """The layers of the list that a run runs through."""
        whole = list_of(self.name)[1] or Layers(0, self.stop)
        return whole.part(self.start * self.period, self.stop * self.period)

    @property
    def templates(self) -> tuple[str, ...]:
        """Paths of the layers of one iteration, with tokens for their indices; the path of the root for the root."""
        return templates(self.name, self.period) if self.name else ("",)

    @property
    def title(self) -> str:
        """Path of the list with the range of layers, for people."""
        return self._title


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Every node's strategy and every parameter's layouts.

    Parameters
    ----------
    assemblies
        The root first, then the runs of each repeated block in order.
    diagnostics
        What the decisions led to and a person should know, e.g. a parameter that could not be sharded further.
    """

    graph: ModelGraph
    mesh: DeviceMesh
    symbols: Symbols
    assemblies: tuple[Assembly, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One operand slot that reads a value.

    Parameters
    ----------
    node
        Name of the reading node, or of the run that carries the value in.
    operand
        Position of the slot.
    layout
        Operand layout that the reader's strategy asks for.
    raw
        Layout of the gradient that the reader's local backward hands back; None if no gradient flows here.
    scope
        Index of the assembly that the reader is in.
    """

    node: str
    operand: int
    layout: Layout
    raw: Layout | None
    scope: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One redistribution of a fan-out, forward or backward, with the positions of the readers that share it."""

    readers: tuple[int, ...]
    redistribution: Redistribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Fanout:
    """A value with all its readers: the unit of redistribution and of its backward.

    Parameters
    ----------
    kind
        `activation`, `parameter`, `input`, or `carry` (from layer to layer of a run).
    source
        Layout in which the value lies.
    gradient
        Layout of the finished gradient; None if the value needs none.
    forward
        One delivery per distinct operand layout.
    backward
        One delivery per distinct raw layout; the raw gradients of its readers are added first.
    regather
        Whether the readers' copies are dropped after forward.
    again
        Forward deliveries that run once more in backward: of a parameter that was let go, each for one reader that
        needs it there; in a segment that is computed again, each once.
    deferred
        Whether the backward deliveries run once a step, on raw gradients that were added over the microbatches.
    host
        Whether this is a parameter that is stored on the host, and fetched before the deliveries, the first and the
        further ones: then `again` has those without steps too.
    bucketed
        Whether some of the backward deliveries are members of a `Bucket`.
    """

    value: str
    kind: str
    meta: TensorMeta
    shape: tuple[int, ...]
    source: Layout
    gradient: Layout | None
    readers: tuple[Reader, ...]
    forward: tuple[Delivery, ...] = ()
    backward: tuple[Delivery, ...] = ()
    regather: bool = False
    again: tuple[Delivery, ...] = ()
    deferred: bool = False
    host: bool = False
    bucketed: bool = False

    @property
    def apart(self) -> bool:
        """Whether this is a parameter whose gradient is kept beside it: it lies elsewhere, or comes later."""
        if self.kind != "parameter" or self.gradient is None:
            return False
        return self.deferred or self.bucketed or self.host or self.gradient != self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """How a parameter is updated once a step, where its optimizer's state lies.

    Parameters
    ----------
    master
        Storage → optimizer layout, once before the first step.
    gradient
        Gradient layout → optimizer layout, every step.
    values
        Optimizer layout → storage, every step.
    """

    parameter: str
    master: Redistribution
    gradient: Redistribution
    values: Redistribution

    @property
    def apart(self) -> bool:
        """Whether the optimizer's state lies in another layout than the parameter."""
        return self.values.source != self.values.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """An assembly with the fan-outs of its values, and in a training graph the updates of its parameters.

    Parameters
    ----------
    repeated
        Names of the nodes that run once more in backward: those of a segment up to the last one that keeps something.
    """

    assembly: Assembly
    fanouts: tuple[Fanout, ...]
    updates: tuple[Update, ...] = ()
    repeated: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedGraph:
    """An assignment with every forward redistribution."""

    assignment: Assignment
    scopes: tuple[Scope, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingGraph:
    """A sharded graph with every backward redistribution and every parameter's update.

    Parameters
    ----------
    buckets
        Backward deliveries of parameters that share collectives, in the order in which backward completes them; a
        delivery that is in none is done by itself.
    """

    assignment: Assignment
    scopes: tuple[Scope, ...]
    buckets: tuple[Bucket, ...] = ()
