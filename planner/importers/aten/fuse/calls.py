"""Where each value of a program is made and read, and what is seen when harmless calls are looked through."""

from __future__ import annotations

from dataclasses import dataclass, field

from ....core.symbol import Size
from ....core.tensor import TensorMeta
from ..program import Argument, Call, Program, Ref, Weight, reads

FLOATS = frozenset({"compute", "float64", "float32", "bfloat16", "float16"})
_VIEWS = frozenset({"unsqueeze", "squeeze", "expand", "view", "reshape", "expand_as"})


def base(target: str) -> str:
    """Return the operator without its overload: `mul` of `aten.mul.Tensor`; a fused one keeps its prefix."""
    return target if target.startswith("fused.") else target.split(".")[1] if "." in target else target


@dataclass(slots=True)
class Calls:
    """A program with the maker and the readers of each of its values."""

    program: Program
    made: dict[str, Call] = field(init=False)
    metas: dict[str, TensorMeta] = field(init=False)
    readers: dict[str, tuple[str, ...]] = field(init=False)
    weights: dict[str, Weight] = field(init=False)

    def __post_init__(self) -> None:
        program = self.program
        self.weights = {weight.name: weight for weight in program.weights}
        self.made = {}
        self.metas = given(program)
        readers: dict[str, list[str]] = {}
        for call in program.calls:
            for index, meta in enumerate(call.results):
                self.made[call.result(index)] = call
                self.metas[call.result(index)] = meta
            for name in dict.fromkeys(reads(call)):
                readers.setdefault(name, []).append(call.name)
        for name in (*program.outputs, program.logits):
            # The outside reads what the program gives, under no call's name.
            readers.setdefault(name, []).append("")
        self.readers = {name: tuple(names) for name, names in readers.items()}

    def maker(self, argument: Argument) -> Call | None:
        """Return the call that makes a value; None for inputs, weights, buffers and what is no value."""
        return self.made.get(argument.name) if isinstance(argument, Ref) else None

    def meta(self, argument: Argument) -> TensorMeta:
        """Return shape and element type of a value."""
        assert isinstance(argument, Ref)
        return self.metas[argument.name]

    def shape(self, argument: Argument) -> tuple[Size, ...]:
        """Return the shape of a value."""
        return self.meta(argument).shape

    def uncast(self, argument: Argument) -> Argument:
        """Return the value before casts from one floating type to another, which only round."""
        while (call := self.maker(argument)) is not None and self.is_cast(call):
            argument = call.arguments[0]
        return argument

    def is_cast(self, call: Call) -> bool:
        """Whether a call only rounds: a cast from a floating type to a floating type."""
        if base(call.target) not in ("to", "_to_copy", "type_as") or len(call.results) != 1:
            return False
        source = call.arguments[0]
        return isinstance(source, Ref) and {self.metas[source.name].dtype, call.results[0].dtype} <= FLOATS

    def plain(self, argument: Argument) -> Argument:
        """Return the value before casts and before views that only put in, take out or repeat dims of size 1."""
        while True:
            argument = self.uncast(argument)
            call = self.maker(argument)
            if call is None or base(call.target) not in _VIEWS or not self._same_but_ones(call):
                return argument
            argument = call.arguments[0]

    def _same_but_ones(self, call: Call) -> bool:
        before, after = self.shape(call.arguments[0]), call.results[0].shape
        kept = tuple(size for size in before if size != 1)
        if base(call.target) == "expand":
            padded = (1,) * (len(after) - len(before)) + before
            return all(old in (1, new) for old, new in zip(padded, after, strict=True))
        return kept == tuple(size for size in after if size != 1)

    def inner(self, call: Call, index: int = 0) -> bool:
        """Whether exactly one call reads a result."""
        return len(self.readers.get(call.result(index), ())) == 1

    def only_reader(self, name: str) -> Call | None:
        """Return the one call that reads a value; None if there are several, or the outside does."""
        found = self.readers.get(name, ())
        return self.made.get(found[0]) if len(found) == 1 and found[0] else None


def given(program: Program) -> dict[str, TensorMeta]:
    """Return the metas of what a program does not compute."""
    return (
        {v.name: v.meta for v in program.inputs}
        | {v.name: v.meta for v in program.weights}
        | {v.name: v.meta for v in program.buffers}
    )


def dims(argument: Argument, rank: int) -> tuple[int, ...]:
    """Return dims counted from the front; of a number, the one; empty where it is no dim."""
    listed = argument if isinstance(argument, tuple) else (argument,)
    return tuple(d % rank for d in listed if isinstance(d, int) and not isinstance(d, bool) and -rank <= d < rank)


def index_of(argument: Argument) -> int:
    """Return which result of its call a value is."""
    assert isinstance(argument, Ref)
    _, _, index = argument.name.partition(":")
    return int(index or 0)
