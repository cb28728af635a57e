"""Operators that work element by element: one row each.

A row's terms say what may stay Partial. Affine is not linear: `x + 1` would add 1 on every rank, so `shift` has no
terms, and `masked_fill` has one only where it fills with zero.
"""

from __future__ import annotations

from .definition import Attributes, OpDef
from .pointwise import Row, operator


def _zero_fill(attributes: Attributes) -> str:
    return "x" if attributes["value"] == 0 else ""


def _power(attributes: Attributes) -> str:
    return "x" if attributes["exponent"] == 1 else ""


ROWS = (
    # Linear in every operand that has a gradient.
    Row(name="add", summary="x + y", operands="x y", expression="{x} + {y}", terms="x + y", backward=0),
    Row(name="sub", summary="x − y", operands="x y", expression="{x} - {y}", terms="x + y"),
    Row(name="mul", summary="x · y", operands="x y", expression="{x} * {y}", terms="x*y", backward=2, saved="x y"),
    Row(name="div", summary="x / y", operands="x y", expression="{x} / {y}", terms="x", backward=4, saved="x y"),
    Row(name="neg", summary="−x", expression="-{x}", terms="x"),
    Row(name="scale", summary="x · factor", expression="{x} * {factor}", terms="x"),
    Row(name="cast", summary="x in another element type of floating numbers",
        expression="ops.cast({x}, {dtype}, mesh.compute)",
        terms="x", casts=("float64", "float32", "bfloat16", "float16", "compute")),
    Row(name="where", summary="x where the condition holds, else y", operands="condition x y",
        expression="torch.where({condition}, {x}, {y})", terms="x + y", backward=2, saved="condition",
        constant="condition"),
    Row(name="masked_fill", summary="x, and a value where the mask holds", operands="x mask",
        expression="{x}.masked_fill({mask}, {value})", terms=_zero_fill, saved="mask", constant="mask"),
    # Affine: the constant would be added on every rank.
    Row(name="shift", summary="x + amount", expression="{x} + {amount}", backward=0),
    # Nonlinear, of one operand.
    Row(name="abs", summary="|x|", expression="{x}.abs()", backward=2, saved="x"),
    Row(name="exp", summary="eˣ", expression="{x}.exp()", forward=8, saved="result"),
    Row(name="log", summary="natural logarithm", expression="{x}.log()", forward=8, saved="x"),
    Row(name="sqrt", summary="√x", expression="{x}.sqrt()", forward=4, backward=2, saved="result"),
    Row(name="rsqrt", summary="1 / √x", expression="{x}.rsqrt()", forward=4, backward=3, saved="result"),
    Row(name="reciprocal", summary="1 / x", expression="{x}.reciprocal()", forward=4, backward=3, saved="result"),
    Row(name="pow", summary="x to a constant power", expression="{x} ** {exponent}", terms=_power, forward=8,
        backward=10, saved="x"),
    Row(name="sin", summary="sin x", expression="{x}.sin()", forward=8, backward=9, saved="x"),
    Row(name="cos", summary="cos x", expression="{x}.cos()", forward=8, backward=9, saved="x"),
    Row(name="erf", summary="error function", expression="{x}.erf()", forward=8, backward=10, saved="x"),
    Row(name="clamp", summary="x held between low and high", expression="{x}.clamp({low}, {high})", forward=2,
        backward=3, saved="x"),
    Row(name="relu", summary="max(x, 0)", expression="F.relu({x})", saved="result"),
    Row(name="leaky_relu", summary="x, or slope · x where it is negative",
        expression="F.leaky_relu({x}, {slope})", forward=2, backward=2, saved="x"),
    Row(name="elu", summary="x, or eˣ − 1 where it is negative", expression="F.elu({x})", forward=8, backward=9,
        saved="x"),
    Row(name="softplus", summary="log(1 + eˣ)", expression="F.softplus({x})", forward=16, backward=10, saved="x"),
    Row(name="gelu", summary="x · Φ(x), or its approximation by tanh",
        expression="F.gelu({x}, approximate={approximate})", forward=8, backward=12, saved="x"),
    Row(name="mish", summary="x · tanh(log(1 + eˣ))", expression="F.mish({x})", forward=24, backward=30, saved="x"),
    Row(name="silu", summary="x · sigmoid(x)", expression="F.silu({x})", forward=5, backward=8, saved="x"),
    Row(name="sigmoid", summary="1 / (1 + e⁻ˣ)", expression="{x}.sigmoid()", forward=4, backward=3, saved="result"),
    Row(name="tanh", summary="tanh x", expression="{x}.tanh()", forward=8, backward=3, saved="result"),
    Row(name="hardswish", summary="x · clamp(x + 3, 0, 6) / 6", expression="F.hardswish({x})", forward=4, backward=6,
        saved="x"),
    Row(name="detach", summary="x without a gradient", expression="{x}.detach()", terms="x", forward=0, constant="x"),
    Row(name="floor", summary="largest whole number up to x", expression="{x}.floor()", constant="x"),
    Row(name="ceil", summary="smallest whole number from x on", expression="{x}.ceil()", constant="x"),
    Row(name="round", summary="nearest whole number", expression="{x}.round()", constant="x"),
    Row(name="sign", summary="−1, 0 or 1 by the sign of x", expression="{x}.sign()", constant="x"),
    # Nonlinear, of two.
    Row(name="floor_divide", summary="whole part of x / y, rounded down", operands="x y",
        expression="torch.floor_divide({x}, {y})", forward=2, constant="x y"),
    Row(name="remainder", summary="what x / y leaves, with the sign of y", operands="x y",
        expression="torch.remainder({x}, {y})", forward=3, backward=3, saved="x y"),
    Row(name="maximum", summary="larger of x and y", operands="x y", expression="torch.maximum({x}, {y})",
        backward=4, saved="x y"),
    Row(name="minimum", summary="smaller of x and y", operands="x y", expression="torch.minimum({x}, {y})",
        backward=4, saved="x y"),
    Row(name="prelu", summary="x, or weight · x where it is negative, a weight a channel", operands="x weight",
        expression="F.prelu({x}, {weight})", forward=2, backward=4, saved="x weight", along_channels="weight"),
    # Gated: linear in the operand that passes the gate.
    Row(name="swiglu", summary="silu(gate) · up", operands="gate up", expression="F.silu({gate}) * {up}", terms="up",
        forward=6, backward=12, saved="gate up", kept_copies=1),
    Row(name="geglu", summary="gelu(gate) · up", operands="gate up",
        expression="F.gelu({gate}, approximate={approximate}) * {up}", terms="up", forward=9, backward=16,
        saved="gate up", kept_copies=1),
    # Of and to integers and truth values.
    Row(name="to_integer", summary="x in a type of integers or truth values",
        expression="ops.cast({x}, {dtype}, mesh.compute)",
        casts=("int64", "int32", "bool")),
    Row(name="compare", summary="whether x is lt, le, eq, ne, ge or gt than y", operands="x y",
        expression="ops.compare({x}, {relation}, {y})", dtype="bool"),
    Row(name="logical_not", summary="whether the mask does not hold", operands="mask", expression="~{mask}",
        dtype="bool"),
    Row(name="logical_and", summary="whether both hold", operands="mask other_mask",
        expression="{mask} & {other_mask}", dtype="bool"),
    Row(name="logical_or", summary="whether one of the two holds", operands="mask other_mask",
        expression="{mask} | {other_mask}", dtype="bool"),
)  # fmt: skip
ELEMENTWISE: tuple[OpDef, ...] = tuple(operator(row) for row in ROWS)
ADD = next(op for op in ELEMENTWISE if op.name == "add")
