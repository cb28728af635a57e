"""What families of operators on any number of dims share: lines from lists of factors, attributes, local texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from ..core.rule import Factors, ShardingRule
from ..core.symbol import Size
from ..core.tensor import TensorMeta
from ..errors import RuleError
from .definition import Attributes, Local, Shape, names_of, shapes_of

MANY = ("x0", *(f"x{i}?" for i in range(1, 64)))
"""Operand names of an operator that takes any number of tensors."""


def line(
    operands: tuple[TensorMeta, ...],
    results: tuple[TensorMeta, ...],
    read: Sequence[Sequence[str]],
    made: Sequence[Sequence[str]],
    *,
    names: tuple[str, ...] = (),
    terms: str = "",
    sizes: dict[str, Size] | None = None,
    blocked: Mapping[str, str] | None = None,
    even: frozenset[str] = frozenset(),
    special: frozenset[str] = frozenset(),
    reduce: str = "sum",
) -> ShardingRule:
    """Return the rule whose operands are `read` and whose results are `made`, each a list of dims."""
    left, right = (", ".join(" ".join(dims) for dims in tensors) for tensors in (read, made))
    return ShardingRule.parse(
        f"{left} -> {right}", shapes=shapes_of(operands + results), names=names, terms=terms, sizes=sizes,
        blocked=dict(blocked or {}), even=even, special=special, reduce=reduce,
    )  # fmt: skip


def text(dims: Sequence[Factors]) -> str:
    """Return dims of factors as a line writes them."""
    return " ".join(f"({' '.join(dim)})" if len(dim) > 1 else dim[0] for dim in dims)


def replaced(dims: Sequence[str], dim: int, *new: str) -> list[str]:
    """Return a list of dims with others, or none, in the place of one."""
    return [*dims[:dim], *new, *dims[dim + 1 :]]


def names_where(shape: Sequence[Size], start: int = 0) -> list[str]:
    """Return the names of all dims from `start`, with `1` for those of size 1."""
    return ["1" if size == 1 else name for name, size in list(zip(names_of(len(shape)), shape, strict=True))[start:]]


def integer(attributes: Attributes, name: str, default: int | None = None) -> int:
    """Return an attribute that is an integer."""
    value = attributes.get(name, default)
    if not isinstance(value, int):
        raise misfit(f"the attribute {name} is {value!r}, no integer")
    return value


def integers(attributes: Attributes, name: str) -> tuple[int, ...]:
    """Return an attribute that is a tuple of integers; a single one is taken as a tuple."""
    value = attributes.get(name)
    if isinstance(value, int):
        return (value,)
    if not isinstance(value, tuple) or not all(isinstance(v, int) for v in value):
        raise misfit(f"the attribute {name} is {value!r}, no tuple of integers")
    return tuple(v for v in value if isinstance(v, int))


def misfit(what: str) -> RuleError:
    """Build the error for an attribute that does not fit the operands."""
    return RuleError("rule.attribute", f"An operator can't be built: {what}.", "Mend the importer or the attribute.")


def like_first(operands: tuple[TensorMeta, ...], _: Attributes) -> tuple[TensorMeta, ...]:
    """Return the meta of a result that is like the first operand."""
    return (operands[0],)


def of_operand(cost: float) -> Callable[[tuple[Shape, ...], tuple[Shape, ...]], float]:
    """Return a FLOP count of `cost` for each element of the first operand."""
    return lambda operands, _: cost * prod(operands[0])


def attributes_of(local: Local) -> Attributes:
    """Return the attributes of the node."""
    return dict(local.node.attributes)


def listed(texts: Sequence[str]) -> str:
    """Return a tuple as Python writes it."""
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
