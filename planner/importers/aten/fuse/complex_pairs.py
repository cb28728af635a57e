"""Complex numbers as pairs of real ones: each call that makes complex numbers becomes those of both parts.

Rotations are often written as products of complex numbers; of real ones they are seen as what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ....core.tensor import TensorMeta
from ..program import Argument, Call, Program, Ref, reads
from .calls import base, given
from .rewrite import rename, without_dead

_COMPLEX = {"complex32", "complex64", "complex128"}
_ALIKE = frozenset({"view", "reshape", "unsqueeze", "squeeze", "expand", "slice", "select", "transpose", "permute",
                    "index", "index_select", "clone", "contiguous", "detach", "flatten", "cat", "to"})  # fmt: skip
"""Calls that do to both parts what they do to the whole."""


@dataclass(slots=True)
class _Pairs:
    """A program in the making, and the parts of its complex values."""

    program: Program
    parts: dict[str, tuple[str, str]] = field(default_factory=dict)
    metas: dict[str, TensorMeta] = field(default_factory=dict)
    made: list[Call] = field(default_factory=list)
    instead: dict[str, str] = field(default_factory=dict)
    stuck: bool = False

    def run(self) -> Program:
        self.metas = given(self.program)
        for call in self.program.calls:
            self.metas |= {call.result(index): meta for index, meta in enumerate(call.results)}
            self.add(call)
        if self.stuck or any(name in self.parts for name in self.program.outputs):
            # Lowering, which sees one call at a time, does more of them.
            return self.program
        return without_dead(rename(replace(self.program, calls=tuple(self.made)), self.instead))

    def add(self, call: Call) -> None:
        """Add a call, or those of the parts that it makes or reads."""
        kind = base(call.target)
        complex_made = any(meta.dtype in _COMPLEX for meta in call.results)
        complex_read = any(name in self.parts for name in reads(call))
        if not complex_made and not complex_read:
            self.made.append(call)
            return
        writer = _ROWS.get(kind) or (_alike if kind in _ALIKE and complex_read else None)
        if writer is None or not writer(self, call):
            self.stuck = True

    def real(self, call: Call, role: str, target: str, *arguments: Argument, shape: TensorMeta | None = None) -> str:
        """Add a call on real numbers and return its name."""
        dtype = next((self.metas[n].dtype for n in (a.name for a in arguments if isinstance(a, Ref))
                      if self.metas[n].dtype not in _COMPLEX), "float32")  # fmt: skip
        meta = shape or TensorMeta(call.results[0].shape, dtype)
        one = replace(
            call, name=f"{call.name}_{role}", target=target, arguments=arguments, keywords=(), results=(meta,)
        )
        self.metas[one.name] = meta
        self.made.append(one)
        return one.name

    def pair(self, argument: Argument) -> tuple[Ref, Ref] | None:
        """Return the parts of a value; None if it is a real one."""
        if not isinstance(argument, Ref) or argument.name not in self.parts:
            return None
        first, second = self.parts[argument.name]
        return Ref(first), Ref(second)


def _polar(pairs: _Pairs, call: Call) -> bool:
    length, angle = call.arguments
    cos = pairs.real(call, "cos", "aten.cos.default", angle)
    sin = pairs.real(call, "sin", "aten.sin.default", angle)
    one = next((c for c in pairs.made if isinstance(length, Ref) and c.name == length.name), None)
    if one is None or not (base(one.target) in ("ones", "ones_like") or one.arguments[1:2] == (1.0,)):
        cos, sin = (pairs.real(call, f"{role}_long", "aten.mul.Tensor", length, Ref(part))
                    for role, part in (("cos", cos), ("sin", sin)))  # fmt: skip
    pairs.parts[call.name] = (cos, sin)
    return True


def _joined(pairs: _Pairs, call: Call) -> bool:
    """Take the two elements of the last dim as the parts."""
    x = call.arguments[0]
    first, second = (pairs.real(call, f"part{i}", "aten.select.int", x, -1, i) for i in (0, 1))
    pairs.parts[call.name] = (first, second)
    return True


def _named(pairs: _Pairs, call: Call) -> bool:
    first, second = call.arguments
    if not isinstance(first, Ref) or not isinstance(second, Ref):
        return False
    pairs.parts[call.name] = (first.name, second.name)
    return True


def _split(pairs: _Pairs, call: Call) -> bool:
    """Put the parts side by side in a new last dim."""
    found = pairs.pair(call.arguments[0])
    if found is None:
        return False
    meta = TensorMeta(call.results[0].shape, pairs.metas[found[0].name].dtype)
    pairs.metas[call.name] = meta
    pairs.made.append(replace(call, target="aten.stack.default", arguments=(found, -1), keywords=(), results=(meta,)))
    return True


def _picked(index: int) -> Callable[[_Pairs, Call], bool]:
    def row(pairs: _Pairs, call: Call) -> bool:
        found = pairs.pair(call.arguments[0])
        if found is not None:
            pairs.instead[call.name] = found[index].name
        return found is not None

    return row


def _product(pairs: _Pairs, call: Call) -> bool:
    x, y = (pairs.pair(argument) for argument in call.arguments[:2])
    if x is None or y is None:
        whole = x or y
        if whole is None:
            return False
        factor = call.arguments[0] if x is None else call.arguments[1]
        first, second = (pairs.real(call, f"part{i}", "aten.mul.Tensor", part, factor) for i, part in enumerate(whole))
        pairs.parts[call.name] = (first, second)
        return True
    (a, b), (c, s) = x, y

    def product(role: str, left: Ref, right: Ref) -> Ref:
        return Ref(pairs.real(call, role, "aten.mul.Tensor", left, right))

    first = pairs.real(call, "part0", "aten.sub.Tensor", product("ac", a, c), product("bs", b, s))
    second = pairs.real(call, "part1", "aten.add.Tensor", product("bc", b, c), product("as", a, s))
    pairs.parts[call.name] = (first, second)
    return True


def _turned(pairs: _Pairs, call: Call) -> bool:
    found = pairs.pair(call.arguments[0])
    if found is not None:
        pairs.parts[call.name] = (found[0].name, pairs.real(call, "part1", "aten.neg.default", found[1]))
    return found is not None


def _alike(pairs: _Pairs, call: Call) -> bool:
    """Do to both parts what the call does to the whole."""
    names = [name for name in reads(call) if name in pairs.parts]
    if any(pairs.metas[name].dtype in _COMPLEX for name in reads(call) if name not in pairs.parts):
        return False
    if base(call.target) == "to":
        pairs.parts[call.name] = pairs.parts[names[0]]
        return True
    made = []
    for index in (0, 1):

        def swap(argument: Argument, index: int = index) -> Argument:
            if isinstance(argument, Ref) and argument.name in pairs.parts:
                return Ref(pairs.parts[argument.name][index])
            return tuple(map(swap, argument)) if isinstance(argument, tuple) else argument

        dtype = pairs.metas[pairs.parts[names[0]][index]].dtype
        meta = TensorMeta(call.results[0].shape, dtype)
        one = replace(
            call, name=f"{call.name}_part{index}", arguments=tuple(map(swap, call.arguments)), results=(meta,)
        )
        pairs.metas[one.name] = meta
        pairs.made.append(one)
        made.append(one.name)
    pairs.parts[call.name] = (made[0], made[1])
    return True


_ROWS: dict[str, Callable[[_Pairs, Call], bool]] = {
    "polar": _polar, "view_as_complex": _joined, "complex": _named, "view_as_real": _split, "real": _picked(0),
    "imag": _picked(1), "mul": _product, "conj": _turned, "_conj": _turned,
}  # fmt: skip


def as_pairs(program: Program) -> Program:
    """Return the program with complex numbers as pairs; it is the same where it has none."""
    complex_ones = any(meta.dtype in _COMPLEX for call in program.calls for meta in call.results)
    return _Pairs(program).run() if complex_ones else program
