"""MindSpore's operator strategies: one tuple an input, one number of parts a dim, such as `((2, 4), (4, 1))`.

Every factor of the operator's rule gets the count of the dims that it is on, and is a dim of the *device matrix*, in
the order in which factors appear in the rule. If the counts do not use all devices, the calculation is repeated: the
rest is one more dim of the matrix, at its right end (neighbouring ranks repeat) or at its left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd, prod
from typing import Literal

from ..core.refine import Matrix
from ..core.rule import Factors, ShardingRule, TensorFactors
from ..errors import LayoutError
from .device_layout import DeviceLayout

Counts = tuple[tuple[int, ...], ...]
Side = Literal["left", "right"]
LEFT: Mapping[str, str] = {"embedding": "vocab"}
"""Operator → factor: sharding it puts the repetition to the left. MindSpore does so for a split look-up table only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A strategy on devices.

    Parameters
    ----------
    matrix
        The device matrix, the repetition included.
    factors
        Factors of its dims from the left; empty text for the repetition.
    inputs, outputs
        The layouts of the operator's tensors.
    """

    matrix: Matrix
    factors: Factors
    inputs: tuple[DeviceLayout, ...]
    outputs: tuple[DeviceLayout, ...]


def place(
    rule: ShardingRule, counts: object, sizes: Mapping[str, int], devices: int, *, subject: str,
    side: Side | None = None, op: str = "", names: tuple[str, ...] = (), order: Factors = (),
) -> Placed:  # fmt: skip
    """Return where a strategy puts the operator's tensors.

    Parameters
    ----------
    sizes
        Size of every factor.
    side
        Where the repetition goes; by default to the right, except for what `LEFT` names.
    op, names
        Key of `OPS` and names of the inputs, for that default and for messages.
    order
        Factors from the left of the matrix, where an operator has another order than its rule.

    Raises
    ------
    LayoutError
        The first that is wrong of `mindspore.strategy-missing`, `mindspore.input-count`, `mindspore.tuple-length`,
        `mindspore.count-value`, `mindspore.count-divides`, `mindspore.device-count`, `mindspore.counts-disagree`,
        `mindspore.count-uneven`, `rule.factor-blocked`.
    """
    given = check(rule, counts, sizes, devices, subject=subject, names=names)
    parts = _factors(rule, given, sizes, subject, names)
    blocked = dict(rule.blocked)
    for factor, count in parts.items():
        if count > 1 and factor in blocked:
            raise LayoutError(
                "rule.factor-blocked",
                f"{subject}: factor {factor} may not be sharded: {blocked[factor]}; the strategy cuts it into {count}.",
                f"Give the dims of {factor} a count of 1.", subject=subject,
            )  # fmt: skip
    factors = order or tuple(factor for factor in rule.factors if factor not in blocked)
    matrix = tuple(parts.get(factor, 1) for factor in factors)
    rest, left_over = divmod(devices, prod(matrix))
    if left_over:
        raise _too_many(subject, "The strategy", prod(matrix), devices)
    if rest > 1:
        default: Side = "left" if parts.get(LEFT.get(op, ""), 1) > 1 else "right"
        left = (side or default) == "left"
        matrix = (rest, *matrix) if left else (*matrix, rest)
        factors = ("", *factors) if left else (*factors, "")

    def laid(tensor: TensorFactors) -> DeviceLayout:
        last = len(factors) - 1
        return DeviceLayout(
            matrix=matrix,
            tensor_map=tuple(tuple(last - factors.index(f) for f in dim if parts.get(f, 1) > 1) for dim in tensor),
            shape=tuple(prod(sizes[f] for f in dim) for dim in tensor),
        )

    inputs, outputs = (tuple(map(laid, tensors)) for tensors in (rule.operands, rule.results))
    return Placed(matrix=matrix, factors=factors, inputs=inputs, outputs=outputs)


def check(
    rule: ShardingRule, counts: object, sizes: Mapping[str, int], devices: int, *, subject: str,
    names: tuple[str, ...] = (),
) -> Counts:  # fmt: skip
    """Return the counts if they fit the operator's inputs and the devices, by MindSpore's checks 1 to 5 and 7.

    Its check 6, powers of two, is not made: any count that divides is legal here.
    """
    if not isinstance(counts, list | tuple) or not counts:
        raise LayoutError(
            "mindspore.strategy-missing", f"{subject}: the strategy {counts!r} has no tuples.",
            f"Give one tuple an input, {len(rule.operands)} in all.", subject=subject,
        )  # fmt: skip
    if len(counts) != len(rule.operands):
        raise LayoutError(
            "mindspore.input-count",
            f"{subject}: the strategy has {len(counts)} tuples, the operator {len(rule.operands)} inputs.",
            f"Give one tuple an input{_listed(names)}.", subject=subject,
        )  # fmt: skip
    for position, (given, tensor) in enumerate(zip(counts, rule.operands, strict=True)):
        what = _input(names, position)
        length = len(given) if isinstance(given, list | tuple) else None
        if length != len(tensor):
            said = f"has length {length}" if length is not None else f"is {given!r}, not a tuple"
            raise LayoutError(
                "mindspore.tuple-length",
                f"{subject}: the tuple of {what} {said}, the tensor has {len(tensor)} dims.",
                "Give one count a dim.", subject=subject,
            )  # fmt: skip
        for dim, (count, factors) in enumerate(zip(given, tensor, strict=True)):
            size = prod(sizes[f] for f in factors)
            if type(count) is not int or count < 1:
                raise LayoutError(
                    "mindspore.count-value", f"{subject}: the count of dim {dim} of {what} is {count!r}.",
                    "Give a whole number of at least 1; 1 keeps the dim whole.", subject=subject,
                )  # fmt: skip
            if size % count:
                raise LayoutError(
                    "mindspore.count-divides",
                    f"{subject}: dim {dim} of {what} has size {size}, which {count} does not divide "
                    f"({size} % {count} = {size % count}).",
                    f"Use a count that divides {size}.", subject=subject,
                )  # fmt: skip
    found = tuple(tuple(given) for given in counts)
    for position, given in enumerate(found):
        if devices % prod(given):
            raise _too_many(subject, f"The tuple {given} of {_input(names, position)}", prod(given), devices)
    return found


def _factors(
    rule: ShardingRule, counts: Counts, sizes: Mapping[str, int], subject: str, names: tuple[str, ...]
) -> dict[str, int]:
    """Return the count of every factor; all inputs that have a factor must agree on it (check 8)."""
    parts: dict[str, int] = {}
    said: dict[str, str] = {}
    for position, (given, tensor) in enumerate(zip(counts, rule.operands, strict=True)):
        for dim, (count, factors) in enumerate(zip(given, tensor, strict=True)):
            where = f"dim {dim} of {_input(names, position)}"
            for factor, part in _spread(count, factors, sizes, f"{subject}: {where}", subject).items():
                if parts.setdefault(factor, part) != part:
                    raise LayoutError(
                        "mindspore.counts-disagree",
                        f"{subject}: factor {factor} is cut into {parts[factor]} by {said[factor]} and into {part} by "
                        f"{where}.",
                        "Give both the same count.", subject=subject,
                    )  # fmt: skip
                said.setdefault(factor, where)
    return parts


def _spread(count: int, factors: Factors, sizes: Mapping[str, int], where: str, subject: str) -> dict[str, int]:
    """Return the counts of the factors of one dim: a minor factor is cut only where the major ones are down to 1."""
    parts, left = {}, count
    for factor in factors:
        parts[factor] = gcd(left, sizes[factor])
        left //= parts[factor]
        if left > 1 and parts[factor] < sizes[factor]:
            raise LayoutError(
                "mindspore.count-uneven",
                f"{where} is made of ({' '.join(factors)}); {count} parts would cut {factor}, of size {sizes[factor]}, "
                "unevenly.",
                f"Use a count that divides {sizes[factor]} or is a multiple of it.", subject=subject,
            )  # fmt: skip
    return parts


def _too_many(subject: str, what: str, product: int, devices: int) -> LayoutError:
    return LayoutError(
        "mindspore.device-count",
        f"{subject}: {what[0].lower()}{what[1:]} needs {product} devices, which do not divide the {devices} there are "
        f"({devices} % {product} = {devices % product}).",
        f"Use counts whose product divides {devices}.", subject=subject,
    )  # fmt: skip


def _input(names: tuple[str, ...], position: int) -> str:
    return names[position] if position < len(names) else f"input {position}"


def _listed(names: tuple[str, ...]) -> str:
    return f": {', '.join(names)}" if names else ""
