"""A model of the operators that move, pick, reduce and order along dims, each with a gradient through it."""

from __future__ import annotations

from functools import cache

from planner.core.graph import Attribute, Block, ModelGraph, ModelSource, Module
from planner.core.json_text import digest
from planner.core.symbol import symbol
from planner.core.tensor import TensorMeta
from planner.importers.builder import BlockBuilder
from planner.importers.feeds import feeds_of

WIDTH, VOCAB = 16, 32


class _Chain:
    """Builds the model: every operator reads the stream, and what it makes is added to it again."""

    def __init__(self) -> None:
        self.block = BlockBuilder()
        self.count = 0
        self.stream = ""

    def op(self, op: str, *operands: str, **attributes: Attribute) -> tuple[str, ...]:
        self.count += 1
        return self.block.node(f"{op}{self.count}", op, *operands, module="", attributes=attributes)

    def one(self, op: str, *operands: str, **attributes: Attribute) -> str:
        return self.op(op, *operands, **attributes)[0]

    def join(self, value: str) -> None:
        """Add a value of the stream's shape to it."""
        self.stream = self.one("add", self.stream, value)

    def spread(self, value: str) -> None:
        """Add one number a token to the stream."""
        self.join(self.one("expand", value, sizes=f"B, S, {WIDTH}"))


@cache
def zoo_graph() -> ModelGraph:
    """Return the model."""
    made = _Chain()
    tokens = made.block.input("tokens", TensorMeta((symbol("B"), symbol("S")), "int64"))
    labels = made.block.input("labels", TensorMeta((symbol("B"), symbol("S")), "int64"))
    table = made.block.parameter("table.weight", (VOCAB, WIDTH))
    made.stream = made.one("embedding", tokens, table)
    for family in (_moved, _joined, _reduced, _ordered, _indexed, _multiplied):
        family(made)
    logits = made.one("linear", made.stream, table)
    (loss,) = made.block.node(
        "loss", "cross_entropy", logits, labels, module="", attributes={"ignore_index": -100}
    )  # fmt: skip
    return _graph(made.block.block(loss), logits)


def _graph(block: Block, logits: str) -> ModelGraph:
    content = '{"zoo":1}'
    source = ModelSource(name="zoo", kind="test", digest=digest(content), content=content)
    leaves = ("table", "norm", "best", "last")
    modules = (Module(path="", class_name="Zoo"), *(Module(path=name, class_name="Leaf") for name in leaves))
    return ModelGraph(name="zoo", source=source, root=block, modules=modules, logits=logits, feeds=feeds_of(block))


def _moved(made: _Chain) -> None:
    made.join(made.one("roll", made.stream, dim=2, shift=3))
    made.join(made.one("flip", made.stream, dim=1))
    wide = made.one("pad", made.stream, dim=2, before=1, after=3)
    made.join(made.one("slice", wide, dim=2, start=2, stop=2 + WIDTH))
    half = made.one("slice", made.stream, dim=2, start=1, step=2)
    made.join(made.one("repeat", half, times=(1, 1, 2)))
    made.join(made.one("repeat_interleave", half, dim=2, times=2))
    turned = made.one("permute", made.stream, dims=(2, 0, 1))
    made.join(made.one("permute", turned, dims=(1, 2, 0)))
    last = made.one("select", made.stream, dim=1, index=-1)
    made.join(made.one("expand", made.one("unsqueeze", last, dim=1), sizes=f"B, S, {WIDTH}"))


def _joined(made: _Chain) -> None:
    left, right = made.op("split", made.stream, dim=2, sizes=(WIDTH // 2, WIDTH // 2))
    made.join(made.one("concat", right, left, dim=2))
    small, large = made.op("split", made.stream, dim=2, sizes=(4, WIDTH - 4))
    made.join(made.one("concat", large, small, dim=2))
    both = made.one("stack", made.stream, made.one("flip", made.stream, dim=2), dim=1)
    made.join(made.one("mean", both, dims=(1,)))


def _reduced(made: _Chain) -> None:
    made.spread(made.one("amax", made.stream, dims=(2,), keepdim=True))
    made.spread(made.one("amin", made.stream, dims=(1, 2), keepdim=True))
    made.spread(made.one("var", made.stream, dims=(2,), keepdim=True))
    made.spread(made.one("sum", made.stream, dims=(1, 2), keepdim=True))
    made.stream = made.one("rms_norm", made.stream, made.block.parameter("norm.weight", (WIDTH,), "ones"), eps=1e-5)


def _ordered(made: _Chain) -> None:
    made.join(made.one("cumsum", made.stream, dim=1))
    values, places = made.op("topk", made.stream, dim=2, k=4)
    made.join(made.one("scatter_add", made.stream, places, values, dim=2))
    picked = made.one("gather", made.stream, places, dim=2)
    made.spread(made.one("unsqueeze", made.one("prod", picked, dim=2), dim=2))
    first = made.one("argmax", made.stream, dim=2)
    made.join(made.one("embedding", first, made.block.parameter("best.weight", (WIDTH, WIDTH))))


def _indexed(made: _Chain) -> None:
    positions = made.one("arange", sizes=str(WIDTH), start=WIDTH - 1, step=-1)
    made.join(made.one("index_select", made.stream, positions, dim=2))
    made.join(made.one("index_add", made.stream, positions, made.stream, dim=2))


def _multiplied(made: _Chain) -> None:
    scores = made.one("einsum", made.stream, made.stream, equation="bsh,bth->bst")
    made.join(made.one("einsum", made.one("tril", scores), made.stream, equation="bst,bth->bsh"))
    made.stream = made.one("rms_norm", made.stream, made.block.parameter("last.weight", (WIDTH,), "ones"), eps=1e-5)
