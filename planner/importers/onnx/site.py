"""The translation of a file to a `Program`: what its values became, and the place of one operator in it.

A value of the file is a tensor of the program, or *known*: a number or a short list of numbers that the file holds or
computes of shapes, such as the target of a reshape. Known values become sizes and arguments of calls; only where an
operator needs one as a tensor it becomes a constant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from types import MappingProxyType
from typing import NoReturn

from ...core.symbol import Polynomial, Size
from ...core.tensor import DTYPE_BYTES, TensorMeta
from ..aten.dtypes import FLOATING, WIDENED
from ..aten.program import Argument, Buffer, Call, Member, Ref, Weight, Word
from .model import OnnxNode, OnnxTensor, Plain, unsupported

Number = Size | float | bool
NOTHING: Mapping[str, Argument] = MappingProxyType({})
MAX_KNOWN = 64
"""Elements of the longest known value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A known value: one number (`rank` 0) or a list of them."""

    values: tuple[Number, ...]
    rank: int
    dtype: str

    @property
    def number(self) -> Number | None:
        """The number, if it is one; a list of one counts."""
        return self.values[0] if len(self.values) == 1 else None


@dataclass(slots=True, kw_only=True)
class Translation:
    """A program under construction.

    Parameters
    ----------
    compute
        Element type that stands for the plan's.
    tensors
        Weights and constants of the file by name.
    """

    file: str
    compute: str
    tensors: dict[str, OnnxTensor]
    refs: dict[str, Ref] = field(default_factory=dict)
    known: dict[str, Known] = field(default_factory=dict)
    metas: dict[str, TensorMeta] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    weights: list[Weight] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    numbers: dict[str, int] = field(default_factory=dict)

    def rename(self, ref: Ref, text: str, first: int) -> Ref:
        """Call the call that made a value after an output of the file, if it is one of those from `first` on."""
        index = self.places.get(ref.name, -1)
        if index < first:
            return ref
        call = self.calls[index]
        name = self.fresh(text)
        made = replace(call, name=name)
        self.calls[index] = made
        self.places[name] = self.places.pop(ref.name)
        for place in range(len(call.results)):
            self.metas[made.result(place)] = self.metas.pop(call.result(place))
        return Ref(name)

    def dtype(self, name: str) -> str:
        """Return the element type of a plan for one of the file."""
        return "compute" if name == self.compute else WIDENED.get(name, name)

    def fresh(self, text: str) -> str:
        """Return a name of a value that is not taken."""
        name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")[:200] or "value"
        found, number = name, self.numbers.get(name, 2)
        while found in self.metas:
            found, number = f"{name}_{number}", number + 1
        self.numbers[name] = number
        return found


class Site:
    """One operator of the file, and what its row may ask and add."""

    def __init__(self, translation: Translation, node: OnnxNode, readers: Mapping[str, int]) -> None:
        self.all, self.node, self.readers = translation, node, readers

    def refuse(self, what: str, hint: str = "Export the model without it.") -> NoReturn:
        """Raise the error for an operator that can't be planned."""
        where = self.node.stack[-1][0] if self.node.stack else self.node.name or "the model"
        raise unsupported(self.all.file, f"has {self.node.op} in {where[:80]}, {what}", hint)

    def given(self, place: int) -> bool:
        """Say whether an input is given."""
        return place < len(self.node.inputs) and bool(self.node.inputs[place])

    def name(self, place: int) -> str:
        """Return the name of an input that is needed."""
        if not self.given(place):
            self.refuse(f"which lacks its input {place}")
        return self.node.inputs[place]

    def known(self, place: int) -> Known | None:
        """Return what is known of an input."""
        return self.all.known.get(self.name(place))

    def sizes(self, place: int) -> tuple[Size, ...]:
        """Return an input that has to be a list of sizes or indices."""
        known = self.known(place)
        if known is None:
            self.refuse(f"whose input {place} is computed of data", "Export the model with fixed sizes there.")
        return tuple(self._size(value) for value in known.values)

    def integers(self, place: int) -> tuple[int, ...]:
        """Return an input that has to be a list of integers."""
        sizes = self.sizes(place)
        if any(isinstance(size, Polynomial) for size in sizes):
            self.refuse(f"whose input {place} depends on batch or sequence", "Export the model with fixed sizes there.")
        return tuple(size for size in sizes if isinstance(size, int))

    def _size(self, value: Number) -> Size:
        if isinstance(value, float) and not value.is_integer():
            self.refuse(f"with the size {value}")
        return int(value) if isinstance(value, float | bool) else value

    def scalar(self, place: int) -> float | int | bool | None:
        """Return an input that is a known number, however it is written; None for others."""
        known = self.known(place)
        value = None if known is None else known.number
        return None if isinstance(value, Polynomial) else value

    def attribute(self, name: str, default: Plain) -> Plain:
        """Return an attribute."""
        value = self.node.attributes.get(name, default)
        return default if isinstance(value, OnnxTensor) else value

    def integer(self, name: str, default: int = 0) -> int:
        """Return an attribute that is an integer."""
        value = self.attribute(name, default)
        if not isinstance(value, int):
            self.refuse(f"whose attribute {name} is no integer")
        return value

    def real(self, name: str, default: float) -> float:
        """Return an attribute that is a number."""
        value = self.attribute(name, default)
        if not isinstance(value, int | float):
            self.refuse(f"whose attribute {name} is no number")
        return float(value)

    def text(self, name: str, default: str) -> str:
        """Return an attribute that is text."""
        value = self.attribute(name, default)
        if not isinstance(value, str):
            self.refuse(f"whose attribute {name} is no text")
        return value

    def listed(self, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return an attribute that is a list of integers."""
        value = self.attribute(name, default)
        if not isinstance(value, tuple) or not all(isinstance(part, int) for part in value):
            self.refuse(f"whose attribute {name} is no list of integers")
        return tuple(part for part in value if isinstance(part, int))

    def meta(self, value: int | Ref) -> TensorMeta:
        """Return shape and element type of an input, or of a value of the program."""
        if isinstance(value, Ref):
            return self.all.metas[value.name]
        name = self.name(value)
        if name in self.all.tensors and name not in self.all.refs:
            tensor = self.all.tensors[name]
            return TensorMeta(tensor.dims, self.all.dtype(tensor.dtype))
        if name in self.all.refs:
            return self.all.metas[self.all.refs[name].name]
        known = self.all.known[name]
        return TensorMeta((len(known.values),) if known.rank else (), self.all.dtype(known.dtype))

    def shape(self, value: int | Ref) -> tuple[Size, ...]:
        """Return the shape of an input, or of a value of the program."""
        return self.meta(value).shape

    def dim(self, value: int, rank: int) -> int:
        """Return a dim counted from the front."""
        if not -rank <= value < rank:
            self.refuse(f"with the dim {value} of a tensor of {rank} dims")
        return value % rank

    def is_weight(self, place: int) -> bool:
        """Say whether an input is a weight of the file that was not used yet, or used as one."""
        tensor = self.all.tensors.get(self.name(place))
        return tensor is not None and _trainable(tensor)

    def ref(self, place: int, role: str = "weight") -> Ref:
        """Return an input as a tensor of the program; a weight is called after the module, with a role."""
        name = self.name(place)
        if name in self.all.refs:
            return self.all.refs[name]
        tensor = self.all.tensors.get(name)
        if tensor is not None and _trainable(tensor):
            ref = self.weight(tensor, tensor.dims, role)
        elif tensor is not None:
            ref = self._constant(name, tensor.dims, tensor.dtype, tensor.values)
        else:
            known = self.all.known[name]
            if any(isinstance(value, Polynomial) for value in known.values):
                self.refuse("which computes with the batch or the sequence", "Export the model with fixed sizes.")
            plain = tuple(value for value in known.values if not isinstance(value, Polynomial))
            ref = self._constant(name, (len(plain),) if known.rank else (), known.dtype, plain)
        self.all.refs[name] = ref
        return ref

    def turned(self, place: int) -> Ref | None:
        """Return a matrix of the file that is kept with its dims swapped; None if it is used in another way as well."""
        name = self.name(place)
        tensor = self.all.tensors.get(name)
        if tensor is None or not _trainable(tensor) or len(tensor.dims) != 2 or self.readers[name] > 1:
            return None
        self.all.refs[name] = self.weight(tensor, tensor.dims[::-1], "weight")
        return self.all.refs[name]

    def weight(self, tensor: OnnxTensor, dims: tuple[int, ...], role: str) -> Ref:
        """Add a weight, called by its name in the file if that is a path, else after the module."""
        module = self.node.stack[-1][0] if self.node.stack else ""
        path = tensor.name
        if not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)+", path, re.ASCII) or path in self.all.paths:
            start = f"{module}.{role}" if module else role
            path, number = start, self.all.numbers.get(f"{start}.", 2)
            while path in self.all.paths:
                path, number = f"{start}_{number}", number + 1
            self.all.numbers[f"{start}."] = number
        self.all.paths.add(path)
        ref = Ref(self.all.fresh(f"p_{path}"))
        meta = TensorMeta(dims, self.all.dtype(tensor.dtype))
        self.all.metas[ref.name] = meta
        self.all.weights.append(Weight(name=ref.name, path=path, meta=meta))
        return ref

    def _constant(
        self, name: str, dims: tuple[int, ...], dtype: str,
        values: tuple[float, ...] | tuple[int, ...] | tuple[bool, ...] | None,
    ) -> Ref:  # fmt: skip
        ref = Ref(self.all.fresh(f"c_{name}"))
        meta = TensorMeta(dims, self.all.dtype(dtype))
        self.all.metas[ref.name] = meta
        self.all.buffers.append(Buffer(name=ref.name, path=ref.name, meta=meta, values=values))
        return ref

    def call(
        self, target: str, *arguments: Argument, shape: Sequence[Size], dtype: str,
        named: Mapping[str, Argument] = NOTHING,
    ) -> Ref:  # fmt: skip
        """Add a call with one result."""
        return self.calls(target, *arguments, metas=(TensorMeta(tuple(shape), dtype),), named=named)[0]

    def calls(
        self, target: str, *arguments: Argument, metas: Sequence[TensorMeta], named: Mapping[str, Argument] = NOTHING
    ) -> list[Ref]:
        """Add a call and return its results."""
        for meta in metas:
            small = sum(size.terms[-1][1] for size in meta.shape if isinstance(size, Polynomial) and size.terms)
            if any(isinstance(size, int) and size < 0 for size in meta.shape) or small < 0:
                self.refuse(f"which would make a tensor of {meta}")
            if prod(size for size in meta.shape if isinstance(size, int)) > 1 << 62:
                self.refuse("which would make a tensor of more elements than 2^62")
            if meta.dtype not in {*DTYPE_BYTES, "compute"}:
                self.refuse(f"which makes numbers of {meta.dtype}")
        name = self.all.fresh(f"{self.node.outputs[0] if self.node.outputs else self.node.op}_part")
        call = Call(
            name=name, target=target, arguments=arguments, keywords=tuple(sorted(named.items())),
            results=tuple(metas), stack=_stack(self.node.stack),
        )  # fmt: skip
        self.all.places[name] = len(self.all.calls)
        self.all.calls.append(call)
        refs = [Ref(call.result(i)) for i in range(len(metas))]
        for ref, meta in zip(refs, metas, strict=True):
            self.all.metas[ref.name] = meta
        return refs

    def like(
        self, target: str, x: Ref, *arguments: Argument, dtype: str = "", named: Mapping[str, Argument] = NOTHING
    ) -> Ref:
        """Add a call whose result has the shape of its first argument."""
        meta = self.meta(x)
        return self.call(target, x, *arguments, shape=meta.shape, dtype=dtype or meta.dtype, named=named)

    def cast(self, x: Ref, dtype: str) -> Ref:
        """Return a tensor in another element type, given as the plan says it."""
        if self.meta(x).dtype == dtype:
            return x
        return self.like("aten.to.dtype", x, self.word(dtype), dtype=dtype)

    def word(self, dtype: str) -> Word:
        """Return an element type of the plan as torch calls it."""
        return Word(self.all.compute if dtype == "compute" else dtype)

    def scalar_tensor(self, value: Argument, dtype: str) -> Ref:
        """Return a number as a tensor without dims."""
        return self.call("aten.scalar_tensor.default", value, shape=(), dtype=dtype, named={"dtype": self.word(dtype)})

    def broadcast(self, *shapes: Sequence[Size]) -> tuple[Size, ...]:
        """Return the shape that several broadcast to."""
        rank = max(map(len, shapes), default=0)
        made: list[Size] = []
        for place in range(rank):
            sizes = {s[place - rank + len(s)] for s in shapes if place - rank + len(s) >= 0} - {1}
            if len(sizes) > 1:
                self.refuse(f"of tensors whose sizes {', '.join(map(str, sizes))} do not fit")
            made.append(sizes.pop() if sizes else 1)
        return tuple(made)


def floating(dtype: str) -> bool:
    """Say whether an element type is one of floating numbers."""
    return dtype in FLOATING


def _trainable(tensor: OnnxTensor) -> bool:
    """Say whether a tensor is a parameter: floating numbers, more than one."""
    return tensor.dtype in FLOATING and prod(tensor.dims) > 1


def _stack(stack: tuple[Member, ...]) -> tuple[Member, ...]:
    return tuple(member for member in stack if member[0])
