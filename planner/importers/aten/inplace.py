"""Turns calls that write in place into calls that make new tensors.

Every tensor is in a tree of views: its root holds the memory, each other one is made of its parent by a view. A write
to a tensor makes it anew; its parent is made anew by putting the new elements where the view took them from, and so on
up to the root. Other views of the tree are out of date then, and are taken again when they are next read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ...core.tensor import TensorMeta
from .program import Argument, Call, Program, Ref, given

RESHAPES = frozenset({
    "aten.view.default", "aten.reshape.default", "aten._unsafe_view.default", "aten.flatten.using_ints",
    "aten.unflatten.int", "aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze.default", "aten.unsqueeze.default",
    "aten.view_as.default", "aten.alias.default", "aten.detach.default", "aten.contiguous.default",
})  # fmt: skip
"""Views that keep the order of elements."""
PICKS = {"aten.select.int": "aten.select_scatter.default", "aten.slice.Tensor": "aten.slice_scatter.default"}
"""Views that take a part, and the call that puts one back."""
TURNS = ("aten.transpose.int", "aten.permute.default", "aten.t.default", "aten.swapaxes.default")
OTHERS = ("aten.expand.default", "aten.diagonal.default", "aten.split.Tensor", "aten.split_with_sizes.default",
          "aten.chunk.default", "aten.unbind.int", "aten.narrow.default")  # fmt: skip
"""Views that are followed, and can't be written through."""


@dataclass(slots=True)
class Writer:
    """Collects calls, and knows which value stands for each tensor by now."""

    program: Program
    calls: list[Call] = field(default_factory=list)
    _current: dict[str, str] = field(default_factory=dict)
    _views: dict[str, tuple[str, Call]] = field(default_factory=dict)
    _taken: dict[str, dict[str, str]] = field(default_factory=dict)
    _metas: dict[str, TensorMeta] = field(default_factory=dict)
    _number: int = 0

    def __post_init__(self) -> None:
        self._metas = given(self.program)

    def add(self, call: Call) -> None:
        """Add a call; one that writes in place is made one that does not."""
        self._metas |= {call.result(k): meta for k, meta in enumerate(call.results)}
        own = self._reading(call)
        if _writes(call) and isinstance(call.arguments[0], Ref):
            target = call.arguments[0].name
            self._write(target, self._made(own))
            # The call itself gives the tensor that it has written to.
            self._views[call.name] = (target, replace(call, target="aten.alias.default", arguments=(Ref(target),)))
            self._taken[call.name] = {}
            return
        self.calls.append(own)
        first = call.arguments[0] if call.arguments else None
        if isinstance(first, Ref) and call.target in {*RESHAPES, *PICKS, *TURNS, *OTHERS}:
            for k in range(len(call.results)):
                self._views[call.result(k)] = (first.name, call)
                self._taken[call.result(k)] = {self.current(first.name): call.result(k)}

    def current(self, name: str) -> str:
        """Return the value that stands for a tensor by now; a view that is out of date is taken again."""
        if name not in self._views:
            return self._current.get(name, name)
        parent, call = self._views[name]
        now = self.current(parent)
        if now not in self._taken[name]:
            again = replace(call, name=self._fresh(call.name), arguments=(Ref(now), *call.arguments[1:]))
            self.calls.append(again)
            for k in range(len(call.results)):
                self._taken[call.result(k)][now] = again.result(k)
        return self._taken[name][now]

    def _reading(self, call: Call) -> Call:
        def change(argument: Argument) -> Argument:
            if isinstance(argument, Ref):
                return Ref(self.current(argument.name))
            return tuple(map(change, argument)) if isinstance(argument, tuple) else argument

        return replace(
            call, arguments=tuple(map(change, call.arguments)),
            keywords=tuple((k, change(v)) for k, v in call.keywords if k != "out"),
        )  # fmt: skip

    def _write(self, name: str, made: str) -> None:
        """Let a value stand for a tensor, and for its part of what it is a view of."""
        if name not in self._views:
            self._current[name] = made
            return
        parent, view = self._views[name]
        above = self._put(view, self.current(parent), made)
        self._taken[name] = {above: made}
        self._write(parent, above)

    def _put(self, view: Call, parent: str, made: str) -> str:
        """Return the parent with new elements where a view takes them from."""
        meta = self._metas[view.arguments[0].name]  # type: ignore[union-attr]
        if view.target in RESHAPES:
            return self._call(view, "aten.view.default", (Ref(made), meta.shape), meta)
        if view.target in PICKS:
            return self._call(view, PICKS[view.target], (Ref(parent), Ref(made), *view.arguments[1:]), meta)
        if view.target in TURNS[:1] + TURNS[2:]:
            return self._call(view, view.target, (Ref(made), *view.arguments[1:]), meta)
        if view.target == TURNS[1]:
            order = view.arguments[1]
            assert isinstance(order, tuple)
            places = [d % len(order) for d in order if isinstance(d, int)]
            back = tuple(places.index(d) for d in range(len(places)))
            return self._call(view, view.target, (Ref(made), back), meta)
        return self._call(view, "inplace.write", (Ref(parent), Ref(made)), meta)

    def _made(self, call: Call) -> str:
        """Add the call that makes what another writes, and return its name."""
        base, _, overload = call.target.removeprefix("aten.").partition(".")
        new = _OPERATOR.sub(r"__\1__", base) if base.endswith("__") else base[:-1]
        first = call.arguments[0]
        assert isinstance(first, Ref)
        meta = call.results[0] if call.results else self._metas[first.name]
        target, arguments = _NEW.get(base, _functional)(call, f"aten.{new}.{overload}", meta)
        return self._call(call, target, arguments, meta)

    def _call(self, like: Call, target: str, arguments: tuple[Argument, ...], meta: TensorMeta) -> str:
        name = self._fresh(like.name)
        keywords = like.keywords if like.target.split(".")[1].rstrip("_") == target.split(".")[1] else ()
        self._metas[name] = meta
        self.calls.append(replace(like, name=name, target=target, arguments=arguments, keywords=keywords,
                                  results=(meta,)))  # fmt: skip
        return name

    def _fresh(self, name: str) -> str:
        self._number += 1
        return f"{name}'{self._number}"


def _writes(call: Call) -> bool:
    name = call.target.removeprefix("aten.").partition(".")[0]
    if not call.target.startswith("aten.") or not name.endswith("_"):
        return False
    return not name.endswith("__") or _OPERATOR.fullmatch(name) is not None


_OPERATOR = re.compile(r"__i(and|or|xor|lshift|rshift)__")
"""Names of Python's operators that write in place, such as `x |= y`."""
Made = tuple[str, tuple[Argument, ...]]


def _functional(call: Call, target: str, _: TensorMeta) -> Made:
    return target, call.arguments


def _filled(value: Argument | None) -> Callable[[Call, str, TensorMeta], Made]:
    def make(call: Call, _: str, meta: TensorMeta) -> Made:
        given = call.arguments[1] if value is None else value
        if isinstance(given, Ref):
            return "aten.expand.default", (given, meta.shape)
        return "aten.full.default", (meta.shape, given)

    return make


def _copied(call: Call, _: str, meta: TensorMeta) -> Made:
    """Return the call that broadcasts and casts what is copied; lowering makes it as large as the result says."""
    return "aten.copy.default", call.arguments


_NEW: dict[str, Callable[[Call, str, TensorMeta], Made]] = {
    "fill_": _filled(None), "zero_": _filled(0), "copy_": _copied,
}  # fmt: skip
"""Calls whose new form is not the one with the same name."""
