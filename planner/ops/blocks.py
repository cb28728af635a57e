"""What operators that look at a dim in order share: the dim `n`, and its blocks `(s m)`, s of length m.

Sharding such a dim is special where a small graph of blocks does it: each shard works on its block, and what the blocks
found is so small that it is read whole and completes the result. Blocks have one size, so the dim is cut evenly.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.rule import ShardingRule
from ..core.tensor import TensorMeta
from .definition import Attributes, Cuts, Local, dim_of, names_of
from .lines import attributes_of, integer, line, replaced
from .parts import Named, PartsOf

Metas = tuple[TensorMeta, ...]
BLOCK = "a block is worked on by one device"


def sized(x: TensorMeta, dim: int, *size: int, dtype: str = "") -> TensorMeta:
    """Return the meta with other sizes, or none, in the place of one dim."""
    return TensorMeta((*x.shape[:dim], *size, *x.shape[dim + 1 :]), dtype or x.dtype)


def place(operands: Metas, attributes: Attributes) -> tuple[list[str], int]:
    """Return the names of the dims of the first operand, and the dim in question."""
    dims = names_of(len(operands[0].shape))
    return dims, dim_of(attributes, len(dims))


def dim_in(local: Local) -> int:
    """Return the dim in question, counted from the front."""
    return dim_of(attributes_of(local), len(local.operands[0]))


def blocks_of(parts: PartsOf, dim: int, cuts: Cuts) -> tuple[Named, dict[str, int]]:
    """Return the operand with its dim as a number, and the attributes of parts that work on blocks of it."""
    operand = parts.operand("x", parts.node.results[0].meta.dtype)
    assert operand is not None
    name, meta = operand
    cut = cuts["n"]
    return (name, sized(meta, dim, cut.size)), {"dim": dim, "shards": cut.shards}


def whole_rule(*results: str, special: bool = True, blocked: str = "", terms: str = "") -> Callable[..., ShardingRule]:
    """Return the rule of an operator on the dim `n`; `results` say what stands in its place, empty for nothing."""

    def rule(operands: Metas, made: Metas, attributes: Attributes) -> ShardingRule:
        dims, dim = place(operands, attributes)
        reasons = {r: blocked for r in results if r != "n" and r} if blocked else {}
        if not special:
            reasons["n"] = blocked
        return line(
            operands, made, [replaced(dims, dim, "n")], [replaced(dims, dim, *r.split()) for r in results],
            names=("x",), terms=terms, blocked=reasons, special=frozenset({"n"} if special else ()),
            even=frozenset({"n"} if special else ()),
        )  # fmt: skip

    return rule


def block_rule(*results: str, terms: str = "") -> Callable[..., ShardingRule]:
    """Return the rule of a part on the blocks `(s m)` of the dim."""

    def rule(operands: Metas, made: Metas, attributes: Attributes) -> ShardingRule:
        dims, dim = place(operands, attributes)
        shards = integer(attributes, "shards")
        written = {r: replaced(dims, dim, f"({r})" if " " in r else r) for r in results}
        sizes = {"s": shards} | ({"k": kept(operands[0], attributes)} if "s k" in results else {})
        return line(
            operands, made, [replaced(dims, dim, "(s m)")], [written[r] for r in results], names=("x",), terms=terms,
            sizes=dict(sizes), blocked={"m": BLOCK, "k": BLOCK} if "k" in sizes else {"m": BLOCK},
            even=frozenset({"s"}),
        )  # fmt: skip

    return rule


def kept(x: TensorMeta, attributes: Attributes) -> int:
    """Return how many elements each block hands on: k, or all that it has."""
    size = x.shape[dim_of(attributes, len(x.shape))]
    assert isinstance(size, int)
    return min(integer(attributes, "k"), size // integer(attributes, "shards"))


def block_torch(function: str) -> Callable[[Local], str]:
    """Return what writes a call of a function on the blocks that a rank holds."""

    def write(local: Local) -> str:
        return f"ordered.{function}({', '.join(local.arguments)}, {dim_in(local)}, blocks={local.sizes['s']})"

    return write
