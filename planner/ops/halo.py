"""Rows that shards of a spatial dim need of their neighbours, by two ordinary operators.

`borders` takes the first and last rows of every shard; they are few, and are gathered like any other value. `extend`
then puts its neighbours' rows (at the edge of the whole, a constant) around each shard; its windows need no more.
Backward follows by the general rules: each device's gradient of the borders is partial, and a reduce-scatter brings it
home. Both see the sharded dim as *blocks*, one a shard: `(p r)`; the other dims are `d0 d1 …`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ..core.mesh import Axes
from ..core.rule import ShardingRule
from ..core.tensor import TensorMeta
from .definition import Attributes, Cuts, Local, OpDef, shapes_of
from .parts import Named, PartsOf
from .pointwise import literal
from .window import Window, whole_number

_ROWS = "which rows are taken depends on the whole block"


def haloed(
    parts: PartsOf, x: Named, over: Mapping[str, Window], cuts: Cuts, fill: float
) -> tuple[Named, dict[str, int]]:
    """Add the parts that extend x along its sharded spatial dims.

    Parameters
    ----------
    over
        Windows of the spatial dims, by factor, in order.
    fill
        What lies beyond the edge of the whole.

    Returns
    -------
    x, blocks
        The extended value, and the number of blocks of each dim that was extended.
    """
    dims = parts.node.rule.operands[0]
    held: list[Axes] = [tuple(a for f in dim for a in parts.strategy.axes(f)) for dim in dims]
    first = parts.op.operand_names.index("x")
    kept = [axis for axis, carriers in parts.strategy.kept if first in carriers]
    blocks: dict[str, int] = {}
    for dim, name in enumerate(over, start=len(dims) - len(over)):
        shards = cuts[name].shards
        if shards == 1 or not over[name].halo:
            continue
        axes = {f"d{i}": a for i, a in enumerate(held) if i != dim} | {"p": held[dim]}
        attributes = {"dim": dim, "blocks": shards, "before": over[name].before, "after": over[name].after}
        borders = parts.add(
            BORDERS, (x,), role=f"borders_{name}", attributes=attributes, axes=axes, kept=dict.fromkeys(kept, (0,))
        )
        x = parts.add(
            EXTEND, (x, borders), role=f"extend_{name}", attributes=attributes | {"fill": fill}, axes=axes,
            kept=dict.fromkeys(kept, (0, 1)),
        )  # fmt: skip
        blocks[name] = shards
    return x, blocks


def _fields(attributes: Attributes) -> tuple[int, int, int]:
    """Return dim, blocks, and rows added to a block."""
    dim, blocks, before, after = (attributes[name] for name in ("dim", "blocks", "before", "after"))
    assert isinstance(dim, int)
    assert isinstance(blocks, int)
    assert isinstance(before, int)
    assert isinstance(after, int)
    return dim, blocks, before + after


def _resized(meta: TensorMeta, dim: int, size: int) -> TensorMeta:
    return TensorMeta((*meta.shape[:dim], size, *meta.shape[dim + 1 :]), meta.dtype)


def _borders_infer(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
    dim, blocks, added = _fields(attributes)
    return (_resized(operands[0], dim, blocks * added),)


def _extend_infer(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
    dim, blocks, added = _fields(attributes)
    return (_resized(operands[0], dim, whole_number(operands[0].shape[dim]) + blocks * added),)


def _line(rank: int, dim: int, at: str) -> str:
    return " ".join(at if i == dim else f"d{i}" for i in range(rank))


def _borders_rule(
    operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], attributes: Attributes
) -> ShardingRule:
    (dim, blocks, _), rank = _fields(attributes), len(operands[0].shape)
    return ShardingRule.parse(
        f"{_line(rank, dim, '(p r)')} -> {_line(rank, dim, '(p b)')}", shapes=shapes_of(operands + results),
        names=("x",), terms="x", sizes={"p": blocks}, blocked={"r": _ROWS, "b": _ROWS}, even=frozenset({"p"}),
    )  # fmt: skip


def _extend_rule(
    operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], attributes: Attributes
) -> ShardingRule:
    (dim, blocks, _), rank = _fields(attributes), len(operands[0].shape)
    return ShardingRule.parse(
        f"{_line(rank, dim, '(p r)')}, {_line(rank, dim, 'b')} -> {_line(rank, dim, '(p e)')}",
        shapes=shapes_of(operands + results), names=("x", "borders"), sizes={"p": blocks},
        terms="x + borders" if attributes["fill"] == 0 else "",
        blocked={"r": _ROWS, "b": "a block reads rows of both neighbours", "e": _ROWS}, even=frozenset({"p"}),
    )  # fmt: skip


def _arguments(local: Local) -> list[str]:
    names = ("dim", "before", "after")
    return [f"blocks={local.sizes['p']}", *(f"{name}={local.attribute(name)}" for name in names)]


def _extend_torch(local: Local) -> str:
    arguments = [*local.arguments, f"first={local.start.get('p', '0')}", *_arguments(local)]
    if local.attribute("fill") != 0:
        arguments.append(f"fill={literal(local.attribute('fill'))}")
    return f"windows.extend({', '.join(arguments)})"


def _elements(shapes: Sequence[tuple[int, ...]]) -> float:
    return float(sum(map(prod, shapes)))


BORDERS = OpDef(
    name="borders",
    summary="first and last rows of every shard, for its neighbours",
    operands=("x",),
    infer=_borders_infer,
    rule=_borders_rule,
    flops=lambda _operands, _results: 0.0,
    backward_flops=lambda _operands, results: _elements(results),
    sparse=("x",),
    differentiable=("x",),
    torch=lambda local: f"windows.borders({', '.join([*local.arguments, *_arguments(local)])})",
)
EXTEND = OpDef(
    name="extend",
    summary="every shard with its neighbours' rows around it",
    operands=("x", "borders"),
    infer=_extend_infer,
    rule=_extend_rule,
    flops=lambda _operands, _results: 0.0,
    backward_flops=lambda _operands, results: _elements(results),
    sparse=("borders",),
    differentiable=("x", "borders"),
    torch=_extend_torch,
)
