"""Values that are put together by writing parts into an empty one → `aten.cat`.

```text
k = empty(…, n + r);  k[…, :n] = a;  k[…, n:] = b      → cat((a, b), −1)
```
"""

from __future__ import annotations

from dataclasses import replace

from ..program import Argument, Call, Ref
from .calls import Calls, base, dims
from .rewrite import Pattern, Replacement, beside

_EMPTY = frozenset({"empty", "empty_like", "new_empty", "full", "zeros", "zeros_like", "new_zeros"})


def _rewrite(calls: Calls, root: Call) -> Replacement | None:
    parts: dict[int, tuple[int, Argument]] = {}
    made: Call | None = root
    inner: list[str] = []
    dim = _dim(root)
    while made is not None and base(made.target) == "slice_scatter":
        found = _written(made, dim)
        if found is None or (made is not root and not calls.inner(made) and not _only_shape(calls, made)):
            return None
        start, end, value = found
        parts.setdefault(start, (end, value))
        inner.append(made.name)
        made = calls.maker(made.arguments[0])
    if made is None or base(made.target) not in _EMPTY or dim is None:
        return None
    size, at, values = root.results[0].shape[dim], 0, []
    while at in parts:
        at, value = parts[at]
        values.append(value)
    if at != size or len(values) != len(parts):
        return None
    before, whole = [], []
    for place, value in enumerate(values):
        source = _source(calls, value)
        meta = calls.meta(value)
        if calls.shape(source) != meta.shape:
            before.append(beside(root, f"part{place}", "aten.expand.default", (source, meta.shape), meta))
            source = Ref(before[-1].name)
        whole.append(source)
    joined = replace(root, target="aten.cat.default", arguments=(tuple(whole), dim), keywords=())
    return Replacement(calls=(*before, joined), inner=tuple(name for name in inner if name != root.name))


def _dim(call: Call) -> int | None:
    given = call.arguments[2] if len(call.arguments) > 2 else 0
    return next(iter(dims(given, len(call.results[0].shape))), None)


def _written(call: Call, dim: int | None) -> tuple[int, int, Argument] | None:
    """Return where a call writes, and what; None if it is elsewhere or with a step."""
    left_out: tuple[Argument, ...] = (None, None, 0, None, None, 1)
    _, value, _, start, end, step = (*call.arguments, *left_out[len(call.arguments) :])
    size = call.results[0].shape[dim] if dim is not None else None
    if _dim(call) != dim or step != 1 or not isinstance(size, int):
        return None
    first = 0 if start is None else start
    last = size if end is None else end
    if not isinstance(first, int) or not isinstance(last, int):
        return None
    picked = range(size)[first:last]
    return picked.start, picked.stop, value


def _only_shape(calls: Calls, made: Call) -> bool:
    """Whether all readers but the next write take the part that they then overwrite."""
    readers = [calls.made.get(name) for name in calls.readers[made.name]]
    return all(r is not None and base(r.target) in ("slice", "slice_scatter") for r in readers)


def _source(calls: Calls, value: Argument) -> Argument:
    """Return what is copied over a part, without the copy."""
    made = calls.maker(value)
    return made.arguments[1] if made is not None and base(made.target) == "copy" else value


ASSEMBLED = Pattern(name="assembled", roots=frozenset({"slice_scatter"}), rewrite=_rewrite)
