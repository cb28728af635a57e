"""Rotations of pairs by the angle of the position → `fused.rotary(x, cos, sin) [pairs]`.

```text
x·cos + cat(−b, a)·sin                     a, b the halves of x, or its even and odd elements (stack, flatten)
cat(a·c − b·s, b·c + a·s)                  c, s the first halves of cos and sin
cat(rotated(first r elements of x), rest)  a part of each head only
```

A table is [S, r], r even and at most the width of a head. Heads may stand before the positions or behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ....core.symbol import Size
from ....core.tensor import TensorMeta
from ..program import Argument, Call, Ref
from .calls import Calls, base, index_of
from .match import Found, Tree, add, call, either, first, last_dim, listed, mul, part, value
from .parts import along_last, half, neighbour
from .rewrite import Pattern, Replacement, beside, fused

PAIRS = ("halves", "neighbours", "regrouped")
"""Which elements are turned together: i and i + r/2; 2i and 2i + 1; the latter, but written like the former."""


def _flat(x: Tree) -> Tree:
    """Two last dims made one."""

    def fit(calls: Calls, argument: Argument, found: Found) -> Iterator[Found]:
        bare = calls.uncast(argument)
        made = calls.maker(bare)
        if made is None or base(made.target) not in ("flatten", "view", "reshape"):
            return
        before, after = calls.shape(made.arguments[0]), made.results[0].shape
        if before[:-2] == after[:-1] and len(before) == len(after) + 1:
            yield from x(calls, made.arguments[0], Found(found.values, (*found.inner, made.name)))

    return fit


def _rotation(
    place: Callable[[Calls, Argument], tuple[Argument, Argument] | None], joined: Callable[..., Tree]
) -> Tree:
    """x·cos + (−b, a)·sin."""
    turned = joined(call("neg", part("x", place, 1)), part("x", place, 0))
    return add(mul(value("x"), value("cos")), mul(turned, value("sin")))


def _two(place: Callable[[Calls, Argument], tuple[Argument, Argument] | None], joined: Callable[..., Tree]) -> Tree:
    """(a·c − b·s, b·c + a·s)."""
    a, b, c, s = part("x", place, 0), part("x", place, 1), value("c"), value("s")
    return joined(call("sub", mul(a, c), mul(b, s)), add(mul(b, c), mul(a, s)))


def _cat(*trees: Tree) -> Tree:
    return call("cat", listed(*trees), last_dim)


def _stacked(*trees: Tree) -> Tree:
    return _flat(call("stack", listed(*trees), last_dim))


_FORMS = {
    "halves": either(_rotation(half, _cat), _two(half, _cat)),
    "neighbours": either(_rotation(neighbour, _stacked), _two(neighbour, _stacked)),
    "regrouped": _two(neighbour, _cat),
}


def _rewrite(calls: Calls, root: Call) -> Replacement | None:
    for pairs, form in _FORMS.items():
        for tree in (_cat(form, value("rest")), form):
            found = first(tree, calls, root, lambda f: _whole(calls, f) is not None)
            made = found and _write(calls, root, pairs, found)
            if made:
                return made
    return None


def _whole(calls: Calls, found: Found) -> Argument | None:
    """Return what the rotation is of: x, or the value of which x is the first part and which ends in `rest`."""
    x = found["x"]
    if "rest" not in found.values:
        return x
    start, rest = along_last(calls, x), along_last(calls, found["rest"])
    width = calls.shape(x)[-1]
    if start is None or rest is None or calls.uncast(start[0]) != calls.uncast(rest[0]):
        return None
    whole = calls.uncast(start[0])
    fits = start[1] == (0, width, 1) and rest[1] == (width, calls.shape(whole)[-1], 1)
    return whole if fits else None


def _write(calls: Calls, root: Call, pairs: str, found: Found) -> Replacement | None:
    x = _whole(calls, found)
    assert x is not None
    width, shape = calls.shape(found["x"])[-1], calls.shape(x)
    tables, before = [], []
    for name, short in (("cos", "c"), ("sin", "s")):
        made = _table(calls, root, name, found.values.get(name), found.values.get(short), width, pairs)
        if made is None:
            return None
        tables.append(made[0])
        before += made[1]
    seq = _seq_dim(calls, found["cos"] if "cos" in found.values else found["c"])
    if len(shape) != 4 or seq is None:
        return None
    attributes: tuple[tuple[str, Argument], ...] = () if pairs == "halves" else (("pairs", pairs),)
    meta = TensorMeta(shape, calls.meta(x).dtype)
    if seq == -2:
        whole = fused(root, "rotary", (x, *tables), attributes, meta=meta)
        return Replacement(calls=(*before, whole), inner=found.inner)
    turned = TensorMeta((shape[0], shape[2], shape[1], shape[3]), meta.dtype)
    heads = beside(root, "heads", "aten.transpose.int", (x, 1, 2), turned)
    rotated = beside(root, "rotary", "fused.rotary", (Ref(heads.name), *tables), turned, keywords=attributes)
    back = beside(root, "", "aten.transpose.int", (Ref(rotated.name), 1, 2), meta)
    return Replacement(calls=(*before, heads, rotated, _named(back, root)), inner=found.inner)


def _named(call: Call, root: Call) -> Call:
    return Call(
        name=root.name, target=call.target, arguments=call.arguments, results=call.results, stack=root.stack,
        source=root.source,
    )  # fmt: skip


def _seq_dim(calls: Calls, table: Argument) -> int | None:
    """Return where the positions lie in what the table is multiplied with: −2, or −3 before the heads."""
    shape: tuple[Size, ...] = (1, 1, 1, *calls.shape(table))[-4:]
    long = [place for place in (-3, -2) if shape[place] != 1]
    return long[0] if len(long) == 1 else None


def _table(
    calls: Calls, root: Call, role: str, whole: Argument, short: Argument, width: Size, pairs: str
) -> tuple[Argument, list[Call]] | None:
    """Return a table [S, r] and the calls that make it of what the code multiplies with.

    The calls are named after what they are made of, and stand in its module: all layers make the same ones.
    """
    if whole is not None:
        return _flat_table(calls, root, role, calls.plain(whole), width)
    assert isinstance(width, int)
    bare = calls.plain(short)
    cut = along_last(calls, bare)
    source = calls.plain(cut[0]) if cut is not None and cut[1] == (0, width // 2, 1) else None
    made = calls.maker(source)
    before: list[Call] = []
    role = f"{role}{index_of(source or bare)}"
    if source is not None and made is not None and made.target == "fused.rotary_table" and not made.keyword("form"):
        # The halves of this one are equal.
        if pairs != "neighbours":
            return _flat_table(calls, root, role, source, width)
        half_meta = TensorMeta((calls.shape(source)[0], width // 2), calls.meta(source).dtype)
        before = [beside(made, f"{role}_half{width}", "aten.slice.Tensor", (source, 1, 0, width // 2), half_meta)]
        table: Argument = Ref(before[0].name)
    else:
        found = _flat_table(calls, root, role, bare, width // 2)
        if found is None:
            return None
        table, before = found
        half_meta = before[-1].results[0] if before else calls.meta(bare)
        made = calls.maker(bare)
    meta = TensorMeta((half_meta.shape[0], width), half_meta.dtype)
    target = "aten.cat.default"
    arguments: tuple[Argument, ...] = ((table, table), -1)
    if pairs == "neighbours":
        target, arguments = "aten.repeat_interleave.self_int", (table, 2, 1)
    doubled = beside(made or root, f"{role}_{pairs}{width}", target, arguments, meta)
    return Ref(doubled.name), [*before, doubled]


def _flat_table(calls: Calls, root: Call, role: str, bare: Argument, width: Size) -> tuple[Argument, list[Call]] | None:
    shape = calls.shape(bare)
    if shape[-1] != width:
        return None
    if len(shape) == 2:
        return bare, []
    rows = [size for size in shape[:-1] if size != 1]
    if len(rows) != 1:
        return None
    meta = TensorMeta((rows[0], width), calls.meta(bare).dtype)
    flat = beside(
        calls.maker(bare) or root, f"{role}{index_of(bare)}_table", "aten.view.default", (bare, meta.shape), meta
    )
    return Ref(flat.name), [flat]


def _paired(calls: Calls, root: Call) -> Replacement | None:
    """Make a view to pairs two: one to other dims, one of the last dim to pairs."""
    shape, before = root.results[0].shape, calls.shape(root.arguments[0])
    if len(shape) < 3 or shape[-1] != 2 or not isinstance(before[-1], int) or before[-1] % 2:
        return None
    wide = (*shape[:-2], before[-1])
    if shape[-2] != before[-1] // 2 or wide == before:
        return None
    meta = TensorMeta(wide, root.results[0].dtype)
    outer = beside(root, "wide", "aten.view.default", (root.arguments[0], wide), meta)
    return Replacement(calls=(outer, _named(beside(root, "", "aten.view.default", (Ref(outer.name), shape),
                                                   root.results[0]), root)))  # fmt: skip


PAIRED = Pattern(name="paired", roots=frozenset({"view", "reshape", "_unsafe_view"}), rewrite=_paired)
ROTARY = Pattern(name="rotary", roots=frozenset({"add", "cat", "flatten", "view", "reshape"}), rewrite=_rewrite)
