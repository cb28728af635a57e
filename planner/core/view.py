"""What a person looks at: the folded graph of a plan, with cells, badges and choices. Plain values, ready to draw.

The front end draws these and computes nothing of its own. Ids are `scope title:name`, so they survive edits that leave
the scope's layers together.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One dim of a tensor.

    Parameters
    ----------
    factors
        The factors that the dim is made of in the reading or making operator.
    size
        Global size as a polynomial, e.g. `B` or `4096`.
    total, local, least
        Size in numbers: over all ranks, on the rank with the largest part, and on the one with the smallest; the last
        two are equal unless the dim is cut into unequal parts.
    axes
        Mesh axes that shard it, major first.
    """

    factors: tuple[str, ...]
    size: str
    total: int
    local: int
    least: int
    axes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorView:
    """An operand or result slot, or a value, in one layout.

    Parameters
    ----------
    slot
        The operator's name for it, e.g. `x` or `weight`.
    value
        Name of the value or parameter.
    local_bytes
        Bytes on one rank.
    """

    slot: str
    value: str
    dtype: str
    layout: str
    cells: tuple[Cell, ...]
    partial: tuple[str, ...]
    reduce: str
    local_bytes: int
    parameter: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorView:
    """A factor of an operator.

    Parameters
    ----------
    role
        `pass-through`, `reduction`, `special` or `blocked`.
    reason
        Why a blocked factor may not be sharded.
    pinned
        Whether a decision names it; otherwise its axes follow the operands.
    pins
        Targets of the decisions that name it.
    touches
        Pairs (slot, dim) that it is an index of.
    """

    name: str
    size: int
    role: str
    reason: str
    axes: tuple[str, ...]
    pinned: bool
    pins: tuple[str, ...] = ()
    touches: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """An operator.

    Parameters
    ----------
    target
        The path by which decisions name it.
    group
        Id of the group that it is drawn in.
    layers
        How many layers it stands for.
    forward_s, backward_s
        Seconds of one execution on a rank, without communication.
    recomputed
        Whether its results are not kept for backward, but computed again there.
    """

    id: str
    name: str
    label: str
    op: str
    summary: str
    target: str
    group: str
    scope: str
    layers: int
    rule: str
    terms: str
    operands: tuple[TensorView, ...]
    results: tuple[TensorView, ...]
    factors: tuple[FactorView, ...]
    forward_s: float
    backward_s: float
    recomputed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """A collective on an edge.

    Parameters
    ----------
    readers
        Ids of the nodes that it serves (forward) or whose gradients it finishes (backward); none where it brings a
        finished gradient to the optimizer's state or new values from it.
    payload_bytes
        Bytes of the larger of its input and output on a rank.
    seconds
        Time of one.
    count
        How often it runs in a step.
    buckets
        Positions among the view's buckets of those that do this for several gradients at once; the numbers here are
        those that it would have by itself. Empty for a collective of its own.
    """

    phase: str
    kind: str
    axes: tuple[str, ...]
    group_size: int
    payload_bytes: int
    wire_bytes: float
    seconds: float
    count: int
    source: str
    target: str
    readers: tuple[str, ...]
    buckets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketView:
    """Gradients that are reduced together, or several such buckets that differ in their layers alone.

    Parameters
    ----------
    edges
        Ids of the parameters, in the order in which they are packed.
    gradients
        How many gradients one bucket has, layers counted one by one.
    layers
        How many layers one bucket has; 0 for a bucket of all that its parameters stand for.
    count
        How many buckets it stands for.
    nbytes
        Bytes of raw gradients in one bucket on a rank, before they are compressed; in the largest if they differ.
    seconds
        Time of all collectives of one bucket, of the largest if they differ.
    collectives
        How many collectives one bucket takes.
    runs
        How often a bucket of these is reduced in a step.
    calls
        Kind and axes of each collective that they share, one after the other.
    deferred
        Whether it is reduced once a step, and not after every microbatch.
    """

    edges: tuple[str, ...]
    gradients: int
    layers: int
    count: int
    nbytes: int
    seconds: float
    collectives: int
    runs: int
    calls: tuple[tuple[str, tuple[str, ...]], ...]
    deferred: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeView:
    """A value with its readers: one hyperedge, which carries each collective once.

    Parameters
    ----------
    producer
        Id of the node that makes it; empty for inputs and parameters.
    readers
        Ids of the nodes that read it.
    kind
        `activation`, `parameter`, `input` or `carry`.
    gradient
        Layout of its finished gradient; empty if it has none.
    regather
        Whether the readers' copies of a parameter are dropped after forward and fetched again in backward.
    optimizer
        Layout of a parameter's optimizer state; empty for other values.
    deferred
        Whether a parameter's raw gradients are reduced once a step.
    place, optimizer_place
        `device` or `host`: where a parameter and its optimizer state lie; empty for other values.
    """

    id: str
    value: str
    label: str
    kind: str
    producer: str
    readers: tuple[str, ...]
    tensor: TensorView
    gradient: str
    badges: tuple[Badge, ...]
    regather: bool = False
    optimizer: str = ""
    deferred: bool = False
    place: str = ""
    optimizer_place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A module, a run of layers, or an operator that is made of parts.

    Parameters
    ----------
    parent
        Id of the group around it; empty for the topmost.
    layers
        How many layers it stands for; 1 outside repeated blocks.
    start, total
        For a run of layers, its first layer and the number of layers of the whole list; else 0.
    step
        For a run of layers that alternate with others, from one of them to the next.
    """

    id: str
    path: str
    label: str
    class_name: str
    parent: str
    layers: int
    start: int = 0
    step: int = 1
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """The folded graph of a plan; its buckets of gradients in the order in which backward completes them."""

    model: str
    mesh: tuple[tuple[str, int], ...]
    groups: tuple[GroupView, ...]
    nodes: tuple[NodeView, ...]
    edges: tuple[EdgeView, ...]
    buckets: tuple[BucketView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What clicking an axis at a factor would do.

    Parameters
    ----------
    on
        Whether the axis is on the factor now.
    legal
        Whether the click is allowed; if not, `reason` and `remedy` say why not and what to do.
    sets
        Pairs (factor, axes) that the click sets; an axis that is on another factor moves.
    """

    factor: str
    axis: str
    on: bool
    legal: bool
    reason: str
    remedy: str
    sets: tuple[tuple[str, tuple[str, ...]], ...]
