"""Views between the model dim and heads → `fused.split_heads` and `fused.merge_heads`.

Norms and rotations of each head come after the split, whichever way round the code has them, so that heads are seen
where they are made.
"""

from __future__ import annotations

from dataclasses import replace

from ....core.tensor import TensorMeta
from ..program import Call, Ref
from .calls import Calls, base, dims
from .rewrite import Pattern, Replacement, beside, fused

_VIEWS = ("view", "reshape", "_unsafe_view", "unflatten")
_PER_HEAD = ("fused.rms_norm", "aten.rms_norm.default", "aten.layer_norm.default")
"""Calls that work on the last dim alone; their other operands have no other dim."""


def swaps(call: Call) -> bool:
    """Whether a call swaps positions and heads of a tensor of four dims."""
    if len(call.results) != 1 or len(call.results[0].shape) != 4:
        return False
    if base(call.target) in ("transpose", "swapaxes"):
        return {*dims(call.arguments[1], 4), *dims(call.arguments[2], 4)} == {1, 2}
    return base(call.target) == "permute" and dims(call.arguments[1], 4) == (0, 2, 1, 3)


def _lift(calls: Calls, root: Call) -> Replacement | None:
    """Swap before a norm of each head instead of after it; two swaps one after the other go."""
    if not swaps(root):
        return None
    before = calls.maker(root.arguments[0])
    if before is None:
        return None
    if swaps(before):
        source = before.arguments[0]
        assert isinstance(source, Ref)
        return Replacement(calls=(), renamed={root.name: source.name})
    if before.target not in _PER_HEAD or not calls.inner(before):
        return None
    if any(len(calls.shape(a)) > 1 for a in before.arguments[1:] if isinstance(a, Ref)):
        return None
    (meta,) = root.results
    swapped = beside(root, "heads", root.target, (before.arguments[0], *root.arguments[1:]),
                     TensorMeta(meta.shape, calls.meta(before.arguments[0]).dtype))  # fmt: skip
    norm = replace(before, name=root.name, arguments=(Ref(swapped.name), *before.arguments[1:]), results=root.results)
    return Replacement(calls=(swapped, norm), inner=(before.name,))


def _split(calls: Calls, root: Call) -> Replacement | None:
    if not swaps(root):
        return None
    view = calls.maker(root.arguments[0])
    if view is None or base(view.target) not in _VIEWS:
        return None
    before, after = calls.shape(view.arguments[0]), view.results[0].shape
    heads = after[2]
    if len(before) != 3 or before[:2] != after[:2] or not isinstance(heads, int):
        return None
    return Replacement(calls=(fused(root, "split_heads", (view.arguments[0],), (("groups", heads), ("per_group", 1))),))


def _merge(calls: Calls, root: Call) -> Replacement | None:
    turned = calls.maker(root.arguments[0])
    if turned is None or not swaps(turned) or not calls.inner(turned):
        return None
    x, shape = turned.arguments[0], root.results[0].shape
    heads = calls.shape(x)[1]
    if len(shape) != 3 or shape[:2] != turned.results[0].shape[:2] or not isinstance(heads, int):
        return None
    merged = fused(root, "merge_heads", (x,), (("groups", heads), ("per_group", 1)))
    return Replacement(calls=(merged,), inner=(turned.name,))


LIFT = Pattern(name="lift", roots=frozenset({"transpose", "permute", "swapaxes"}), rewrite=_lift)
SPLIT_HEADS = Pattern(name="split_heads", roots=LIFT.roots, rewrite=_split)
MERGE_HEADS = Pattern(
    name="merge_heads", roots=frozenset({"view", "reshape", "_unsafe_view", "flatten"}), rewrite=_merge
)
