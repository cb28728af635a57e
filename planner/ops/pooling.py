"""Pooling and interpolation over one to three spatial dims.

Windows that lie side by side shard freely; those that overlap need a halo, as a convolution does (`window`, `halo`).
An adaptive average is a sum over the rows of each window divided by their number in the whole, so that even a window
may be cut.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, prod

from ..core.graph import Node
from ..core.rule import Factors, ShardingRule
from ..core.strategy import ShardStrategy
from ..core.symbol import Size
from ..core.tensor import TensorMeta
from ..errors import RuleError
from .definition import Attributes, Cuts, Local, OpDef, Parts, RuleOf, Shape, elements, shapes_of, space
from .halo import haloed
from .lines import text
from .parts import PartsOf
from .window import Window, numbers, spatial, whole_number, windows

_LEAD: tuple[Factors, ...] = (("batch",), ("channel",))
_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def _windows(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[Window, ...]:
    sizes = operands[0].shape[2:]
    return windows(attributes, sizes, numbers(attributes, "kernel", len(sizes), ()))


def _pool_infer(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
    x = operands[0]
    return (TensorMeta((*x.shape[:2], *(w.out for w in _windows(operands, attributes))), x.dtype),)


def _pool_rule(terms: str) -> RuleOf:
    def rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], attributes: Attributes) -> ShardingRule:
        dims = spatial(_windows(operands, attributes))
        return ShardingRule.parse(
            f"{text((*_LEAD, *dims.operand))} -> {text((*_LEAD, *dims.result))}",
            shapes=shapes_of(operands + results), names=("x",), terms=terms, sizes=dims.sizes, blocked=dims.blocked,
            special=dims.special, even=dims.even, least=dims.least,
        )  # fmt: skip

    return rule


def _pool_torch(local: Local) -> str:
    count = len(local.operands[0]) - 2
    attributes = dict(local.node.attributes)
    kernel = numbers(attributes, "kernel", count, ())
    values = {"stride": numbers(attributes, "stride", count, kernel)}
    values["padding"] = numbers(attributes, "padding", count, [0] * count)
    if local.node.op == "max_pool":
        values["dilation"] = numbers(attributes, "dilation", count, [1] * count)
    blocks = tuple(
        int(local.sizes[name]) if n > 1 else 1
        for name, n in zip(space(count), numbers(attributes, "blocks", count, [1] * count), strict=True)
    )
    listed = ", ".join([local.arguments[0], str(kernel), *(f"{name}={value}" for name, value in values.items())])
    equal = all(isinstance(n, int) for n in local.operands[0])
    if prod(blocks) == 1 and equal:
        return f"F.{'max' if local.node.op == 'max_pool' else 'avg'}_pool{count}d({listed})"
    return f"windows.{local.node.op}({listed}{f', blocks={blocks}' if prod(blocks) > 1 else ''})"


def _pool_parts(kind: str, fill: float) -> Callable[[Node, ShardStrategy, Cuts], Parts]:
    def write(node: Node, strategy: ShardStrategy, cuts: Cuts) -> Parts:
        if not any(strategy.axes(f) for f in node.rule.special):
            return ()
        op = POOLS[kind]
        parts = PartsOf(op, node, strategy)
        x = parts.operand("x")
        assert x is not None
        attributes = dict(node.attributes)
        over = dict(zip(space(len(x[1].shape) - 2), _windows((x[1],), attributes), strict=True))
        x, blocks = haloed(parts, x, over, cuts, fill)
        attributes |= {
            "stride": tuple(window.stride for window in over.values()),
            "blocks": tuple(blocks.get(name, 1) for name in over),
            "padding": tuple(0 if name in blocks else window.padding for name, window in over.items()),
        }
        parts.add(op, (x,), attributes=attributes, carrying={"x": "x"}, last=True)
        return parts.finished()

    return write


def _whole_windows(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[tuple[int, int], ...]:
    """Return, per spatial dim, rows and windows of an adaptive average."""
    sizes = operands[0].shape[2:]
    out = numbers(attributes, "size", len(sizes), ())
    pairs = tuple((whole_number(n), m) for n, m in zip(sizes, out, strict=True))
    uneven = next((pair for pair in pairs if not pair[1] or pair[0] % pair[1]), None)
    if uneven:
        raise RuleError(
            "rule.adaptive", f"{uneven[0]} rows make no {uneven[1]} windows of one size.",
            "Ask for a size that divides the rows.",
        )  # fmt: skip
    return pairs


def _adaptive_infer(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
    x = operands[0]
    return (TensorMeta((*x.shape[:2], *(m for _, m in _whole_windows(operands, attributes))), x.dtype),)


def _adaptive_rule(
    operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], attributes: Attributes
) -> ShardingRule:
    names = space(len(operands[0].shape) - 2)
    pairs = dict(zip(names, _whole_windows(operands, attributes), strict=True))
    rows = tuple((name, f"{name}s") for name in names)
    return ShardingRule.parse(
        f"{text((*_LEAD, *rows))} -> {text((*_LEAD, *((name,) for name in names)))}",
        shapes=shapes_of(operands + results), names=("x",), terms="x",
        sizes={name: count for name, (_, count) in pairs.items()},
    )  # fmt: skip


def _adaptive_torch(local: Local) -> str:
    names = space(len(local.operands[0]) - 2)
    whole = tuple(local.whole[f"{name}s"] for name in names)
    held = tuple(n if local.sizes[f"{name}s"] == n else 0 for name, n in zip(names, whole, strict=True))
    return f"windows.average({local.arguments[0]}, rows={held}, counts={whole})"


def _interpolate_infer(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
    x = operands[0]
    return (TensorMeta((*x.shape[:2], *numbers(attributes, "size", len(x.shape) - 2, ())), x.dtype),)


def _interpolate_rule(
    operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], attributes: Attributes
) -> ShardingRule:
    x, out = operands[0].shape[2:], results[0].shape[2:]
    rows: list[Factors] = []
    made: list[Factors] = []
    sizes: dict[str, Size] = {}
    blocked: dict[str, str] = {}
    for name, size, target in zip(space(len(x)), map(whole_number, x), map(whole_number, out), strict=True):
        groups = gcd(size, target)
        if attributes["mode"] == "nearest" and groups > 1:
            # So many rows of the result come from so many rows of x, again and again.
            sizes[name] = groups
            rows.append((name, f"{name}i") if size > groups else (name,))
            made.append((name, f"{name}o") if target > groups else (name,))
            blocked |= dict.fromkeys((f"{name}i", f"{name}o"), "rows that are made of the same ones stay together")
        else:
            blocked |= dict.fromkeys((f"{name}_in", name), "new rows lie between rows of neighbouring shards")
            rows.append((f"{name}_in",))
            made.append((name,))
    present = {factor for dim in (*rows, *made) for factor in dim}
    return ShardingRule.parse(
        f"{text((*_LEAD, *rows))} -> {text((*_LEAD, *made))}", shapes=shapes_of(operands + results), names=("x",),
        terms="x", sizes=sizes, blocked={factor: reason for factor, reason in blocked.items() if factor in present},
    )  # fmt: skip


def _interpolate_torch(local: Local) -> str:
    sizes = local.results[0][2:]
    size = ", ".join(map(str, sizes)) + "," * (len(sizes) == 1)
    mode = "nearest" if local.attribute("mode") == "nearest" else _LINEAR[len(local.results[0]) - 2]
    equal = all(isinstance(n, int) for n in local.results[0])
    return f'{"F" if equal else "windows"}.interpolate({local.arguments[0]}, size=({size}), mode="{mode}")'


def _reads(operands: tuple[Shape, ...], results: tuple[Shape, ...]) -> float:
    """Return one operation for each element of the larger of operand and result."""
    return float(max(elements(operands), elements(results)))


POOLS = {
    op.name: op
    for op in (
        OpDef(
            name="max_pool",
            summary="largest entry of each window",
            operands=("x",),
            infer=_pool_infer,
            rule=_pool_rule(""),
            flops=_reads,
            backward_flops=_reads,
            saved=("x",),
            # Which entry it was.
            saved_per_result=8.0,
            differentiable=("x",),
            torch=_pool_torch,
            parts=_pool_parts("max_pool", float("-inf")),
        ),
        OpDef(
            name="average_pool",
            summary="average of each window, padding included",
            operands=("x",),
            infer=_pool_infer,
            rule=_pool_rule("x"),
            flops=_reads,
            backward_flops=_reads,
            saved=("x",),
            differentiable=("x",),
            torch=_pool_torch,
            parts=_pool_parts("average_pool", 0.0),
        ),
        OpDef(
            name="adaptive_average_pool",
            summary="average of each of so many windows, side by side",
            operands=("x",),
            infer=_adaptive_infer,
            rule=_adaptive_rule,
            flops=_reads,
            backward_flops=_reads,
            differentiable=("x",),
            torch=_adaptive_torch,
        ),
        OpDef(
            name="interpolate",
            summary="to another size, by the nearest element or linearly",
            operands=("x",),
            infer=_interpolate_infer,
            rule=_interpolate_rule,
            flops=_reads,
            backward_flops=_reads,
            differentiable=("x",),
            torch=_interpolate_torch,
        ),
    )
}
