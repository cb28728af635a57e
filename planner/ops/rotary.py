"""Rotary position embedding: its table of angles, and the rotation."""

from __future__ import annotations

from ..core.rule import ShardingRule
from ..core.symbol import Size, symbol
from ..core.tensor import TensorMeta
from .definition import Attributes, Local, OpDef, per_element, shapes_of
from .lines import integer, misfit
from .pointwise import literal

_FORMS = ("halves", "neighbours")
"""How columns stand for frequencies: all twice, one after the other, or each beside itself."""


def _table_infer(_: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
    width, form = integer(attributes, "head_dim"), attributes.get("form", "halves")
    if form not in _FORMS or width < 2 or width % 2:
        raise misfit(f"a rotary table of form {form!r} for a width of {width}; forms are {', '.join(_FORMS)}")
    given = attributes.get("frequencies")
    if ("theta" in attributes) == (given is not None) or (isinstance(given, tuple) and len(given) != width // 2):
        raise misfit(f"a rotary table of width {width} needs theta, or {width // 2} frequencies")
    table = TensorMeta((symbol("S"), width), "float32")
    return (table, table)


def _table_rule(_: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], __: Attributes) -> ShardingRule:
    return ShardingRule.parse(
        "-> seq e, seq e",
        shapes=shapes_of(results),
        blocked={"e": "the angles of one position are made together"},
    )


def _table_torch(local: Local) -> str:
    scaling = ""
    if "rope_factor" in dict(local.node.attributes):
        scaling = (
            f", scaling=({local.attribute('rope_factor')!r}, {local.attribute('rope_low_frequency')!r}, "
            f"{local.attribute('rope_high_frequency')!r}, {local.attribute('rope_original_length')!r})"
        )
    attributes = dict(local.node.attributes)
    given = "".join(f", {name}={literal(attributes[name])}" for name in ("form", "scale") if name in attributes)
    made_of = attributes.get("theta", attributes.get("frequencies"))
    first = local.start.get("seq", "0")
    return (
        f"ops.rotary_table({local.sizes['seq']}, {local.attribute('head_dim')}, {made_of!r}, first={first}"
        f"{scaling}{given}, device=mesh.device)"
    )


PAIRS = ("halves", "neighbours", "regrouped")
"""Which elements are turned together: i and i + r/2; 2i and 2i + 1; the latter, but written like the former."""


def _rotary_infer(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
    x, cos = operands[:2]
    wide, width, pairs = x.shape[-1], cos.shape[-1], attributes.get("pairs", "halves")
    if pairs not in PAIRS or not isinstance(width, int) or not isinstance(wide, int) or width % 2 or width > wide:
        raise misfit(f"a table of {width} columns can't rotate {pairs!r} of {wide} elements")
    return (x,)


def _rotary_rule(
    operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], attributes: Attributes
) -> ShardingRule:
    whole = operands[1].shape[-1] == operands[0].shape[-1]
    sizes: dict[str, Size] = {}
    if whole and attributes.get("pairs") == "neighbours":
        x = angle = "(p q)"
        blocked, sizes = {"q": "a pair is turned together"}, {"q": 2}
    else:
        # A narrower table turns a part of each head only.
        x, angle = "e", "e" if whole else "r"
        blocked = dict.fromkeys(("e", angle), "rotation pairs elements of the head dim")
    return ShardingRule.parse(
        f"batch head seq {x}, seq {angle}, seq {angle} -> batch head seq {x}",
        shapes=shapes_of(operands + results),
        names=("x", "cos", "sin"),
        terms="x",
        sizes=sizes,
        blocked=blocked,
        even=frozenset({"head"}),
    )


def _rotary_torch(local: Local) -> str:
    pairs = dict(local.node.attributes).get("pairs", "halves")
    given = f", pairs={literal(pairs)}" if pairs != "halves" else ""
    return f"ops.rotate({', '.join(local.arguments)}{given})"


ROTARY_TABLE = OpDef(
    name="rotary_table",
    summary="cosines and sines of the rotary angles, per position",
    operands=(),
    results=("cos", "sin"),
    infer=_table_infer,
    rule=_table_rule,
    flops=per_element(2),
    backward_flops=per_element(0),
    torch=_table_torch,
)
ROTARY = OpDef(
    name="rotary",
    summary="rotates each head's pairs, or those of its first r elements, by the angle of the position",
    operands=("x", "cos", "sin"),
    infer=_rotary_infer,
    rule=_rotary_rule,
    flops=per_element(3),
    backward_flops=per_element(3),
    saved=("cos", "sin"),
    differentiable=("x",),
    torch=_rotary_torch,
)
