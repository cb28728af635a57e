"""The loss of flattened logits and labels → `fused.cross_entropy(logits, labels) ignore_index` of all their dims."""

from __future__ import annotations

from ..program import Argument, Call, Ref
from .calls import Calls, base
from .rewrite import Pattern, Replacement, beside, fused


def _rewrite(calls: Calls, root: Call) -> Replacement | None:
    names = ("logits", "labels", "weight", "reduction", "ignore_index", "label_smoothing")
    given = dict(zip(names, root.arguments, strict=False)) | dict(root.keywords)
    if given.get("weight") is not None or given.get("reduction", 1) != 1:
        return None
    logits, labels = (_before(calls, given[name]) for name in ("logits", "labels"))
    before: list[Call] = []
    if calls.meta(labels).dtype not in ("int64", "int32"):
        return None
    shape, kept = calls.shape(logits), calls.shape(labels)
    if shape[:-1] != kept:
        logits, labels = given["logits"], given["labels"]
        shape, kept = calls.shape(logits), calls.shape(labels)
        if len(kept) > 1:
            # Torch has the classes in dim 1.
            if (shape[0], *shape[2:]) != kept:
                return None
            order = (0, *range(2, len(shape)), 1)
            meta = calls.meta(logits)
            turned = beside(root, "classes_last", "aten.permute.default", (logits, order),
                            type(meta)(tuple(shape[d] for d in order), meta.dtype))  # fmt: skip
            before, logits = [turned], Ref(turned.name)
    elif len(kept) < 1:
        return None
    attributes: list[tuple[str, Argument]] = [("ignore_index", given.get("ignore_index", -100))]
    if given.get("label_smoothing"):
        attributes.append(("label_smoothing", given["label_smoothing"]))
    return Replacement(calls=(*before, fused(root, "cross_entropy", (logits, labels), tuple(attributes))))


def _before(calls: Calls, argument: Argument) -> Argument:
    """Return logits or labels before their leading dims were made one."""
    bare = calls.uncast(argument)
    made = calls.maker(bare)
    if made is None or base(made.target) not in ("view", "reshape", "flatten", "_unsafe_view"):
        return bare
    before, after = calls.shape(made.arguments[0]), made.results[0].shape
    flat = len(after) == 1 or (len(after) == 2 and before[-1] == after[-1])
    return calls.uncast(made.arguments[0]) if flat else bare


CROSS_ENTROPY = Pattern(name="cross_entropy", roots=frozenset({"cross_entropy_loss"}), rewrite=_rewrite)
