"""Rotary position embedding: its table of angles, and the rotation."""

from __future__ import annotations

from ..core.rule import ShardingRule
from ..core.symbol import symbol
from ..core.tensor import TensorMeta
from .definition import Attributes, Local, OpDef, per_element, shapes_of
from .lines import integer, misfit
from .pointwise import literal

_FORMS = ("halves", "pairs", "once")
"""How columns stand for frequencies: all twice, one after the other or each beside itself, or once."""


def _table_infer(_: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
    width, form = integer(attributes, "head_dim"), attributes.get("form", "halves")
    if form not in _FORMS or width < 2 or width % 2:
        raise misfit(f"a rotary table of form {form!r} for a width of {width}; forms are {', '.join(_FORMS)}")
    given = attributes.get("frequencies")
    if ("theta" in attributes) == (given is not None) or (isinstance(given, tuple) and len(given) != width // 2):
        raise misfit(f"a rotary table of width {width} needs theta, or {width // 2} frequencies")
    table = TensorMeta((symbol("S"), width // 2 if form == "once" else width), "float32")
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


def _rotary_infer(operands: tuple[TensorMeta, ...], _: Attributes) -> tuple[TensorMeta, ...]:
    x, cos, _sin = operands
    width, rotated = x.shape[-1], cos.shape[-1]
    if not isinstance(width, int) or not isinstance(rotated, int) or rotated > width:
        raise misfit(f"heads of width {width} can't be rotated by tables of width {rotated}")
    return (x,)


def _rotary_rule(
    operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], attributes: Attributes
) -> ShardingRule:
    # Where the table is narrower, only the first elements of a head are rotated.
    whole = operands[0].shape[-1] == operands[1].shape[-1]
    head, table = ("e", "e") if whole else ("e", "r")
    if whole and attributes.get("interleaved"):
        head = table = "(p i)"
    reason = "rotation pairs elements of the head dim"
    return ShardingRule.parse(
        f"batch head seq {head}, seq {table}, seq {table} -> batch head seq {head}",
        shapes=shapes_of(operands + results),
        names=("x", "cos", "sin"),
        terms="x",
        sizes={"i": 2} if head != "e" else {},
        blocked={"i": reason} if head != "e" else {"e": reason, table: reason},
        even=frozenset({"head"}),
    )


def _rotary_torch(local: Local) -> str:
    interleaved = ", interleaved=True" if dict(local.node.attributes).get("interleaved") else ""
    return f"ops.rotate({', '.join(local.arguments)}{interleaved})"


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
    summary="rotates each head's pairs, or those of its first elements, by the angle of the position",
    operands=("x", "cos", "sin"),
    infer=_rotary_infer,
    rule=_rotary_rule,
    flops=per_element(3),
    backward_flops=per_element(3),
    saved=("cos", "sin"),
    differentiable=("x",),
    torch=_rotary_torch,
)
