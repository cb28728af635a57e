"""Learnt positions → the first rows of their table, without a batch; what is added as it broadcasts is not expanded.

```text
embedding(table, [[0, 1, …]])        → unsqueeze(index_select(table, 0, [0, 1, …]))
add(x, unsqueeze or expand of y)     → add(x, y), where y broadcasts to the same
```
"""

from __future__ import annotations

from dataclasses import replace

from ....core.symbol import Size
from ....core.tensor import TensorMeta
from ..program import Argument, Call, Ref
from .calls import Calls, base
from .rewrite import Pattern, Replacement, beside


def _rewrite(calls: Calls, root: Call) -> Replacement | None:
    table, tokens = root.arguments[:2]
    places = calls.plain(tokens)
    made = calls.maker(places)
    if made is None or base(made.target) != "arange" or len(root.arguments) > 2 or root.keywords:
        return None
    line = calls.shape(places)
    shape, width = root.results[0].shape, calls.shape(table)[-1]
    # The places lie in the last dim of the tokens, the others repeat them.
    if calls.shape(tokens)[-1:] != line or len(shape) < 3:
        return None
    meta = TensorMeta((*line, width), root.results[0].dtype)
    picked = beside(root, "picked", "aten.index_select.default", (table, 0, places), meta)
    wide = (*(1,) * (len(shape) - 2), *meta.shape)
    view = beside(root, "wide", "aten.view.default", (Ref(picked.name), wide), TensorMeta(wide, meta.dtype))
    whole = replace(root, target="aten.expand.default", arguments=(Ref(view.name), shape))
    return Replacement(calls=(picked, view, whole))


def _broadcast(calls: Calls, root: Call) -> Replacement | None:
    if len(root.arguments) != 2 or root.keywords:
        return None
    shape = root.results[0].shape
    arguments = list(root.arguments)
    for place, other in ((0, 1), (1, 0)):
        if isinstance(arguments[other], Ref) and calls.shape(arguments[other]) == shape:
            arguments[place] = _shorter(calls, arguments[place], shape)
    if tuple(arguments) == root.arguments:
        return None
    return Replacement(calls=(replace(root, arguments=tuple(arguments)),))


def _shorter(calls: Calls, argument: Argument, shape: tuple[Size, ...]) -> Argument:
    """Return a value before views that a broadcast to a shape makes needless."""
    while (made := calls.maker(argument)) is not None and base(made.target) in ("unsqueeze", "expand", "view"):
        source = made.arguments[0]
        before, after = calls.shape(source), calls.shape(argument)
        padded = (*(1,) * (len(after) - len(before)), *before)
        if len(after) < len(before) or any(old not in (1, new) for old, new in zip(padded, after, strict=True)):
            return argument
        argument = source
    return argument


POSITIONS = Pattern(name="positions", roots=frozenset({"embedding"}), rewrite=_rewrite)
BROADCAST = Pattern(name="broadcast", roots=frozenset({"add"}), rewrite=_broadcast)
