"""Computes what calls that read neither inputs nor weights give, for one batch and one sequence length.

Squares of two sequence dims, which masks are, can be computed in some rows only, so that masks of long sequences stay
small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....core.symbol import Polynomial, Size, evaluate, symbol
from ....core.tensor import TensorMeta
from ..program import Argument, Buffer, Call, Ref, Word, reads
from .numbers import BITWISE, ELEMENTWISE, FILLED, FUNCTIONS, MADE, NotConstant

LIMIT = 1 << 22
"""Elements of the largest array that is computed."""
SEQUENCE = symbol("S")
BY_SHAPE = frozenset({*MADE, "full_like", "new_full"})
"""Operators that read nothing of their first operand but its shape and type."""

TRIANGLES = ("tril", "triu")


def name_of(call: Call) -> str:
    """Return the operator's name without namespace and overload; empty for one that is not ATen's."""
    parts = call.target.split(".")
    return parts[1] if parts[0] == "aten" and len(parts) > 1 else ""


def is_square(meta: TensorMeta) -> bool:
    """Say whether the last two dims are sequence by sequence."""
    return meta.shape[-2:] == (SEQUENCE, SEQUENCE)


@dataclass
class Evaluator:
    """Values by name for given sizes, computed when they are asked for.

    Parameters
    ----------
    calls
        By name, without that of further results.
    symbols
        Pairs (symbol, integer).
    rows
        Rows in which squares are computed; None for all.
    floats
        Type of floating numbers.
    """

    calls: Mapping[str, Call]
    buffers: Mapping[str, Buffer]
    symbols: frozenset[tuple[str, int]]
    rows: Any = None
    floats: Any = np.float64
    made: dict[str, Any] = field(default_factory=dict)

    def value(self, name: str) -> Any:
        """Return an array.

        Raises
        ------
        NotConstant
            When an operator is not known, an array too large, or a buffer without values.
        """
        stack = [name]
        while stack:
            top = stack[-1]
            missing = [n for n in self._reads(top) if n not in self.made] if top not in self.made else []
            if missing:
                stack += missing
                continue
            if top not in self.made:
                self._make(top)
            stack.pop()
        if isinstance(self.made[name], NotConstant):
            raise self.made[name]
        return self.made[name]

    def size(self, size: Size) -> int:
        """Return a size as a number."""
        return evaluate(size, self.symbols)

    def shape(self, meta: TensorMeta) -> tuple[int, ...]:
        """Return a shape as numbers; a square has the rows that are computed."""
        shape = [self.size(size) for size in meta.shape]
        if self.rows is not None and is_square(meta):
            shape[-2] = len(self.rows)
        return tuple(shape)

    def _reads(self, name: str) -> tuple[str, ...]:
        call = self.calls.get(name.partition(":")[0])
        if call is None or name_of(call) in BY_SHAPE:
            return ()
        return tuple(dict.fromkeys(reads(call)))

    def _make(self, name: str) -> None:
        call = self.calls.get(name.partition(":")[0])
        try:
            if call is None:
                self.made[name] = self._buffer(name)
                return
            results = self._call(call)
        except NotConstant as reason:
            self.made[name] = reason
            return
        except (ValueError, TypeError, IndexError, KeyError, OverflowError, MemoryError) as error:
            self.made[name] = NotConstant(f"{call.target if call else name}: {error}")
            return
        for i, result in enumerate(results):
            self.made[call.result(i)] = result

    def _buffer(self, name: str) -> Any:
        buffer = self.buffers.get(name)
        if buffer is None or buffer.values is None:
            raise NotConstant(f"{name} has no values")
        return self._typed(np.array(buffer.values), buffer.meta).reshape(self.shape(buffer.meta))

    def _call(self, call: Call) -> tuple[Any, ...]:
        name = name_of(call)
        shapes = [self.shape(meta) for meta in call.results]
        if not shapes or sum(int(np.prod(shape)) for shape in shapes) > LIMIT:
            raise NotConstant(f"{call.target} makes no tensor, or one of more than {LIMIT} elements")
        if name in MADE:
            return (self._typed(MADE[name](shapes[0]), call.results[0]),)
        if name in FILLED:
            value = self._plain(call.arguments[FILLED[name]])
            return (self._typed(np.full(shapes[0], value), call.results[0]),)
        function = FUNCTIONS.get(name)
        if function is None:
            raise NotConstant(f"{call.target} is not known")
        arguments = [self._plain(argument) for argument in call.arguments]
        keywords = {key: self._plain(value) for key, value in call.keywords}
        if name in BITWISE and any(isinstance(x, np.ndarray) and x.dtype != bool for x in arguments):
            raise NotConstant(f"{call.target} of integers")
        if self.rows is not None and any(map(is_square, call.results)):
            if name in TRIANGLES:
                return (self._typed(self._triangle(call, name, *arguments), call.results[0]),)
            arguments = self._in_rows(call, name, arguments)
        keywords = {k: v for k, v in keywords.items() if k in {"alpha", "rounding_mode", "indexing", "keepdim"}}
        with np.errstate(all="ignore"):
            made = function(*arguments, **keywords)
        results = made if isinstance(made, tuple) else (np.asarray(made),)
        if [x.shape for x in results] != shapes:
            raise NotConstant(f"{call.target} gives {[x.shape for x in results]}, not {shapes}")
        return tuple(self._typed(x, meta) for x, meta in zip(results, call.results, strict=True))

    def _triangle(self, call: Call, name: str, x: Any, diagonal: int = 0) -> Any:
        """Return the rows of a triangle of a square."""
        x = x if self._has_rows(_name(call.arguments[0])) else x[..., self.rows, :]
        offset = np.arange(x.shape[-1]) - self.rows[:, None]
        return np.where(offset <= diagonal if name == "tril" else offset >= diagonal, x, np.zeros((), x.dtype))

    def _in_rows(self, call: Call, name: str, arguments: list[Any]) -> list[Any]:
        """Return the arguments with which a call makes its rows of a square."""
        length = dict(self.symbols)["S"]

        def cut(argument: Argument, value: Any) -> Any:
            if isinstance(argument, tuple):
                return [cut(one, v) for one, v in zip(argument, value, strict=True)]
            done = isinstance(argument, Ref) and argument.name in self.calls and self._has_rows(argument.name)
            if done or not isinstance(value, np.ndarray) or value.ndim < 2 or value.shape[-2] != length:
                return value
            return value[..., self.rows, :]

        if name in ELEMENTWISE:
            return [cut(a, v) for a, v in zip(call.arguments, arguments, strict=True)]
        if name == "index" and not self._has_rows(_name(call.arguments[0])):
            return [arguments[0], cut(call.arguments[1], arguments[1])]
        if name in {"expand", "unsqueeze", "squeeze", "slice", "view", "reshape"}:
            (source, *rest) = [cut(call.arguments[0], arguments[0]), *arguments[1:]]
            if name in {"expand", "view", "reshape"}:
                rest[0] = (*rest[0][:-2], len(self.rows), rest[0][-1])
            return [source, *rest]
        raise NotConstant(f"{call.target} in some rows")

    def _has_rows(self, name: str) -> bool:
        call = self.calls.get(name.partition(":")[0])
        return call is not None and any(map(is_square, call.results))

    def _plain(self, argument: Argument) -> Any:
        """Return an argument with values in the place of names and symbols."""
        if isinstance(argument, Ref):
            value = self.made[argument.name]
            if isinstance(value, NotConstant):
                raise value
            return value
        if isinstance(argument, Polynomial):
            return self.size(argument)
        if isinstance(argument, tuple):
            return tuple(self._plain(part) for part in argument)
        return None if isinstance(argument, Word) else argument

    def _typed(self, x: Any, meta: TensorMeta) -> Any:
        if meta.dtype == "bool":
            return np.asarray(x, bool)
        if meta.dtype.startswith(("int", "uint")):
            with np.errstate(invalid="ignore"):
                return np.asarray(x).astype(np.int64)
        return np.asarray(x, self.floats)


def _name(argument: Argument) -> str:
    return argument.name if isinstance(argument, Ref) else ""


def bounds_in(calls: Iterable[Call]) -> tuple[int, ...]:
    """Return the integers above 3 that stand in calls: bounds beyond which a value may look different."""
    found: set[int] = set()
    for call in calls:
        stack: list[Argument] = [call.arguments, *(value for _, value in call.keywords)]
        while stack:
            part = stack.pop()
            if isinstance(part, tuple):
                stack += part
            elif isinstance(part, int) and 3 < abs(part) < 1 << 31:
                found.add(abs(part))
    return tuple(sorted(found))
