"""Operators that work element by element."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ...core.symbol import Polynomial
from ..aten.program import Argument, Ref
from .model import DTYPES
from .site import Site, floating

Row = Callable[[Site], Ref | list[Ref]]


def _unary(target: str, dtype: str = "") -> Row:
    return lambda at: at.like(f"aten.{target}.default", at.ref(0), dtype=dtype)


def _operand(at: Site, place: int) -> Argument:
    """Return an operand: a number where one is known and adds no dims, else a tensor."""
    value = at.scalar(place)
    return at.ref(place, "bias") if value is None else value


def tensor(at: Site, place: int, dtype: str) -> Ref:
    """Return an operand as a tensor, also where it is a known number."""
    value = at.scalar(place)
    return at.ref(place) if value is None else at.scalar_tensor(value, dtype)


def _arithmetic(target: str, swapped: str = "") -> Callable[[Site], Ref]:
    """Return the row of an operator on two tensors.

    Parameters
    ----------
    swapped
        Call for a number on the left, with the operands the other way round; empty if a tensor has to be made of it.
    """

    def row(at: Site) -> Ref:
        left, right = at.scalar(0), at.scalar(1)
        if left is not None and right is not None:
            dtype = at.meta(0).dtype
            return at.call(f"aten.{target}.Tensor", tensor(at, 0, dtype), right, shape=(), dtype=dtype)
        if left is not None:
            x = at.ref(1)
            if swapped:
                return at.like(swapped, x, left)
            first = at.scalar_tensor(left, at.meta(x).dtype)
            return at.call(f"aten.{target}.Tensor", first, x, shape=at.shape(x), dtype=at.meta(x).dtype)
        x, y = at.ref(0), _operand(at, 1)
        others = [at.shape(y)] if isinstance(y, Ref) else []
        return at.call(f"aten.{target}.Tensor", x, y, shape=at.broadcast(at.shape(x), *others), dtype=at.meta(x).dtype)

    return row


def _power(at: Site) -> Ref:
    exponent = at.scalar(1)
    x = tensor(at, 0, at.meta(1).dtype)
    if exponent is not None:
        return at.like("aten.pow.Tensor_Scalar", x, exponent)
    y = at.ref(1)
    return at.call("aten.pow.Tensor_Tensor", x, y, shape=at.broadcast(at.shape(x), at.shape(y)), dtype=at.meta(x).dtype)


def _compared(name: str, swapped: str) -> Row:
    def row(at: Site) -> Ref:
        left, right = at.scalar(0), at.scalar(1)
        if right is not None:
            return at.like(f"aten.{name}.Scalar", at.ref(0), right, dtype="bool")
        if left is not None:
            return at.like(f"aten.{swapped}.Scalar", at.ref(1), left, dtype="bool")
        x, y = at.ref(0), at.ref(1)
        return at.call(f"aten.{name}.Tensor", x, y, shape=at.broadcast(at.shape(x), at.shape(y)), dtype="bool")

    return row


def _logical(target: str) -> Row:
    def row(at: Site) -> Ref:
        x, y = at.ref(0), at.ref(1)
        return at.call(f"aten.{target}.default", x, y, shape=at.broadcast(at.shape(x), at.shape(y)), dtype="bool")

    return row


def _extreme(target: str, bound: str) -> Row:
    """Return the row of the larger or smaller of any number of tensors."""

    def row(at: Site) -> Ref:
        made = tensor(at, 0, at.meta(len(at.node.inputs) - 1).dtype)
        for place in range(1, len(at.node.inputs)):
            value = at.scalar(place)
            if value is not None:
                low, high = (value, None) if bound == "min" else (None, value)
                made = at.like("aten.clamp.default", made, low, high)
                continue
            y = at.ref(place)
            shape = at.broadcast(at.shape(made), at.shape(y))
            made = at.call(f"aten.{target}.default", made, y, shape=shape, dtype=at.meta(made).dtype)
        return made

    return row


def _clip(at: Site) -> Ref:
    bounds = [at.scalar(place) if at.given(place) else None for place in (1, 2)]
    if any(at.given(place) and bound is None for place, bound in zip((1, 2), bounds, strict=True)):
        at.refuse("whose bounds are computed of data")
    return at.like("aten.clamp.default", at.ref(0), *bounds)


def _where(at: Site) -> Ref:
    condition = at.ref(0)
    dtype = at.meta(2 if at.scalar(1) is not None else 1).dtype
    if at.scalar(1) is None or at.scalar(2) is None:
        parts: list[Ref] = [tensor(at, place, dtype) for place in (1, 2)]
    else:
        parts = [at.scalar_tensor(at.scalar(p), dtype) for p in (1, 2)]
    shape = at.broadcast(at.shape(condition), *(at.shape(part) for part in parts))
    return at.call("aten.where.self", condition, *parts, shape=shape, dtype=dtype)


def _cast(at: Site) -> Ref:
    name = DTYPES.get(at.integer("to"), "")
    if not name:
        at.refuse(f"to the element type {at.integer('to')}")
    dtype = at.all.dtype(name)
    # Where a model of one precision casts to another and back, that is its own doing.
    return at.cast(at.ref(0), dtype)


def _gelu(at: Site) -> Ref:
    return at.like("aten.gelu.default", at.ref(0), named={"approximate": at.text("approximate", "none")})


def _scaled(target: str, name: str, default: float) -> Row:
    return lambda at: at.like(f"aten.{target}.default", at.ref(0), at.real(name, default))


def _hard_sigmoid(at: Site) -> Ref:
    slope, offset = at.real("alpha", 0.2), at.real("beta", 0.5)
    if abs(slope - 1 / 6) < 1e-6 and offset == 0.5:
        return at.like("aten.hardsigmoid.default", at.ref(0))
    made = at.like("aten.add.Tensor", at.like("aten.mul.Tensor", at.ref(0), slope), offset)
    return at.like("aten.clamp.default", made, 0.0, 1.0)


def _parametric(at: Site) -> Ref:
    """Return `relu(x) + slope · min(x, 0)`, with a slope that broadcasts."""
    x, slope = at.ref(0), at.ref(1, "weight")
    below = at.like("aten.clamp.default", x, None, 0.0)
    shape = at.broadcast(at.shape(x), at.shape(slope))
    scaled = at.call("aten.mul.Tensor", below, slope, shape=shape, dtype=at.meta(x).dtype)
    return at.like("aten.add.Tensor", scaled, at.like("aten.relu.default", x))


def _softsign(at: Site) -> Ref:
    x = at.ref(0)
    return at.like("aten.div.Tensor", x, at.like("aten.add.Tensor", at.like("aten.abs.default", x), 1.0))


def _swish(at: Site) -> Ref:
    if at.real("alpha", 1.0) != 1:
        at.refuse("whose alpha is not 1")
    return at.like("aten.silu.default", at.ref(0))


def _remainder(at: Site) -> Ref:
    if at.integer("fmod"):
        at.refuse("that keeps the sign of the dividend")
    divisor = at.scalar(1)
    return _between(at) if divisor is None else at.like("aten.remainder.Scalar", at.ref(0), divisor)


_between = _arithmetic("remainder")


def same(at: Site) -> Ref:
    """Give an input back."""
    x = at.ref(0)
    return at.like("aten.alias.default", x)


def _dropout(at: Site) -> list[Ref]:
    """Drop nothing: a file is a forward for use; what it says of training is an input."""
    x = at.ref(0)
    ratio = at.scalar(1) if at.given(1) else 0.5
    training = at.given(2) and at.scalar(2) is True and not isinstance(ratio, Polynomial) and ratio
    return [at.like("aten.dropout.default", x, float(ratio or 0.0), True) if training else same(at)]


def _is_nan(at: Site) -> Ref:
    """Only what is no number differs from itself."""
    x = at.ref(0)
    return at.like("aten.ne.Tensor", x, x, dtype="bool")


def _is_infinite(at: Site) -> Ref:
    if not (at.integer("detect_negative", 1) and at.integer("detect_positive", 1)):
        at.refuse("of one sign alone")
    return at.like("aten.eq.Scalar", at.like("aten.abs.default", at.ref(0)), math.inf, dtype="bool")


def _sum(at: Site) -> Ref:
    made = at.ref(0)
    for place in range(1, len(at.node.inputs)):
        y = at.ref(place)
        shape = at.broadcast(at.shape(made), at.shape(y))
        made = at.call("aten.add.Tensor", made, y, shape=shape, dtype=at.meta(made).dtype)
    return made


def _softplus(at: Site) -> Ref:
    if not floating(at.meta(0).dtype):
        at.refuse("of integers")
    return at.like("aten.softplus.default", at.ref(0))


ELEMENTS: Mapping[str, Row] = {
    **{name: _unary(target) for name, target in (
        ("Relu", "relu"), ("Sigmoid", "sigmoid"), ("Tanh", "tanh"), ("Exp", "exp"), ("Log", "log"), ("Sqrt", "sqrt"),
        ("Neg", "neg"), ("Abs", "abs"), ("Erf", "erf"), ("Sin", "sin"), ("Cos", "cos"), ("Floor", "floor"),
        ("Ceil", "ceil"), ("Round", "round"), ("Sign", "sign"), ("Reciprocal", "reciprocal"),
        ("HardSwish", "hardswish"), ("Mish", "mish"),
    )},
    "Not": _unary("logical_not", "bool"), "IsNaN": _is_nan, "IsInf": _is_infinite,
    "Add": _arithmetic("add", "aten.add.Tensor"), "Mul": _arithmetic("mul", "aten.mul.Tensor"),
    "Sub": _arithmetic("sub", "aten.rsub.Scalar"), "Div": _arithmetic("div"), "Pow": _power, "Mod": _remainder,
    "Equal": _compared("eq", "eq"), "Greater": _compared("gt", "lt"), "Less": _compared("lt", "gt"),
    "GreaterOrEqual": _compared("ge", "le"), "LessOrEqual": _compared("le", "ge"),
    "And": _logical("logical_and"), "Or": _logical("logical_or"), "Xor": _logical("logical_xor"),
    "Max": _extreme("maximum", "min"), "Min": _extreme("minimum", "max"), "Sum": _sum, "Clip": _clip, "Where": _where,
    "Cast": _cast, "Gelu": _gelu, "Softplus": _softplus, "Elu": _scaled("elu", "alpha", 1.0),
    "LeakyRelu": _scaled("leaky_relu", "alpha", 0.01), "HardSigmoid": _hard_sigmoid, "PRelu": _parametric,
    "Swish": _swish, "Softsign": _softsign, "Identity": same, "Dropout": _dropout,
}  # fmt: skip
"""ONNX operator → its row."""
