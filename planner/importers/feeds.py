"""What the inputs of a model are fed with: told by who knows, else found out from who reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..core.graph import Block, Feed, Node, Value
from ..core.tensor import TensorMeta
from ..errors import ModelError

INTEGERS = frozenset({"int64", "int32"})
_MOVES = frozenset({
    "cast", "concat", "expand", "permute", "repeat", "repeat_interleave", "reshape", "select", "slice", "split",
    "squeeze", "stack", "to_integer", "unsqueeze",
})  # fmt: skip
"""Operators whose results hold values of their operands."""


def language_feeds(vocab: int) -> tuple[Feed, ...]:
    """Return what `tokens` and `labels` of a decoder are fed with: labels are the next tokens, and some are ignored."""
    return (
        Feed(name="tokens", kind="integers", high=vocab),
        Feed(name="labels", kind="next", next_of="tokens", ignored=-100),
    )


def feeds_of(block: Block, known: Iterable[Feed] = ()) -> tuple[Feed, ...]:
    """Return what each input of a root block is fed with.

    Those of `known` are as they say. Of the others, truth values are masks, floating numbers are normal, and integers
    are below the smallest table, or number of classes, that is indexed with them or with what they are moved into.

    Raises
    ------
    ModelError
        `model.feed` when `known` names no input, or integers index nothing, so that no bound is known.
    """
    told = {feed.name: feed for feed in known}
    names = {value.name for value in block.inputs}
    for name in told.keys() - names:
        raise ModelError(
            "model.feed", f"The model has no input {name!r} to be fed.", f"Inputs are {', '.join(sorted(names))}.",
            subject=name,
        )  # fmt: skip
    return tuple(told.get(value.name) or _found(block, value) for value in block.inputs)


def _found(block: Block, value: Value) -> Feed:
    if value.meta.dtype == "bool":
        return Feed(name=value.name, kind="mask")
    if value.meta.dtype not in INTEGERS:
        return Feed(name=value.name, kind="normal")
    bounds = list(_bounds(block, {value.name}))
    sizes = [size for size, _ in bounds]
    ignored = next((label for _, label in bounds if label is not None and len(value.meta.shape) > 1), None)
    # What nothing indexes is a count or a flag.
    return Feed(name=value.name, kind="integers", high=min(sizes, default=2), ignored=ignored)


def _bounds(block: Block, names: set[str]) -> Iterator[tuple[int, int | None]]:
    """Yield, for each reader that indexes with a value, how many there are to index, and the label that it ignores."""
    metas = {value.name: value.meta for value in block.inputs} | {p.name: p.meta for p in block.parameters}
    held = set(names)
    for item in block.body:
        if not isinstance(item, Node):
            inner = zip(item.block.inputs, item.operands, strict=True)
            yield from _bounds(item.block, {value.name for value, outer in inner if outer in held})
            metas |= {value.name: value.meta for value in item.results}
            continue
        metas |= {value.name: value.meta for value in item.results}
        if item.op in _MOVES and held.intersection(item.operands):
            held |= {value.name for value in item.results}
        yield from _indexed(item, held, metas)


def _indexed(node: Node, held: set[str], metas: Mapping[str, TensorMeta]) -> Iterator[tuple[int, int | None]]:
    attributes = dict(node.attributes)
    for position, operand in enumerate(node.operands):
        if operand not in held:
            continue
        size: object = None
        ignored: object = None
        if node.op in {"embedding", "embedding_bag"} and position == 0:
            size = metas[node.operands[1]].shape[0]
        elif node.op == "cross_entropy" and position == 1:
            size, ignored = metas[node.operands[0]].shape[-1], attributes.get("ignore_index")
        elif node.op in {"gather", "index_select"} and position == 1:
            source = metas[node.operands[0]].shape
            dim = attributes.get("dim")
            size = source[dim] if isinstance(dim, int) and source else None
        elif node.op == "one_hot":
            size = node.results[0].meta.shape[-1]
        if isinstance(size, int):
            yield size, ignored if isinstance(ignored, int) else None
