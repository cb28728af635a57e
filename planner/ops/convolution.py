"""Convolutions over one to three spatial dims, with groups, and their transposes.

Batch, groups and both channels are factors as in a product of matrices; sharding space is free where windows do not
overlap, and needs a halo where they do (`window`, `halo`).
"""

from __future__ import annotations

from math import prod

from ..core.graph import Node
from ..core.rule import Factors, ShardingRule
from ..core.strategy import ShardStrategy
from ..core.symbol import Size
from ..core.tensor import TensorMeta
from .definition import Attributes, Cuts, Local, OpDef, Parts, Shape, shapes_of, space
from .halo import haloed
from .lines import text
from .parts import PartsOf
from .window import Spatial, Window, numbers, spatial, whole_number, windows


def _groups(attributes: Attributes) -> int:
    groups = attributes.get("groups", 1)
    assert isinstance(groups, int)
    return groups


def _windows(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[Window, ...]:
    x, weight = operands[:2]
    ones = {"stride": (1,) * (len(x.shape) - 2)}
    return windows(ones | dict(attributes), x.shape[2:], weight.shape[2:])


def _infer(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
    x, weight = operands[:2]
    return (TensorMeta((x.shape[0], weight.shape[0], *(w.out for w in _windows(operands, attributes))), x.dtype),)


def _parse(
    weight: tuple[Factors, ...], dims: Spatial, operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...],
    groups: int,
) -> ShardingRule:  # fmt: skip
    """Return the rule; `weight` has the factors of the weight's first two dims."""
    incoming, outgoing = (("g", "i"), ("g", "o")) if groups > 1 else (("i",), ("o",))
    bias = len(operands) == 3
    line = f"{text((('batch',), incoming, *dims.operand))}, {text((*weight, *dims.kernel))}"
    line += f"{f', {text((outgoing,))}' if bias else ''} -> {text((('batch',), outgoing, *dims.result))}"
    sizes: dict[str, Size] = dict(dims.sizes)
    if groups > 1:
        sizes["g"] = groups
    return ShardingRule.parse(
        line, shapes=shapes_of(operands + results), names=("x", "weight", "bias"),
        terms="x*weight + bias" if bias else "x*weight", sizes=sizes, blocked=dims.kernel_blocked | dims.blocked,
        special=dims.special, even=dims.even | {"g"}, least=dims.least,
    )  # fmt: skip


def _rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], attributes: Attributes) -> ShardingRule:
    groups = _groups(attributes)
    weight = (("g", "o") if groups > 1 else ("o",), ("i",))
    return _parse(weight, spatial(_windows(operands, attributes)), operands, results, groups)


def _flops(operands: tuple[Shape, ...], results: tuple[Shape, ...]) -> float:
    return 2.0 * prod(results[0]) * prod(operands[1][1:])


def _torch(local: Local) -> str:
    count = len(local.operands[0]) - 2
    attributes = dict(local.node.attributes)
    values = {
        "stride": numbers(attributes, "stride", count, [1] * count),
        "padding": numbers(attributes, "padding", count, [0] * count),
        "dilation": numbers(attributes, "dilation", count, [1] * count),
        "groups": local.sizes.get("g", 1),
    }
    blocks = _local_blocks(local, attributes, count)
    listed = ", ".join([*local.arguments, *(f"{name}={value}" for name, value in values.items())])
    if prod(blocks) == 1 and _equal_parts(local):
        return f"F.conv{count}d({listed})"
    return f"windows.convolution({listed}{f', blocks={blocks}' if prod(blocks) > 1 else ''})"


def _local_blocks(local: Local, attributes: Attributes, count: int) -> tuple[int, ...]:
    whole = numbers(attributes, "blocks", count, [1] * count)
    return tuple(
        whole_number(int(local.sizes[name])) if n > 1 else 1 for name, n in zip(space(count), whole, strict=True)
    )


def _parts(node: Node, strategy: ShardStrategy, cuts: Cuts) -> Parts:
    """Extend the operand along its sharded dims, then convolve each block without padding there."""
    if not any(strategy.axes(f) for f in node.rule.special):
        return ()
    parts = PartsOf(CONVOLUTION, node, strategy)
    x, weight, bias = (parts.operand(name) for name in ("x", "weight", "bias"))
    assert x is not None
    assert weight is not None
    attributes = dict(node.attributes)
    over = dict(zip(space(len(x[1].shape) - 2), _windows((x[1], weight[1]), attributes), strict=True))
    x, blocks = haloed(parts, x, over, cuts, fill=0.0)
    attributes |= {
        "blocks": tuple(blocks.get(name, 1) for name in over),
        "padding": tuple(0 if name in blocks else window.padding for name, window in over.items()),
    }
    carrying = {name: name for name in ("x", "weight", "bias")}
    parts.add(CONVOLUTION, (x, weight, bias), attributes=attributes, carrying=carrying, last=True)
    return parts.finished()


def _transposed_windows(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[tuple[Size, Window], ...]:
    """Return the size of each result dim, and the window that leads from there to the operand."""
    x, weight = operands[:2]
    count = len(x.shape) - 2
    extra = numbers(attributes, "output_padding", count, [0] * count)
    ones = {"stride": (1,) * count}
    given = windows(ones | dict(attributes), x.shape[2:], weight.shape[2:])
    out = (
        (whole_number(w.size) - 1) * w.stride - 2 * w.padding + w.reach + e for w, e in zip(given, extra, strict=True)
    )
    return tuple((n, w) for n, w in zip(out, given, strict=True))


def _transposed_infer(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
    x, weight = operands[:2]
    channels = whole_number(weight.shape[1]) * _groups(attributes)
    return (TensorMeta((x.shape[0], channels, *(n for n, _ in _transposed_windows(operands, attributes))), x.dtype),)


def _transposed_rule(
    operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], attributes: Attributes
) -> ShardingRule:
    groups = _groups(attributes)
    names = space(len(operands[0].shape) - 2)
    blocked: dict[str, str] = {}
    operand: list[Factors] = []
    result: list[Factors] = []
    for name, (out, window) in zip(names, _transposed_windows(operands, attributes), strict=True):
        if (window.reach, window.padding) == (window.stride, 0) and out == window.size * window.stride:
            blocked[f"{name}s"] = "the rows that one row makes stay together"
            operand.append((name,))
            result.append((name, f"{name}s"))
        else:
            blocked |= dict.fromkeys((f"{name}_in", name), "the rows that neighbouring rows make overlap")
            operand.append((f"{name}_in",))
            result.append((name,))
    dims = Spatial(
        operand=tuple(operand), kernel=tuple((f"k{name}",) for name in names), result=tuple(result), sizes={},
        blocked=blocked, special=frozenset(), even=frozenset(), least={},
    )  # fmt: skip
    weight = (("g", "i") if groups > 1 else ("i",), ("o",))
    return _parse(weight, dims, operands, results, groups)


def _transposed_torch(local: Local) -> str:
    count = len(local.operands[0]) - 2
    attributes = dict(local.node.attributes)
    values = {
        "stride": numbers(attributes, "stride", count, [1] * count),
        "padding": numbers(attributes, "padding", count, [0] * count),
        "output_padding": numbers(attributes, "output_padding", count, [0] * count),
        "groups": local.sizes.get("g", 1),
        "dilation": numbers(attributes, "dilation", count, [1] * count),
    }
    listed = ", ".join([*local.arguments, *(f"{name}={value}" for name, value in values.items())])
    return f"F.conv_transpose{count}d({listed})" if _equal_parts(local) else f"windows.conv_transpose({listed})"


def _equal_parts(local: Local) -> bool:
    """Say whether all ranks have the same sizes, so that none is without samples or channels."""
    return all(isinstance(n, int) for shape in (*local.operands, *local.results) for n in shape)


def _transposed_flops(operands: tuple[Shape, ...], _: tuple[Shape, ...]) -> float:
    return 2.0 * prod(operands[0]) * prod(operands[1][1:])


CONVOLUTION = OpDef(
    name="convolution",
    summary="Σ x[i + window] · weight, plus bias if it has one, over one to three spatial dims",
    operands=("x", "weight", "bias?"),
    infer=_infer,
    rule=_rule,
    flops=_flops,
    backward_flops=lambda operands, results: 2 * _flops(operands, results),
    saved=("x", "weight"),
    differentiable=("x", "weight", "bias"),
    matmul=True,
    torch=_torch,
    parts=_parts,
)
CONV_TRANSPOSE = OpDef(
    name="conv_transpose",
    summary="the transpose of a convolution: every element spreads over a window",
    operands=("x", "weight", "bias?"),
    infer=_transposed_infer,
    rule=_transposed_rule,
    flops=_transposed_flops,
    backward_flops=lambda operands, results: 2 * _transposed_flops(operands, results),
    saved=("x", "weight"),
    differentiable=("x", "weight", "bias"),
    matmul=True,
    torch=_transposed_torch,
)
