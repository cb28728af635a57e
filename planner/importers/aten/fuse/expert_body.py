"""Moves what experts compute of sorted tokens to slots, as `experts` says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ....core.symbol import Size
from ....core.tensor import TensorMeta
from ..program import Argument, Call, Ref
from .calls import Calls, base, dims, index_of
from .expert_region import Region, enters
from .parts import PIECES, cut

_POINTWISE = frozenset({
    "add", "sub", "mul", "div", "neg", "pow", "exp", "tanh", "sigmoid", "silu", "gelu", "relu", "clamp", "clamp_max",
    "clamp_min", "to", "_to_copy", "square", "fused.swiglu", "fused.geglu",
})  # fmt: skip


@dataclass(slots=True)
class Body:
    """Moves the calls between the sorted tokens and `y` to slots."""

    calls: Calls
    region: Region
    slots: Ref
    lead: tuple[Size, ...]
    made: list[Call] = field(default_factory=list)
    names: dict[str, Ref] = field(default_factory=dict)
    metas: dict[str, TensorMeta] = field(default_factory=dict)
    inner: list[str] = field(default_factory=list)
    shapes: dict[str, tuple[Size, ...]] = field(default_factory=dict)

    def move(self, argument: Argument) -> Ref | None:
        """Return a row of each sorted token as a row of each slot; None if that can't be."""
        if not isinstance(argument, Ref):
            return None
        if argument.name in self.names:
            return self.names[argument.name]
        made = self.calls.maker(argument)
        if made is None:
            return None
        self.inner.append(made.name)
        kind = base(made.target)
        if kind == "index":
            moved = self._entered(made)
        elif kind == "_grouped_mm" or kind == "grouped_mm_fallback":
            moved = self._product(made)
        elif kind in PIECES or kind == "slice":
            moved = self._part(made, argument)
        elif kind in _POINTWISE:
            moved = self._pointwise(made)
        else:
            moved = None
        if moved is not None:
            self.names[argument.name] = moved
        return moved

    def _add(self, like: Call, target: str, arguments: tuple[Argument, ...], shape: tuple[Size, ...],
             keywords: tuple[tuple[str, Argument], ...] = (), name: str = "") -> Ref:  # fmt: skip
        # What was computed in fp32 for its sum only is in the tokens' type here.
        meta = TensorMeta(shape, self.calls.meta(self.region.x).dtype)
        made = replace(like, name=name or f"{like.name}_slots", target=target, arguments=arguments, keywords=keywords,
                       results=(meta,))  # fmt: skip
        self.made.append(made)
        self.metas[made.name] = meta
        return Ref(made.name)

    def shape(self, ref: Ref) -> tuple[Size, ...]:
        """Return the shape of a value that was moved."""
        return self.metas[ref.name].shape

    def _entered(self, made: Call) -> Ref | None:
        """Take the rows of tokens from their slots."""
        if not enters(self.calls, made, self.region):
            return None
        width = made.results[0].shape[-1]
        return self._add(made, "fused.dispatch", (self.slots, self.region.x), (*self.lead, width))

    def _weight(self, argument: Argument) -> tuple[Ref, bool] | None:
        """Return the experts' weight [experts, n, k], and whether the code has it as [experts, k, n]."""
        made = self.calls.maker(self.calls.uncast(argument))
        bare = self.calls.uncast(argument)
        if made is not None and base(made.target) in ("transpose", "mT"):
            if base(made.target) == "transpose" and {*dims(made.arguments[1:3], 3)} != {1, 2}:
                return None
            source = made.arguments[0]
            return (source, False) if isinstance(source, Ref) else None
        return (bare, True) if isinstance(bare, Ref) and len(self.calls.shape(bare)) == 3 else None

    def _product(self, made: Call) -> Ref | None:
        x = self.move(self.calls.uncast(made.arguments[0]))
        weight = self._weight(made.arguments[1])
        if x is None or weight is None or self.calls.shape(weight[0])[0] != self.region.experts:
            return None
        offsets = self.calls.maker(self.calls.uncast(made.arguments[2]))
        if offsets is None or not self._counts(offsets) or len([a for a in made.arguments[3:] if a is not None]):
            return None
        ref, turned = weight
        width = made.results[0].shape[-1]
        if turned:
            return self._add(made, "aten.einsum.default", ("ebsk,ekn->ebsn", (x, ref)), (*self.shape(x)[:-1], width))
        return self._add(made, "fused.expert_linear", (x, ref), (*self.shape(x)[:-1], width))

    def _counts(self, made: Call) -> bool:
        """Whether offsets are the running counts of the sorted experts."""
        if base(made.target) != "cumsum":
            return False
        self.inner.append(made.name)
        counts = self.calls.maker(made.arguments[0])
        while counts is not None and base(counts.target) in ("to", "_to_copy"):
            self.inner.append(counts.name)
            counts = self.calls.maker(counts.arguments[0])
        if counts is None or base(counts.target) not in ("histc", "bincount"):
            return False
        self.inner.append(counts.name)
        source = self._sorted(counts.arguments[0])
        return source and (base(counts.target) == "bincount" or counts.arguments[1] == self.region.experts)

    def _sorted(self, argument: Argument) -> bool:
        """Whether a value is the sorted indices of experts."""
        made = self.calls.maker(argument)
        while made is not None and base(made.target) in ("to", "_to_copy", "clamp"):
            self.inner.append(made.name)
            argument = made.arguments[0]
            made = self.calls.maker(argument)
        return argument == Ref(self.region.order)

    def _bias(self, argument: Argument) -> Ref | None:
        """Return the bias of every expert, for its slots."""
        made = self.calls.maker(self.calls.uncast(argument))
        if made is None or base(made.target) != "index":
            return None
        source, places = made.arguments
        if not isinstance(source, Ref) or not isinstance(places, tuple) or len(places) != 1:
            return None
        shape = self.calls.shape(source)
        if len(shape) != 2 or shape[0] != self.region.experts or not self._sorted(places[0]):
            return None
        self.inner.append(made.name)
        return self._add(made, "aten.view.default", (source, (shape[0], 1, 1, shape[1])), (shape[0], 1, 1, shape[1]))

    def _pointwise(self, made: Call) -> Ref | None:
        arguments: list[Argument] = []
        shape: tuple[Size, ...] = ()
        for argument in made.arguments:
            if not isinstance(argument, Ref):
                arguments.append(argument)
                continue
            bare = self.calls.uncast(argument)
            moved = self._bias(bare) or self.move(bare)
            if moved is None:
                return None
            if len(self.shape(moved)) == 4 and self.shape(moved)[1] != 1:
                shape = self.shape(moved)
            arguments.append(moved)
        if not shape or any(isinstance(v, Ref) for _, v in made.keywords):
            return None
        if base(made.target) in ("to", "_to_copy"):
            first = arguments[0]
            return first if isinstance(first, Ref) else None
        return self._add(made, made.target, tuple(arguments), shape, made.keywords)

    def _part(self, made: Call, argument: Ref) -> Ref | None:
        """Take a part of the last dim; equal parts of a product by a weight of its own get a dim there."""
        found = cut(self.calls, argument)
        if found is None or found[1] != 1:
            return None
        whole, _, start, end, step = found
        source = self.move(self.calls.uncast(whole))
        if source is None:
            return None
        if base(made.target) in PIECES and self._parted(made, source):
            source = self.names[self.calls.uncast(whole).name]  # type: ignore[union-attr]
            index = index_of(argument)
            shape = (*self.shape(source)[:3], self.shape(source)[-1])
            return self._add(made, "aten.select.int", (source, 3, index), shape, name=f"{made.name}_pick{index}")
        (width,) = made.results[0].shape[-1:]
        name = f"{made.name}_slots{argument.name.partition(':')[2]}"
        return self._add(made, "aten.slice.Tensor", (source, 3, start, end, step), (*self.shape(source)[:-1], width),
                         name=name)  # fmt: skip

    def _parted(self, made: Call, source: Ref) -> bool:
        """Give the weight of a product that is cut into equal parts a dim for them."""
        if len(self.shape(source)) == 5:
            return True
        product = self.made[-1] if self.made and self.made[-1].name == source.name else None
        if product is None or product.target != "fused.expert_linear" or len({m.shape for m in made.results}) > 1:
            return False
        x, weight = product.arguments
        assert isinstance(weight, Ref)
        if weight.name not in self.calls.weights or len(self.calls.readers[weight.name]) != 1:
            return False
        experts, _, width = self.calls.shape(weight)
        count, size = len(made.results), made.results[0].shape[-1]
        self.shapes[weight.name] = (experts, count, size, width)
        meta = TensorMeta((*self.shape(source)[:-1], count, size), self.metas[source.name].dtype)
        self.made[-1] = replace(product, target="aten.einsum.default", arguments=("ebsk,epnk->ebspn", (x, weight)),
                                results=(meta,))  # fmt: skip
        self.metas[source.name] = meta
        return True
