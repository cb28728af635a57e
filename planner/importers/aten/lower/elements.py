"""Operators on elements: arithmetic, comparisons, choices and activations."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ....core.graph import Attribute
from ....core.symbol import Polynomial
from ..program import Argument
from .complex import multiplied
from .site import INTEGERS, Held, Row, Site, UnloweredError


def both(at: Site, dtype: str = "") -> tuple[str, str]:
    """Return two operands in the element type of the result; a number becomes a tensor of one element."""
    dtype = dtype or at.made.dtype
    return promoted(at, at.argument(0, "self"), dtype), promoted(at, at.argument(1, "other"), dtype)


def promoted(at: Site, argument: Argument, dtype: str) -> str:
    """Return an operand as torch promotes it to the element type of the result."""
    number = at.known(argument)
    if number is not None:
        return at.full((1,) if at.made.shape else (), number.value, dtype)
    x = at.value(argument)
    if isinstance(argument, Polynomial):
        return at.cast(x, dtype)
    # Floating numbers of several widths are promoted by the operators themselves.
    return x if dtype not in INTEGERS and at.meta(x).dtype not in INTEGERS else at.cast(x, dtype)


def _first(at: Site) -> str:
    """Return the first operand in the element type of the result."""
    return promoted(at, at.argument(0, "self"), at.made.dtype)


def shifted(at: Site, x: str, amount: float) -> str:
    """Return x + amount."""
    return x if amount == 0 else at.node("shift", x, amount=amount)


def scaled(at: Site, x: str, factor: float) -> str:
    """Return x · factor."""
    return x if factor == 1 else at.node("scale", x, factor=factor)


def _sum(sign: int) -> Row:
    def row(at: Site) -> str:
        alpha = sign * (at.number(2, "alpha") or 1) if at.given(2, "alpha") else sign
        left, right = at.number(0, "self"), at.number(1, "other")
        if right is not None:
            return shifted(at, _first(at), alpha * right)
        if left is not None:
            return shifted(at, scaled(at, promoted(at, at.argument(1, "other"), at.made.dtype), alpha), left)
        x, y = both(at)
        if alpha in (1, -1):
            return at.node("add" if alpha == 1 else "sub", x, y)
        return at.node("add", x, scaled(at, y, alpha))

    return row


def _reversed_difference(at: Site) -> str:
    alpha = at.number(2, "alpha") if at.given(2, "alpha") else 1
    assert alpha is not None
    x, other = scaled(at, _first(at), alpha), at.number(1, "other")
    if other is not None:
        return shifted(at, at.node("neg", x), other)
    return at.node("sub", promoted(at, at.argument(1, "other"), at.made.dtype), x)


def _product(at: Site) -> Held:
    if at.made.dtype.startswith("complex"):
        return multiplied(at)
    left, right = at.number(0, "self"), at.number(1, "other")
    if right is not None:
        return scaled(at, _first(at), right)
    if left is not None:
        return scaled(at, promoted(at, at.argument(1, "other"), at.made.dtype), left)
    if at.made.dtype == "bool":
        return at.node("logical_and", *both(at))
    return at.node("mul", *both(at))


def _quotient(at: Site) -> str:
    mode = at.word(2, "rounding_mode")
    if mode == "floor":
        return _floor_divide(at)
    if mode:
        raise UnloweredError(f"it rounds a quotient by {mode}")
    left, right = at.number(0, "self"), at.number(1, "other")
    if right is not None:
        return scaled(at, _first(at), 1 / right if right else math.inf)
    if left is not None:
        return scaled(at, at.node("reciprocal", promoted(at, at.argument(1, "other"), at.made.dtype)), left)
    return at.node("div", *both(at))


def _floor_divide(at: Site) -> str:
    return at.node("floor_divide", *both(at))


def _remainder(at: Site) -> str:
    return at.node("remainder", *both(at))


def _power(at: Site) -> str:
    base, exponent = at.number(0, "self"), at.number(1, "exponent")
    if exponent is not None:
        return at.node("pow", _first(at), exponent=exponent)
    power = promoted(at, at.argument(1, "exponent"), at.made.dtype)
    if base is None:
        raise UnloweredError("both its base and its exponent are tensors")
    if base <= 0:
        raise UnloweredError(f"its base {base} is not positive")
    return at.node("exp", scaled(at, power, math.log(base)))


def _square(at: Site) -> str:
    return at.node("pow", at.x(0, "self"), exponent=2)


def plain(op: str, **attributes: Attribute) -> Row:
    """Return the row of an operator of one operand."""

    def row(at: Site) -> str:
        return at.node(op, _first(at), **attributes)

    return row


def _extreme(op: str) -> Row:
    def row(at: Site) -> str:
        return at.node(op, *both(at))

    return row


def _clamp(low: int | None, high: int | None) -> Row:
    """Return the row of a clamp whose bounds are arguments at these places."""

    def row(at: Site) -> str:
        x = _first(at)
        for place, name, op in ((low, "min", "maximum"), (high, "max", "minimum")):
            if place is not None and at.given(place, name) and at.number(place, name) is None:
                x = at.node(op, x, promoted(at, at.argument(place, name), at.made.dtype))
        bounds = [
            at.number(place, name) if place is not None and at.given(place, name) else None
            for place, name in ((low, "min"), (high, "max"))
        ]
        return bounded(at, x, *bounds)

    return row


def bounded(at: Site, x: str, low: float | None, high: float | None) -> str:
    """Return a value held between two numbers, of which one may be left out."""
    if low is None and high is None:
        return x
    integers = at.meta(x).dtype in INTEGERS
    most = 2**31 - 1 if at.meta(x).dtype == "int32" else 2**63 - 1
    if low is None:
        low = -most - 1 if integers else -math.inf
    if high is None:
        high = most if integers else math.inf
    return at.node("clamp", x, low=low, high=high)


def related(at: Site, x: str, relation: str, value: float) -> str:
    """Return whether the elements of x are so related to a number."""
    dtype = at.meta(x).dtype
    if isinstance(value, float) and dtype in INTEGERS:
        x, dtype = at.cast(x, "float32"), "float32"
    shape = (1,) if at.meta(x).shape else ()
    return at.node("compare", x, at.full(shape, value, dtype), relation=relation)


_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def _compare(relation: str) -> Row:
    def row(at: Site) -> str:
        left, right = at.number(0, "self"), at.number(1, "other")
        if right is not None:
            return related(at, at.x(0, "self"), relation, right)
        if left is not None:
            return related(at, at.x(1, "other"), _SWAPPED[relation], left)
        return at.node("compare", at.x(0, "self"), at.x(1, "other"), relation=relation)

    return row


def _logical(op: str) -> Row:
    def row(at: Site) -> str:
        if at.made.dtype != "bool":
            raise UnloweredError("it works on the bits of integers")
        return at.node(op, *both(at, "bool"))

    return row


def _exclusive(at: Site) -> str:
    if at.made.dtype != "bool":
        raise UnloweredError("it works on the bits of integers")
    return at.node("compare", *both(at, "bool"), relation="ne")


def _not(at: Site) -> str:
    if at.made.dtype != "bool":
        raise UnloweredError("it works on the bits of integers")
    return at.node("logical_not", at.cast(at.x(0, "self"), "bool"))


def where(at: Site, condition: str, x: Argument, y: Argument) -> str:
    """Return x where the condition holds, and y elsewhere; either may be a number."""
    left, right = at.known(x), at.known(y)
    shape, dtype = at.made.shape, at.made.dtype
    if right is not None and left is None:
        whole = at.expanded(promoted(at, x, dtype), shape)
        return at.node("masked_fill", whole, at.node("logical_not", condition), value=right.value)
    if left is not None and right is None:
        return at.node("masked_fill", at.expanded(promoted(at, y, dtype), shape), condition, value=left.value)
    if left is not None and right is not None:
        return at.node("masked_fill", at.full(shape, right.value, dtype), condition, value=left.value)
    return at.node("where", condition, promoted(at, x, dtype), promoted(at, y, dtype))


def _where(at: Site) -> str:
    return where(at, at.cast(at.x(0, "condition"), "bool"), at.argument(1, "self"), at.argument(2, "other"))


def _masked_fill(at: Site) -> str:
    x, mask = at.x(0, "self"), at.cast(at.x(1, "mask"), "bool")
    value = at.number(2, "value")
    x = at.expanded(x, at.made.shape)
    if value is None:
        return at.node("where", mask, promoted(at, at.argument(2, "value"), at.made.dtype), x)
    return at.node("masked_fill", x, mask, value=value)


def _gelu(at: Site) -> str:
    return at.node("gelu", at.x(0, "self"), approximate=at.word(1, "approximate") or "none")


def _softplus(at: Site) -> str:
    beta = at.real(1, "beta", 1.0)
    x = at.node("softplus", scaled(at, at.x(0, "self"), beta))
    return scaled(at, x, 1 / beta)


def _elu(at: Site) -> str:
    if at.real(1, "alpha", 1.0) != 1 or at.real(2, "scale", 1.0) != 1 or at.real(3, "input_scale", 1.0) != 1:
        raise UnloweredError("its alpha or its scale is not 1")
    return at.node("elu", at.x(0, "self"))


def _leaky(at: Site) -> str:
    return at.node("leaky_relu", at.x(0, "self"), slope=at.real(1, "negative_slope", 0.01))


def _hardtanh(at: Site) -> str:
    return bounded(at, at.x(0, "self"), at.real(1, "min_val", -1.0), at.real(2, "max_val", 1.0))


def _relu6(at: Site) -> str:
    return bounded(at, at.x(0, "self"), 0.0, 6.0)


def _hardsigmoid(at: Site) -> str:
    return scaled(at, bounded(at, shifted(at, at.x(0, "self"), 3.0), 0.0, 6.0), 1 / 6)


def _log_sigmoid(at: Site) -> str:
    return at.node("neg", at.node("softplus", at.node("neg", at.x(0, "self"))))


def _glu(at: Site) -> str:
    x = at.x(0, "self")
    dim = at.dim(1, "dim", at.rank(x))
    half = at.made.shape[dim]
    if not isinstance(half, int):
        raise UnloweredError(f"it halves a dim of {at.meta(x).shape[dim]}, which depends on symbols")
    value, gate = at.nodes("split", x, dim=dim, sizes=(half, half))
    return at.node("mul", value, at.node("sigmoid", gate))


def _prelu(at: Site) -> str:
    x, weight = at.x(0, "self"), at.x(1, "weight")
    if at.meta(weight).shape == (1,):
        negative = at.node("mul", weight, at.node("minimum", x, at.full((1,) * bool(at.rank(x)), 0.0, at.made.dtype)))
        return at.node("add", at.node("relu", x), negative)
    return at.node("prelu", x, weight)


def _expm1(at: Site) -> str:
    return shifted(at, at.node("exp", _first(at)), -1.0)


def _log1p(at: Site) -> str:
    return at.node("log", shifted(at, _first(at), 1.0))


def _exp2(at: Site) -> str:
    return at.node("exp", scaled(at, _first(at), math.log(2)))


def _log_base(base: float) -> Row:
    def row(at: Site) -> str:
        return scaled(at, at.node("log", _first(at)), 1 / math.log(base))

    return row


def _detach(at: Site) -> str:
    return at.node("detach", at.x(0, "self"))


def _lerp(at: Site) -> str:
    start, end = at.x(0, "self"), at.x(1, "end")
    step, weight = at.node("sub", end, start), at.number(2, "weight")
    step = at.node("mul", step, at.x(2, "weight")) if weight is None else scaled(at, step, weight)
    return at.node("add", start, step)


def _fused_product(op: str) -> Row:
    """Return the row of x + value · a · b, or x + value · a / b."""

    def row(at: Site) -> str:
        value = at.number(3, "value") if at.given(3, "value") else 1
        assert value is not None
        return at.node("add", at.x(0, "self"), scaled(at, at.node(op, at.x(1, "tensor1"), at.x(2, "tensor2")), value))

    return row


def _named(overloads: str, names: str, row: Row) -> dict[str, Row]:
    return {f"aten.{name}.{overload}": row for name in names.split() for overload in overloads.split()}


ELEMENTS: Mapping[str, Row] = {
    **_named("Tensor Scalar default", "add", _sum(1)),
    **_named("Tensor Scalar", "sub subtract", _sum(-1)), "aten.sub.default": _sum(-1),
    **_named("Tensor Scalar", "rsub", _reversed_difference),
    **_named("Tensor Scalar", "mul multiply", _product), "aten.mul.default": _product,
    **_named("Tensor Scalar", "div divide true_divide", _quotient),
    **_named("Tensor_mode Scalar_mode", "div divide", _quotient),
    **_named("default Scalar", "floor_divide", _floor_divide),
    **_named("Tensor Scalar", "remainder", _remainder),
    **_named("Tensor_Scalar Scalar Tensor_Tensor", "pow", _power),
    "aten.square.default": _square,
    **{f"aten.{name}.default": plain(name) for name in (
        "abs", "exp", "log", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "erf", "relu", "silu", "sigmoid", "tanh",
        "hardswish", "mish", "neg", "floor", "ceil", "round", "sign",
    )},
    **{f"aten.special_{name}.default": plain(name) for name in ("erf",)},
    "aten.special_expit.default": plain("sigmoid"),
    **{f"aten.{name}.default": row for name, row in {
        "expm1": _expm1, "special_expm1": _expm1, "log1p": _log1p, "exp2": _exp2, "log2": _log_base(2.0),
        "log10": _log_base(10.0), "gelu": _gelu, "softplus": _softplus, "elu": _elu, "leaky_relu": _leaky,
        "hardtanh": _hardtanh, "relu6": _relu6, "hardsigmoid": _hardsigmoid,
        "log_sigmoid": _log_sigmoid, "glu": _glu, "prelu": _prelu, "detach": _detach,
    }.items()},
    **dict.fromkeys(("aten.maximum.default", "aten.max.other"), _extreme("maximum")),
    **dict.fromkeys(("aten.minimum.default", "aten.min.other"), _extreme("minimum")),
    **_named("default Tensor", "clamp clip", _clamp(1, 2)),
    **_named("default Tensor", "clamp_min", _clamp(1, None)),
    **_named("default Tensor", "clamp_max", _clamp(None, 1)),
    **{target: row for name in ("lt", "le", "gt", "ge", "eq", "ne")
       for target, row in _named("Tensor Scalar", name, _compare(name)).items()},
    **_named("Tensor Scalar", "bitwise_and __and__", _logical("logical_and")),
    **_named("Tensor Scalar", "bitwise_or __or__", _logical("logical_or")),
    **_named("Tensor Scalar", "bitwise_xor __xor__", _exclusive),
    "aten.logical_and.default": _logical("logical_and"), "aten.logical_or.default": _logical("logical_or"),
    "aten.logical_xor.default": _exclusive,
    **_named("default", "logical_not bitwise_not", _not),
    **_named("self ScalarOther ScalarSelf Scalar", "where", _where),
    **_named("Scalar Tensor", "masked_fill", _masked_fill),
    **_named("Scalar Tensor", "lerp", _lerp),
    "aten.addcmul.default": _fused_product("mul"),
    "aten.addcdiv.default": _fused_product("div"),
}  # fmt: skip
"""Calls on elements."""
