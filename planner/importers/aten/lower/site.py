"""What a row of `TARGETS` sees: one call, its arguments by their ATen names, and a way to add nodes for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ....core.graph import Attribute
from ....core.symbol import Polynomial, Size, symbol
from ....core.tensor import TensorMeta
from ...builder import BlockBuilder
from ..program import Argument, Call, Ref, Word

INTEGERS = ("int64", "int32", "bool")


class UnloweredError(Exception):
    """No operator of `OPS` does what a call does; the text says what it lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A value without dims that is known: it is written where it is used, and needs no node."""

    value: int | float | bool
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty:
    """A value without elements: nothing is computed for it, and joins leave it out."""

    meta: TensorMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A complex value, as two values of the block."""

    real: str
    imaginary: str


Held = str | Number | Empty | Pair
"""A value of the block by name, a number, nothing, or a complex one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One call that is being lowered.

    Parameters
    ----------
    held
        What each value of the program that was made so far is in the block.
    used
        Which of the call's results anything reads.
    """

    call: Call
    build: BlockBuilder
    held: Mapping[str, Held]
    used: frozenset[int]

    def argument(self, position: int, name: str = "", default: Argument = None) -> Argument:
        """Return an argument as it is written, by position or name."""
        if position < len(self.call.arguments):
            return self.call.arguments[position]
        return dict(self.call.keywords).get(name, default)

    def given(self, position: int, name: str = "") -> bool:
        """Return whether an argument is there and is not None."""
        return self.argument(position, name) is not None

    def x(self, position: int, name: str = "") -> str:
        """Return an argument as a value of the block; a number becomes a tensor of one element."""
        return self.value(self.argument(position, name))

    def value(self, argument: Argument) -> str:
        """Return the value of the block that an argument is."""
        number = self.known(argument)
        if number is not None:
            return self.full((), number.value, number.dtype)
        if isinstance(argument, Polynomial):
            return self.amount(argument)
        if not isinstance(argument, Ref):
            raise UnloweredError(f"{argument!r} stands where a tensor is expected")
        held = self.held[argument.name]
        if not isinstance(held, str):
            what = "complex numbers" if isinstance(held, Pair) else "a tensor without elements"
            raise UnloweredError(f"it computes with {what}")
        return held

    def amount(self, size: Size) -> str:
        """Return a size as a value: the ones of a tensor that has it, added up."""
        total = ""
        for monomial, coefficient in Polynomial.of(size).terms:
            ones = self.full([symbol(name) for name in monomial], 1, "int64")
            part = self.node("sum", ones) if monomial else ones
            part = self.node("scale", part, factor=coefficient) if coefficient != 1 else part
            total = self.node("add", total, part) if total else part
        return total

    def known(self, argument: Argument) -> Number | None:
        """Return the number that an argument is, or None."""
        if isinstance(argument, Ref):
            held = self.held[argument.name]
            return held if isinstance(held, Number) else None
        if isinstance(argument, bool):
            return Number(value=argument, dtype="bool")
        if isinstance(argument, int):
            return Number(value=argument, dtype="int64")
        return Number(value=argument, dtype="compute") if isinstance(argument, float) else None

    def number(self, position: int, name: str = "") -> int | float | bool | None:
        """Return an argument that is a number; None for a tensor."""
        argument = self.argument(position, name)
        known = self.known(argument)
        return known.value if known else None

    def tensors(self, position: int, name: str = "") -> tuple[str, ...]:
        """Return an argument that is a list of tensors."""
        argument = self.argument(position, name)
        assert isinstance(argument, tuple)
        return tuple(self.value(part) for part in argument if not self.empty(part))

    def empty(self, argument: Argument) -> bool:
        """Return whether an argument is a tensor without elements."""
        return isinstance(argument, Ref) and isinstance(self.held[argument.name], Empty)

    def integer(self, position: int, name: str = "", default: int | None = None) -> int:
        """Return an argument that is an integer."""
        value = self.argument(position, name, default)
        if isinstance(value, Ref):
            value = self.number(position, name)
        if not isinstance(value, int):
            raise UnloweredError(f"its {name} is {value}, where an integer is expected")
        return value

    def real(self, position: int, name: str, default: float) -> float:
        """Return an argument that is a number, as a float."""
        value = self.argument(position, name, default)
        number = self.known(value)
        if value is not None and number is None:
            raise UnloweredError(f"its {name} is {value}, where a number is expected")
        return float(number.value) if number else default

    def flag(self, position: int, name: str, default: bool) -> bool:
        """Return an argument that is a truth value."""
        return bool(self.argument(position, name, default))

    def integers(self, position: int, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return an argument that is a list of integers; a single one is taken as a list."""
        value = self.argument(position, name, default)
        values = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(v, int) for v in values):
            raise UnloweredError(f"its {name} is {value}, where integers are expected")
        return tuple(v for v in values if isinstance(v, int))

    def word(self, position: int, name: str) -> str:
        """Return an argument that is a word or a text; empty if it is left out."""
        value = self.argument(position, name)
        return value.text if isinstance(value, Word) else value if isinstance(value, str) else ""

    def meta(self, name: str) -> TensorMeta:
        """Return shape and element type of a value of the block."""
        return self.build.meta(name)

    def rank(self, name: str) -> int:
        """Return the number of dims of a value of the block."""
        return len(self.build.meta(name).shape)

    def dim(self, position: int, name: str, rank: int, default: int = -1) -> int:
        """Return an argument that names a dim, counted from the front."""
        return self.integer(position, name, default) % max(rank, 1)

    @property
    def made(self) -> TensorMeta:
        """Shape and element type of the call's first result."""
        return self.call.results[0]

    def node(self, op: str, *operands: str, **attributes: Attribute) -> str:
        """Add an operator and return its first result."""
        return self.nodes(op, *operands, **attributes)[0]

    def nodes(self, op: str, *operands: str, **attributes: Attribute) -> tuple[str, ...]:
        """Add an operator and return its results."""
        return self.build.node(self.build.fresh(self.call.name), op, *operands, module=self.call.module,
                               attributes=attributes)  # fmt: skip

    def full(self, shape: Sequence[Size], value: float, dtype: str) -> str:
        """Add a tensor that has one value everywhere."""
        return self.node("full", sizes=text(shape), value=value, dtype=dtype)

    def cast(self, x: str, dtype: str) -> str:
        """Return a value in another element type."""
        if self.meta(x).dtype == dtype:
            return x
        return self.node("to_integer" if dtype in INTEGERS else "cast", x, dtype=dtype)

    def unsqueezed(self, x: str, *dims: int) -> str:
        """Return a value with dims of size 1 put in, each at the place that it has in the end."""
        for dim in sorted(dims):
            x = self.node("unsqueeze", x, dim=dim)
        return x

    def squeezed(self, x: str, *dims: int) -> str:
        """Return a value without some dims of size 1."""
        for dim in sorted(dims, reverse=True):
            x = self.node("squeeze", x, dim=dim)
        return x

    def reshaped(self, x: str, shape: Sequence[Size]) -> str:
        """Return a value with its elements under other dims."""
        if self.meta(x).shape == tuple(shape):
            return x
        if not self.meta(x).shape:
            return self.unsqueezed(x, *range(len(shape)))
        if not shape:
            return self.squeezed(x, *range(self.rank(x)))
        return self.node("reshape", x, sizes=text(shape))

    def expanded(self, x: str, shape: Sequence[Size]) -> str:
        """Return a value broadcast to a shape."""
        return x if self.meta(x).shape == tuple(shape) else self.node("expand", x, sizes=text(shape))

    def permuted(self, x: str, dims: Sequence[int]) -> str:
        """Return a value with its dims in another order."""
        return x if list(dims) == list(range(len(dims))) else self.node("permute", x, dims=tuple(dims))

    def with_last(self, x: str, dim: int) -> str:
        """Return a value with one dim moved to the end."""
        rank = self.rank(x)
        return self.permuted(x, [*(d for d in range(rank) if d != dim % rank), dim % rank])


Row = Callable[[Site], Held | Sequence[Held]]
"""Adds the nodes of a call; returns what its results are in the block."""


def text(shape: Sequence[Size]) -> str:
    """Return sizes as the attribute `sizes` of operators holds them."""
    return ", ".join(map(str, shape))
