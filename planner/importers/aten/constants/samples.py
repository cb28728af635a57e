"""Looks at one constant value of a program in several sizes, small ones in full and a large one in some rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from ....core.symbol import Polynomial
from ....core.tensor import TensorMeta
from ..program import Buffer, Call, Program, reads
from .evaluate import BY_SHAPE, Evaluator, bounds_in, is_square, name_of
from .numbers import NotConstant

RANDOM = frozenset({"rand", "randn", "randint", "rand_like", "randn_like", "randperm", "bernoulli", "dropout", "normal",
                    "multinomial", "empty", "empty_like", "new_empty"})  # fmt: skip
"""Operators that read nothing and are no constants."""
SMALL = ({"B": 2, "S": 7}, {"B": 3, "S": 12})
OTHERS = ((5, 11, 13, 17), (9, 10, 14, 19))
"""Sizes of further symbols."""
FEW = 64
"""Sequences up to this length are looked at in all rows."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A value in one size.

    Parameters
    ----------
    rows
        The sequence positions that the last dim but one of a square has here.
    """

    symbols: Mapping[str, int]
    rows: Any
    array: Any


@dataclass
class Samples:
    """The constants of a program."""

    program: Program
    calls: dict[str, Call] = field(init=False)
    buffers: dict[str, Buffer] = field(init=False)
    metas: dict[str, TensorMeta] = field(init=False)
    names: tuple[str, ...] = field(init=False)
    _evaluators: dict[tuple[tuple[tuple[str, int], ...], tuple[int, ...] | None], Evaluator] = field(init=False)

    def __post_init__(self) -> None:
        self.buffers = {buffer.name: buffer for buffer in self.program.buffers}
        self.calls = constant_calls(self.program)
        self.metas = {value.name: value.meta for value in self.program.inputs}
        self.metas |= {value.name: value.meta for value in self.program.weights}
        self.metas |= {value.name: value.meta for value in self.program.buffers}
        self.metas |= {call.result(i): meta for call in self.program.calls for i, meta in enumerate(call.results)}
        self.names = tuple(sorted({n for m in self.metas.values() for n in _symbols(m)} - {"B", "S"}))
        self._evaluators = {}

    def of(self, name: str) -> tuple[Sample, ...]:
        """Return a value in several sizes; none if it can't be computed in one of them."""
        try:
            found = [self._sample(name, {**symbols, **dict(zip(self.names, more, strict=False))}, None)
                     for symbols, more in zip(SMALL, OTHERS, strict=True)]  # fmt: skip
            bounds = bounds_in(self.calls[call] for call in self.ancestors(name.partition(":")[0]))
            if bounds and "S" in {n for a in self.ancestors(name.partition(":")[0]) for n in self._own(a)}:
                length = 2 * bounds[-1] + 5
                symbols = {**SMALL[0], "S": length, **dict(zip(self.names, OTHERS[0], strict=False))}
                found.append(self._sample(name, symbols, _rows(length, bounds)))
        except NotConstant:
            return ()
        return tuple(found)

    def bounds(self, name: str) -> tuple[int, ...]:
        """Return the bounds that stand in what a value is made of."""
        return bounds_in(self.calls[call] for call in self.ancestors(name.partition(":")[0]))

    def ancestors(self, name: str) -> tuple[str, ...]:
        """Return the calls that a value is made of, with its own."""
        found: dict[str, None] = {}
        stack = [name]
        while stack:
            top = stack.pop()
            if top in found or top not in self.calls:
                continue
            found[top] = None
            if name_of(self.calls[top]) not in BY_SHAPE:
                stack += [n.partition(":")[0] for n in reads(self.calls[top])]
        return tuple(found)

    def _own(self, name: str) -> frozenset[str]:
        return frozenset(n for meta in self.calls[name].results for n in _symbols(meta))

    def _sample(self, name: str, symbols: Mapping[str, int], rows: tuple[int, ...] | None) -> Sample:
        key = tuple(sorted(symbols.items())), rows
        if key not in self._evaluators:
            chosen = None if rows is None else np.array(rows)
            self._evaluators[key] = Evaluator(self.calls, self.buffers, frozenset(symbols.items()), chosen)
        array = self._evaluators[key].value(name)
        whole = np.arange(symbols.get("S", 0))
        return Sample(symbols, np.array(rows) if rows is not None and is_square(self.metas[name]) else whole, array)


def constant_calls(program: Program) -> dict[str, Call]:
    """Return the calls of a program that read neither inputs nor weights, by name."""
    known = {buffer.name for buffer in program.buffers}
    found: dict[str, Call] = {}
    for call in program.calls:
        name = name_of(call)
        fixed = name in BY_SHAPE or all(n.partition(":")[0] in known or n in known for n in reads(call))
        if name and call.results and fixed and name not in RANDOM:
            found[call.name] = call
            known.add(call.name)
    return found


def _rows(length: int, bounds: tuple[int, ...]) -> tuple[int, ...] | None:
    if length <= FEW:
        return None
    near = {row for bound in bounds[-16:] for row in (bound - 1, bound, bound + 1, 2 * bound)}
    return tuple(sorted(row for row in near | {0, 1, 2, length // 2, length - 2, length - 1} if row < length))


@cache
def _symbols(meta: TensorMeta) -> frozenset[str]:
    return frozenset(
        name for size in meta.shape if isinstance(size, Polynomial) for names, _ in size.terms for name in names
    )
