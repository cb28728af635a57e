"""Runs a flat block as the unsharded export does, node by node, so that loss and gradients can be compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from planner.core.graph import Block, Node
from planner.core.mesh import DeviceMesh
from planner.core.strategy import ShardStrategy
from planner.core.symbol import evaluate
from planner.exporters.explicit.local import local_of
from planner.importers.aten.program import Program
from planner.importers.tracing.trace import WithLoss, trace
from planner.ops import OPS, Cut
from tests.ops.cases import evaluate_on

WHOLE, ALONE = ShardStrategy(), DeviceMesh.parse("one:1")
VOCAB, WIDTH = 11, 8


@contextmanager
def in_float64() -> Any:
    """Let the model's element type be float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def run_block(block: Block, values: Mapping[str, Any], symbols: Mapping[str, int]) -> dict[str, Any]:
    """Return every value of a block by name, from its inputs and parameters."""
    found, bound = dict(values), frozenset(symbols.items())
    for node in block.nodes:
        for part in _parts(node, bound):
            names = tuple(f"x{i}" for i in range(len(part.operands)))
            text = OPS[part.op].torch(local_of(part, WHOLE, names, bound, ALONE))
            made = evaluate_on(text, [found[name] for name in part.operands], ALONE, 0)
            found |= {value.name: result for value, result in zip(part.results, made, strict=True)}
            for value, result in zip(part.results, made, strict=True):
                assert tuple(result.shape) == value.meta.concrete(bound), (part.name, result.shape, value.meta)
    return found


def _parts(node: Node, symbols: frozenset[tuple[str, int]]) -> tuple[Node, ...]:
    cuts = {factor: Cut(evaluate(size, symbols), 1) for factor, size in node.rule.sizes}
    parts = OPS[node.op].parts(node, WHOLE, cuts)
    if not parts:
        return (node,)
    # The last part makes the node's results.
    last = replace(parts[-1][0], results=node.results)
    return (*(part for part, _ in parts[:-1]), last)


class OnTokens(torch.nn.Module):
    """A function of the rows of a table that tokens pick, and of further parameters."""

    def __init__(self, function: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(len(shapes))
        made = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((VOCAB, WIDTH), *shapes)]
        self.table = torch.nn.Parameter(made[0])
        self.more = torch.nn.ParameterList([torch.nn.Parameter(value) for value in made[1:]])
        self.function = function

    def forward(self, tokens: Any) -> Any:
        made = self.function(torch.nn.functional.embedding(tokens, self.table), *self.more)
        return made if isinstance(made, tuple) else (made,)


Case = tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]


def together(*cases: Case) -> OnTokens:
    """Return one module of several functions, so that one trace does for all of them."""

    def function(x: Any, *weights: Any) -> Any:
        made: list[Any] = []
        left = list(weights)
        for one, shapes in cases:
            own, left = left[: len(shapes)], left[len(shapes) :]
            result = one(x, *own)
            made += result if isinstance(result, tuple) else [result]
        return tuple(made)

    return OnTokens(function, *(shape for _, shapes in cases for shape in shapes))


def loss_of(model: Any, tokens: Any) -> tuple[Any, Any]:
    """Return a loss to which every element of every result gives another gradient."""
    made = [y.to(torch.float64) for y in model(tokens)]
    # Results of truth values and integers have no gradient, but the loss has one.
    return sum((torch.tanh(y * (i + 1)) + y * y).mean() for i, y in enumerate(made)) + model.table.mean(), made[0]


def tokens_of(sequences: int, length: int, seed: int = 0) -> Any:
    """Return random tokens."""
    return torch.randint(VOCAB, (sequences, length), generator=torch.Generator().manual_seed(seed))


def traced(module: Any, run: Callable[..., Any] = loss_of) -> Program:
    """Return the program of a module of tokens."""
    return trace(WithLoss(module, run), {"tokens": tokens_of(4, 6)}, {"tokens": ("B", "S")}, "small")


def assert_same(module: Any, block: Block, run: Callable[..., Any] = loss_of, *, close: float = 1e-12) -> None:
    """Check that a block has the loss and the gradients of a module, at sizes that it was not traced with too."""
    parameters = dict(module.named_parameters())
    shape = block.inputs[0].meta.shape
    others = tuple(size if isinstance(size, int) else new for size, new in zip(shape, (3, 5), strict=True))
    for sizes in dict.fromkeys(((4, 6), others)):
        tokens = tokens_of(*sizes, seed=1)
        module.zero_grad()
        expected = run(module, tokens)[0]
        expected.backward()
        # A weight may have other dims for the same elements.
        shapes = {p.name: p.meta.shape for p in block.parameters}
        leaves = {
            name: p.detach().clone().reshape(shapes.get(name, p.shape)).requires_grad_(p.requires_grad)
            for name, p in parameters.items()
        }
        with in_float64():
            loss = run_block(block, {"tokens": tokens, **leaves}, dict(zip("BS", sizes, strict=True)))[block.outputs[0]]
            loss.backward()
        torch.testing.assert_close(loss.detach(), expected.detach(), rtol=close, atol=close)
        for name, parameter in parameters.items():
            mine, its = leaves[name].grad, parameter.grad
            zero = torch.zeros_like(parameter)
            mine = zero if mine is None else mine.reshape(zero.shape)
            torch.testing.assert_close(mine, zero if its is None else its, rtol=100 * close, atol=10 * close,
                                       msg=lambda text, name=name: f"{name}: {text}")  # fmt: skip
