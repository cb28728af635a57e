"""Deep decoders of equal layers: some layers are traced, the others follow from them.

```text
layers 0 1 2 3 … n-1   traced as   0 1 2 n-1, whose calls 1 and 2 must be equal   →   2 is copied for 3 … n-2
```

Only for types that `EVEN` lists, whose layers do the same whatever their index (a test compares with full traces), and
only where modules, shapes and constants say the same; else everything is traced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from ..aten.program import Argument, Buffer, Call, Program, Ref, Weight

EVEN = frozenset({"gemma", "gpt_neox", "llama", "mistral", "opt", "phi3"})
KEPT = 4
LEAST = 2 * KEPT
_INDEX = re.compile(r"layer_(?:idx|id|index|number)")


def shortened(model: Any) -> tuple[str, int] | None:
    """Take the middle layers off a model, in place; return the path of their list and how many it had.

    None where it has no list of many equal layers, or is of a type that is not listed.
    """
    if model.config.model_type not in EVEN:
        return None
    lists = [
        (path, part) for path, part in model.named_modules()
        if isinstance(part, torch.nn.ModuleList) and len(part) >= LEAST
    ]  # fmt: skip
    if len(lists) != 1:
        return None
    path, layers = lists[0]
    kinds = getattr(model.config, "layer_types", None) or ()
    if len({_signature(layer) for layer in layers}) > 1 or len(set(kinds)) > 1:
        return None
    parent, _, name = path.rpartition(".")
    kept = torch.nn.ModuleList([*layers[: KEPT - 1], layers[-1]])
    setattr(model.get_submodule(parent), name, kept)
    return path, len(layers)


def restored(program: Program, path: str, count: int) -> Program | None:
    """Return the program with all layers again; None if the layers that were traced are not all alike."""
    prefix = re.compile(rf"{re.escape(path)}\.(\d+)(?=\.|$)")
    rows: list[list[Call]] = [[] for _ in range(KEPT)]
    before: list[Call] = []
    after: list[Call] = []
    for call in program.calls:
        found = next((m for member, _ in call.stack if (m := prefix.match(member))), None)
        if found is None:
            (after if rows[-1] else before).append(call)
            if any(rows) and not rows[-1]:
                return None
        else:
            rows[int(found[1])].append(call)
    held: list[Weight | Buffer] = [*program.weights, *program.buffers]
    layer_of = {one.name: int(m[1]) for one in held if (m := prefix.match(one.path))}
    work = _Copies(program, prefix, rows, layer_of)
    if not (work.same(1, 2) and work.same(2, 3)):
        return None
    last = work.moved(3, count - 1, count - 2)
    middle = [call for index in range(KEPT - 1, count - 1) for call in work.moved(2, index, index - 1)]
    ends = work.names(3, count - 1, count - 2)
    tail = [replace(call, **_renamed(call, ends)) for call in after]
    calls = (*before, *(c for row in rows[: KEPT - 1] for c in row), *middle, *last, *tail)
    return replace(
        program, calls=calls, weights=tuple(work.held(program.weights, count)),
        buffers=tuple(work.held(program.buffers, count)), modules=tuple(work.modules(path, count)),
    )  # fmt: skip


class _Copies:
    """The layers of a short program, by number, and their copies."""

    def __init__(
        self, program: Program, prefix: re.Pattern[str], rows: list[list[Call]], layer_of: Mapping[str, int]
    ) -> None:
        self.program, self.prefix, self.rows, self.layer_of = program, prefix, rows, layer_of
        self.made = [{call.result(i) for call in row for i in range(max(1, len(call.results)))} for row in rows]

    def names(self, source: int, target: int, previous: int) -> dict[str, str]:
        """Return what the names of a layer, and those of the layer before it, become in a copy."""
        of_layer = {name: self._as(name, target) for name in self.made[source]}
        of_layer |= {name: self._as(name, target) for name, layer in self.layer_of.items() if layer == source}
        where = {call.name: place for place, call in enumerate(self.rows[source - 1])}
        for name in self.made[source - 1]:
            base, colon, result = name.partition(":")
            own = self.rows[2][where[base]].name if previous >= KEPT - 1 else self.rows[previous][where[base]].name
            of_layer[name] = (self._as(own, previous) if previous >= KEPT - 1 else own) + colon + result
        return of_layer

    def moved(self, source: int, target: int, previous: int) -> list[Call]:
        """Return the calls of a layer as those of another one."""
        names = self.names(source, target, previous)
        return [
            replace(
                call, **_renamed(call, names),
                stack=tuple((self._path(path, target), kind) for path, kind in call.stack),
            )
            for call in self.rows[source]
        ]  # fmt: skip

    def same(self, first: int, second: int) -> bool:
        """Return whether two neighbouring layers do the same, each with what the one before it gives."""
        if len(self.rows[first]) != len(self.rows[second]):
            return False
        names = {a.result(i): b.result(i) for k in (0, 1) for a, b in
                 zip(self.rows[first - k], self.rows[second - k], strict=False)
                 for i in range(max(1, len(a.results)))}  # fmt: skip
        held: list[Weight | Buffer] = [*self.program.weights, *self.program.buffers]
        at = {
            (layer, self._path(one.path, 0)): one.name
            for one in held if (layer := self.layer_of.get(one.name)) is not None
        }  # fmt: skip
        for (layer, path), name in at.items():
            if layer == first:
                if (second, path) not in at:
                    return False
                names[name] = at[second, path]
        for a, b in zip(self.rows[first], self.rows[second], strict=True):
            moved = replace(a, **_renamed(a, names), stack=tuple((self._path(p, second), k) for p, k in a.stack))
            if moved != b:
                return False
        return True

    def held(self, entries: tuple[Any, ...], count: int) -> list[Any]:
        """Return weights or buffers with those of all layers."""
        layers: list[list[Any]] = [[] for _ in range(KEPT)]
        for one in entries:
            if (layer := self.layer_of.get(one.name)) is not None:
                layers[layer].append(one)
        first = next((place for place, one in enumerate(entries) if one.name in self.layer_of), len(entries))
        rest = [one for one in entries[first:] if one.name not in self.layer_of]
        middle = [self._held(one, index) for index in range(KEPT - 1, count - 1) for one in layers[KEPT - 2]]
        last = [self._held(one, count - 1) for one in layers[KEPT - 1]]
        return [*entries[:first], *(one for row in layers[: KEPT - 1] for one in row), *middle, *last, *rest]

    def modules(self, path: str, count: int) -> list[tuple[str, str]]:
        """Return the module tree with all layers, in order."""
        out: list[tuple[str, str]] = []
        layers: dict[int, list[tuple[str, str]]] = {}
        for member in self.program.modules:
            found = self.prefix.match(member[0])
            if found:
                layers.setdefault(int(found[1]), []).append(member)
                continue
            out.append(member)
        place = next(i for i, member in enumerate(out) if member[0] == path) + 1
        every = [(self._path(p, i), kind) for i in range(count) for p, kind in layers[min(i, KEPT - 2)]]
        return [*out[:place], *every, *out[place:]]

    def _held(self, one: Any, index: int) -> Any:
        return replace(one, name=self._as(one.name, index), path=self._path(one.path, index))

    def _path(self, path: str, index: int) -> str:
        return self.prefix.sub(lambda match: f"{match[0][: match.start(1) - match.start(0)]}{index}", path)

    @staticmethod
    def _as(name: str, index: int) -> str:
        base, colon, result = name.partition(":")
        return f"{base}__layer{index}{colon}{result}"


def _renamed(call: Call, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": names.get(call.name, call.name),
        "arguments": tuple(_argument(a, names) for a in call.arguments),
        "keywords": tuple((key, _argument(a, names)) for key, a in call.keywords),
    }


def _argument(argument: Argument, names: Mapping[str, str]) -> Argument:
    if isinstance(argument, Ref):
        return Ref(names.get(argument.name, argument.name))
    return tuple(_argument(a, names) for a in argument) if isinstance(argument, tuple) else argument


def _signature(layer: torch.nn.Module) -> tuple[object, ...]:
    """Return what sets a layer apart from others of its class: its modules with their plain attributes and shapes."""
    rows = []
    for path, part in layer.named_modules():
        plain = {
            key: repr(value) for key, value in vars(part).items()
            if isinstance(value, int | float | str | bool | tuple | None) and not _INDEX.fullmatch(key)
        }  # fmt: skip
        shapes = [
            (name, tuple(p.shape), str(p.dtype), p.requires_grad) for name, p in part.named_parameters(recurse=False)
        ]
        held = [
            (name, str(b.dtype), tuple(b.shape), None if b.is_meta else tuple(b.flatten().tolist()))
            for name, b in part.named_buffers(recurse=False)
        ]
        rows.append((path, type(part).__qualname__, tuple(sorted(plain.items())), tuple(shapes), tuple(held)))
    return tuple(rows)
