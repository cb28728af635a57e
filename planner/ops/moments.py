"""Layer, group and batch norm: (x − mean) / sqrt(variance + eps) · weight + bias, alike but for the dims of the mean.

Sharding a dim that the mean runs over is special: sums of x and of x² over the shards are made whole by one
all-reduce (`moments`), and then every shard scales its own part (`normalize`). For batch norm these are the batch and
the space, so that sharded batches give the statistics of the whole batch. The graph has no state yet: batch norm has
the statistics of its microbatch, and no running ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from ..core.graph import Node
from ..core.rule import Factors, ShardingRule
from ..core.strategy import ShardStrategy
from ..core.symbol import Size
from ..core.tensor import TensorMeta
from .definition import Attributes, Cuts, Local, OpDef, Parts, RuleOf, Shape, leading, per_element, shapes_of, space
from .lines import text
from .parts import PartsOf

_PAIR = "the two sums are made together"


@dataclass(frozen=True, slots=True)
class _Form:
    """Factors of x by dim, those that the mean runs over, and those of the weight."""

    dims: tuple[Factors, ...]
    over: frozenset[str]
    scale: tuple[Factors, ...]

    @property
    def kept(self) -> tuple[Factors, ...]:
        """Dims of the mean."""
        left = (tuple(f for f in dim if f not in self.over) for dim in self.dims)
        return tuple(dim for dim in left if dim)


def _form(kind: str, rank: int, attributes: Attributes) -> _Form:
    if kind == "layer_norm":
        count = attributes.get("dims", 1)
        assert isinstance(count, int)
        names = ["h"] if count == 1 else [f"h{i}" for i in range(1, count + 1)]
        dims = tuple((name,) for name in [*leading(rank - count).split(), *names])
        return _Form(dims, frozenset(names), dims[-count:])
    places = space(rank - 2)
    channels = ("g", "c") if kind == "group_norm" else ("c",)
    over = {"c", *places} if kind == "group_norm" else {"batch", *places}
    return _Form((("batch",), channels, *((p,) for p in places)), frozenset(over), (channels,))


def _sizes(attributes: Attributes) -> dict[str, Size]:
    groups = attributes.get("groups")
    return {"g": groups} if isinstance(groups, int) else {}


def _affine(operands: tuple[TensorMeta, ...], before: int) -> tuple[str, str]:
    """Return terms, and the line's part of weight and bias with a comma before each as a pattern."""
    count = len(operands) - before
    return " + ".join(("weight", "bias")[:count]), ", {}" * count


def _rule_of(kind: str) -> RuleOf:
    def rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], attributes: Attributes) -> ShardingRule:
        form = _form(kind, len(operands[0].shape), attributes)
        x, scale = text(form.dims), text(form.scale)
        terms, pattern = _affine(operands, 1)
        return ShardingRule.parse(
            f"{x}{pattern.format(scale, scale) if pattern else ''} -> {x}",
            shapes=shapes_of(operands + results), names=("x", "weight", "bias"), terms=terms,
            sizes=_sizes(attributes), special=form.over, even=frozenset({"g"}),
        )  # fmt: skip

    return rule


def _moments_infer(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
    shape = operands[0].shape
    form = _form(str(attributes["form"]), len(shape), attributes)
    sizes = {dim[0]: size for dim, size in zip(form.dims, shape, strict=True) if len(dim) == 1} | _sizes(attributes)
    return (TensorMeta((*(sizes[f] for dim in form.kept for f in dim), 2), "float32"),)


def _moments_rule(
    operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], attributes: Attributes
) -> ShardingRule:
    form = _form(str(attributes["form"]), len(operands[0].shape), attributes)
    return ShardingRule.parse(
        f"{text(form.dims)} -> {text(form.kept)} moment", shapes=shapes_of(operands + results),
        sizes=_sizes(attributes), blocked={"moment": _PAIR}, even=frozenset({"g"}),
    )  # fmt: skip


def _normalize_rule(
    operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], attributes: Attributes
) -> ShardingRule:
    form = _form(str(attributes["form"]), len(operands[0].shape), attributes)
    x, scale = text(form.dims), text(form.scale)
    terms, pattern = _affine(operands, 2)
    return ShardingRule.parse(
        f"{x}, {text(form.kept)} moment{pattern.format(scale, scale) if pattern else ''} -> {x}",
        shapes=shapes_of(operands + results), names=("x", "moments", "weight", "bias"), terms=terms,
        sizes=_sizes(attributes), blocked={"moment": _PAIR}, even=frozenset({"g"}),
    )  # fmt: skip


def _view(local: Local) -> tuple[str, _Form, tuple[int, ...]]:
    """Return x with one dim a factor, its form, and the dims of the mean."""
    form = _form(str(local.attribute("form")), len(local.operands[0]), dict(local.node.attributes))
    x = local.arguments[0]
    if ("g", "c") in form.dims:
        x = f"{x}.unflatten(1, ({local.sizes['g']}, {local.sizes['c']}))"
    flat = [f for dim in form.dims for f in dim]
    return x, form, tuple(i for i, f in enumerate(flat) if f in form.over)


def _moments_torch(local: Local) -> str:
    x, form, dims = _view(local)
    return f"ops.moments({x}, dims={dims}, count={prod(local.whole[f] for f in form.over)})"


def _normalize_torch(local: Local) -> str:
    x, form, dims = _view(local)
    text = f"ops.normalize({x}, {local.arguments[1]}, dims={dims}, eps={local.attribute('eps')!r})"
    if ("g", "c") in form.dims:
        text += ".flatten(1, 2)"
    # A weight of channels is repeated along the space behind them.
    behind = len(form.dims) - 1 - form.dims.index(form.scale[-1])
    repeated = f"[:{', None' * behind}]" if behind else ""
    for sign, argument in zip("*+", local.arguments[2:], strict=False):
        text += f" {sign} {argument}{repeated}"
    return text


def _torch_of(kind: str) -> Callable[[Local], str]:
    def write(local: Local) -> str:
        x, *affine = local.arguments
        eps = f"eps={local.attribute('eps')!r}"
        form = _form(kind, len(local.operands[0]), dict(local.node.attributes))
        if kind == "layer_norm":
            sizes = [str(local.sizes[f]) for dim in form.scale for f in dim]
            arguments = [x, f"({', '.join(sizes)}{',' * (len(sizes) == 1)})", *affine, eps]
        elif kind == "group_norm":
            arguments = [x, str(local.sizes["g"]), *affine, eps]
        elif any(isinstance(size, str) for size in local.operands[0]):
            # Some rank may have no channels, which torch refuses.
            return f"ops.batch_norm({', '.join([x, *affine, eps])})"
        else:
            arguments = [x, "None", "None", *affine, "training=True", eps]
        return f"F.{kind}({', '.join(arguments)})"

    return write


def _parts_of(kind: str) -> Callable[[Node, ShardStrategy, Cuts], Parts]:
    def write(node: Node, strategy: ShardStrategy, _: Cuts) -> Parts:
        if not any(strategy.axes(f) for f in node.rule.special):
            return ()
        parts = PartsOf(NORMS[kind], node, strategy)
        x, weight, bias = (parts.operand(name) for name in ("x", "weight", "bias"))
        attributes = dict(node.attributes) | {"form": kind}
        moments = parts.add(MOMENTS, (x,), attributes=attributes)
        carrying = {"weight": "weight", "bias": "bias"}
        parts.add(NORMALIZE, (x, moments, weight, bias), attributes=attributes, carrying=carrying, last=True)
        return parts.finished()

    return write


def _norm(kind: str, summary: str, saved: tuple[str, ...]) -> OpDef:
    def statistics(operands: tuple[Shape, ...], _: int) -> float:
        """Return the bytes of the mean and 1 / deviation of every row, in fp32; of groups the shapes don't tell."""
        x, *affine = operands
        if kind == "layer_norm":
            return 8.0 * prod(x) / prod(affine[0] if affine else x[-1:])
        return 8.0 * x[1] if kind == "batch_norm" else 0.0

    return OpDef(
        name=kind,
        summary=summary,
        operands=("x", "weight?", "bias?"),
        infer=lambda operands, _: (operands[0],),
        rule=_rule_of(kind),
        flops=per_element(7),
        backward_flops=per_element(11),
        saved=saved,
        extra_saved=statistics,
        differentiable=("x", "weight", "bias"),
        torch=_torch_of(kind),
        parts=_parts_of(kind),
    )


NORMS = {
    op.name: op
    for op in (
        _norm("layer_norm", "normalised over the last dims, then scaled and shifted", ("x", "weight", "bias")),
        _norm("group_norm", "normalised over each group of channels and the space", ("x", "weight")),
        _norm("batch_norm", "each channel normalised over the batch and the space of the microbatch", ("x", "weight")),
    )
}
MOMENTS = OpDef(
    name="moments",
    summary="local share of the means of x and x²",
    operands=("x",),
    infer=_moments_infer,
    rule=_moments_rule,
    flops=lambda operands, _: 3.0 * prod(operands[0]),
    backward_flops=lambda operands, _: 3.0 * prod(operands[0]),
    saved=("x",),
    differentiable=("x",),
    torch=_moments_torch,
)
NORMALIZE = OpDef(
    name="normalize",
    summary="(x − mean) / sqrt(mean of squares − mean² + eps) · weight + bias",
    operands=("x", "moments", "weight?", "bias?"),
    infer=lambda operands, _: (operands[0],),
    rule=_normalize_rule,
    flops=per_element(5),
    backward_flops=per_element(9),
    saved=("moments", "weight"),
    # x − mean, variance and 1 / deviation in fp32, and what the weight multiplies.
    extra_saved=lambda operands, size: (4.0 + size * (len(operands) > 2)) * prod(operands[0]) + 4.0 * prod(operands[1]),
    differentiable=("x", "moments", "weight", "bias"),
    torch=_normalize_torch,
)
