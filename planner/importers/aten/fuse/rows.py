"""Takes what is computed on flattened rows, [B·S, …], back to the dims that the rows were made of.

What works on each row alone does the same on [B, S, …]; so batch and sequence stay dims of their own, that can be
sharded apart. A call that does something else with the rows reads them flattened again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ....core.symbol import Size
from ....core.tensor import TensorMeta
from ..program import Argument, Call, Program, Ref, reads
from .calls import base, given
from .rewrite import rename, without_dead

_VIEWS = frozenset({"view", "reshape", "_unsafe_view", "flatten"})
_POINTWISE = frozenset({
    "add", "sub", "rsub", "mul", "div", "neg", "pow", "exp", "log", "sqrt", "rsqrt", "abs", "tanh", "sigmoid", "silu",
    "gelu", "relu", "softplus", "clamp", "clamp_min", "clamp_max", "to", "_to_copy", "type_as", "masked_fill", "where",
    "eq", "ne", "lt", "le", "gt", "ge", "bitwise_not", "logical_not", "__and__", "bitwise_and", "logical_and",
    "dropout",
    "zeros_like", "ones_like", "full_like", "maximum", "minimum", "square", "reciprocal", "erf", "leaky_relu", "elu",
})  # fmt: skip
_ALONG = {"softmax": 1, "_softmax": 1, "log_softmax": 1, "topk": 2, "sum": 1, "mean": 1, "amax": 1, "argmax": 1,
          "cumsum": 1, "sort": 1, "gather": 1, "scatter": 1, "slice": 1, "narrow": 1, "select": 1, "chunk": 2,
          "split": 2, "split_with_sizes": 2, "cat": 1, "max": 1, "unsqueeze": 1, "squeeze": 1}  # fmt: skip
"""Calls along dims, and the place of the argument that says which."""
_BY_DEFAULT = {"topk": -1, "sort": -1, "slice": 0, "chunk": 0, "split": 0, "split_with_sizes": 0, "cat": 0}
_PAIRWISE = frozenset({"bmm"})
"""Calls that take each row with the same one of another value."""
_LAST = frozenset({"linear", "layer_norm", "rms_norm", "mm", "addmm"})
"""Calls on the last dim whose further operands have no rows."""


@dataclass(slots=True)
class _Rows:
    program: Program
    metas: dict[str, TensorMeta] = field(default_factory=dict)
    lifted: dict[str, tuple[Size, ...]] = field(default_factory=dict)
    seeds: dict[str, str] = field(default_factory=dict)
    made: list[Call] = field(default_factory=list)
    flat: dict[str, str] = field(default_factory=dict)
    rows: dict[Size, tuple[Size, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        program = self.program
        self.metas = given(program)
        self.metas |= {c.result(i): meta for c in program.calls for i, meta in enumerate(c.results)}

    def run(self) -> Program:
        for call in self.program.calls:
            self.add(call)
        outputs = {name: self.flattened(name) for name in (*self.program.outputs, self.program.logits)
                   if name in self.lifted}  # fmt: skip
        whole = replace(
            self.program, calls=tuple(self.made), logits=outputs.get(self.program.logits, self.program.logits),
            outputs=tuple(outputs.get(name, name) for name in self.program.outputs),
        )  # fmt: skip
        return without_dead(rename(whole, self.seeds))

    def add(self, call: Call) -> None:
        """Add a call on rows as one on all dims, if it can be that."""
        if base(call.target) == "full" and call.results[0].shape[:1] and call.results[0].shape[0] in self.rows:
            # One value everywhere; what it is put together with decides which dims it has.
            self.made.append(self.full(call, self.rows[call.results[0].shape[0]]))
            return
        leads = {self.lifted[name] for name in reads(call) if name in self.lifted}
        new = self.lift(call, next(iter(leads))) if len(leads) == 1 else None
        if new is None:
            new = [self.as_it_was(call)]
            self.seed(call)
        self.made += new

    def seed(self, call: Call) -> None:
        """Note a view that makes rows of several dims."""
        if base(call.target) not in _VIEWS or not isinstance(call.arguments[0], Ref):
            return
        before, after = self.metas[call.arguments[0].name].shape, call.results[0].shape
        count = len(before) - len(after) + 1
        if count < 2 or len(after) < 2 or before[count:] != after[1:]:
            return
        self.lifted[call.name] = before[:count]
        self.seeds[call.name] = call.arguments[0].name
        self.rows.setdefault(after[0], before[:count])

    def full(self, call: Call, lead: tuple[Size, ...]) -> Call:
        """Return a tensor of one value with the dims of the rows."""
        (meta,) = call.results
        self.lifted[call.name] = lead
        made = TensorMeta((*lead, *meta.shape[1:]), meta.dtype)
        return replace(call, arguments=(made.shape, *call.arguments[1:]), results=(made,))

    def as_it_was(self, call: Call) -> Call:
        """Return a call that reads rows flattened."""

        def change(argument: Argument) -> Argument:
            if isinstance(argument, Ref) and argument.name in self.lifted:
                return Ref(self.flattened(argument.name))
            return tuple(map(change, argument)) if isinstance(argument, tuple) else argument

        if not any(name in self.lifted for name in reads(call)):
            return call
        return replace(
            call, arguments=tuple(map(change, call.arguments)), keywords=tuple((k, change(v)) for k, v in call.keywords)
        )

    def flattened(self, name: str) -> str:
        """Return the rows as they were; a view of the value that has the dims."""
        if name not in self.flat:
            source, _, index = name.partition(":")
            self.flat[name] = f"{source}_rows{index}"
            maker = next((c for c in reversed(self.made) if c.name == source), None)
            assert maker is not None
            self.made.append(Call(
                name=self.flat[name], target="aten.view.default", arguments=(Ref(name), self.metas[name].shape),
                results=(self.metas[name],), stack=maker.stack, source=maker.source,
            ))  # fmt: skip
        return self.flat[name]

    def lift(self, call: Call, lead: tuple[Size, ...]) -> list[Call] | None:
        """Return the call on all dims; None if it does not work on each row alone."""
        kind = base(call.target)
        rows = next(self.metas[name].shape[0] for name in reads(call) if self.lifted.get(name) == lead)
        if kind in _VIEWS:
            return self.view(call, lead, rows)
        if any(not meta.shape or meta.shape[0] != rows for meta in call.results):
            return None
        writer = self.writer(kind)
        made = writer(call, lead) if writer else None
        if made is None:
            return None
        for index in range(len(call.results)):
            self.lifted[call.result(index)] = lead
        last = replace(made[-1], results=tuple(TensorMeta((*lead, *m.shape[1:]), m.dtype) for m in call.results))
        return [*made[:-1], last]

    def writer(self, kind: str) -> Callable[[Call, tuple[Size, ...]], list[Call] | None] | None:
        if kind in _POINTWISE:
            return self.pointwise
        if kind in _ALONG:
            return self.along
        if kind in ("transpose", "swapaxes"):
            return self.transpose
        if kind in _PAIRWISE:
            return self.pairwise
        if kind == "expand":
            return lambda call, lead: [
                replace(call, arguments=(call.arguments[0], (*lead, *call.results[0].shape[1:])))
            ]
        return self.last if kind in _LAST or kind.startswith("fused.rms_norm") else None

    def view(self, call: Call, lead: tuple[Size, ...], rows: Size) -> list[Call] | None:
        source, shape = call.arguments[0], call.results[0].shape
        if shape[: len(lead)] == lead:
            # Back to what the rows were made of.
            return [replace(call, target="aten.view.default", arguments=(source, shape), keywords=())]
        if not shape or shape[0] != rows:
            return None
        wide = (*lead, *shape[1:])
        self.lifted[call.name] = lead
        meta = TensorMeta(wide, call.results[0].dtype)
        return [replace(call, target="aten.view.default", arguments=(source, wide), keywords=(), results=(meta,))]

    def pointwise(self, call: Call, _: tuple[Size, ...]) -> list[Call] | None:
        rank = len(call.results[0].shape)
        for name in reads(call):
            if name not in self.lifted and len(self.metas[name].shape) >= rank:
                return None
            if name in self.lifted and len(self.metas[name].shape) != rank:
                return None
        return [call]

    def along(self, call: Call, lead: tuple[Size, ...]) -> list[Call] | None:
        kind = base(call.target)
        place = _ALONG[kind]
        if any(name not in self.lifted for name in reads(call)):
            return None
        first = reads(call)[0]
        rank = len(self.metas[first].shape) + (kind == "unsqueeze")
        arguments = list(call.arguments)
        given = arguments[place] if len(arguments) > place else dict(call.keywords).get("dim", _BY_DEFAULT.get(kind))
        listed = given if isinstance(given, tuple) else (given,)
        moved = []
        for dim in listed:
            if not isinstance(dim, int) or isinstance(dim, bool) or dim % rank == 0:
                return None
            moved.append(dim if dim < 0 else dim + len(lead) - 1)
        new: Argument = tuple(moved) if isinstance(given, tuple) else moved[0]
        if len(arguments) > place:
            arguments[place] = new
            return [replace(call, arguments=tuple(arguments))]
        if "dim" in dict(call.keywords):
            return [replace(call, keywords=tuple((k, new if k == "dim" else v) for k, v in call.keywords))]
        return [call]

    def transpose(self, call: Call, lead: tuple[Size, ...]) -> list[Call] | None:
        x, *given = call.arguments
        rank = len(call.results[0].shape)
        if not all(isinstance(d, int) and d % rank for d in given):
            return None
        return [replace(call, arguments=(x, *(d % rank + len(lead) - 1 for d in given if isinstance(d, int))))]

    def pairwise(self, call: Call, _: tuple[Size, ...]) -> list[Call] | None:
        if not all(isinstance(a, Ref) and a.name in self.lifted for a in call.arguments):
            return None
        return [replace(call, target="aten.matmul.default")]

    def last(self, call: Call, lead: tuple[Size, ...]) -> list[Call] | None:
        place = 1 if base(call.target) == "addmm" else 0
        x = call.arguments[place]
        others = [name for name in reads(call) if not isinstance(x, Ref) or name != x.name]
        if not isinstance(x, Ref) or x.name not in self.lifted or any(name in self.lifted for name in others):
            return None
        if base(call.target) == "mm":
            return [replace(call, target="aten.matmul.default")]
        if base(call.target) != "addmm":
            return [call]
        bias, _, weight = call.arguments
        if call.keywords or len(self.metas[bias.name].shape if isinstance(bias, Ref) else ()) != 1:
            return None
        (meta,) = call.results
        product = replace(call, name=f"{call.name}_product", target="aten.matmul.default", arguments=(x, weight),
                          results=(TensorMeta((*lead, *meta.shape[1:]), meta.dtype),))  # fmt: skip
        return [product, replace(call, target="aten.add.Tensor", arguments=(Ref(product.name), bias))]


def unflattened(program: Program) -> Program:
    """Return the program with rows as the dims that they were made of."""
    return _Rows(program).run()
